"""The report of a simulated cluster: the table of policies, the front, H, and nodes over time."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from foretell._version import __version__
from foretell.cluster.simulate import PolicyOutcome, Simulation, WeightSweep
from foretell.cluster.text import HEADER, remarks, simulation_rows
from foretell.files.directory import check_new
from foretell.report.document import Document, Fact, Paragraph, Picture, Section, Table
from foretell.report.pictures.placement import (
    Load,
    Point,
    Weights,
    draw_front,
    draw_load,
    draw_weights,
)
from foretell.report.write import Report, choose_form, write_document
from foretell.spaces.quantities import ENERGY, duration, write_quantity
from foretell.wording import counted, plain

_N_MOMENTS = 400
_KEPT = 0.8  # of the saving, by which a weight is recommended


def write_simulation(
    simulation: Simulation, sweep: WeightSweep | None, output: str | Path, *, force: bool = False
) -> Report:
    """Write a simulation as one file to look at.

    ``sweep`` has the same tasks under one policy with several weights of energy.
    """
    path, form = Path(output), choose_form(output, None)
    check_new(path, force=force)
    document = _document(simulation, sweep)
    sizes = [len(content) for content in write_document(document, path, form, force=force)]
    return Report(path, sum(sizes), tuple(s.title for s in document.sections), ())


def recommendation(sweep: WeightSweep) -> str | None:
    """Name the weight that keeps most of the saving for the least time; None if nothing is saved.

    The first policy of the simulation is the one to compare with.
    """
    against_first = sweep.simulation.against_first
    changes = [
        (o.choice.H or 0.0, against_first(o, "total_j").mean,
         against_first(o, "mean_completion_s").mean)
        for o in sweep.outcomes
    ]  # fmt: skip
    saving = -min((energy for _, energy, _ in changes), default=0.0)
    if saving <= 0:
        return None
    H, energy, time = min(
        (c for c in changes if -c[1] >= _KEPT * saving), key=lambda change: change[2]
    )
    against = sweep.simulation.outcomes[0].label
    share = 100 * -energy / saving
    what = "saves most" if round(share) == 100 else f"keeps {share:.0f} % of the largest saving"
    return (
        f"{sweep.title}, swept over H: H = {H:g} {what} ({100 * -energy:.1f} % of total energy), "
        f"with completion times {100 * time:+.1f} %, against {against}."
    )


def _verdict(simulation: Simulation) -> str:
    """Say what the policies of the table save."""
    first = simulation.outcomes[0]
    best = min(simulation.outcomes, key=lambda o: o.mean("total_j"))
    if best is first:
        return f"No policy of the table takes less energy than {plain(first.label)}."
    energy, time = (
        simulation.against_first(best, name).mean for name in ("total_j", "mean_completion_s")
    )
    return (
        f"{plain(best.label)} takes {100 * -energy:.1f} % less energy than {plain(first.label)}, "
        f"with completion times {100 * time:+.1f} %."
    )


def _document(simulation: Simulation, sweep: WeightSweep | None) -> Document:
    nodes, tasks = counted(simulation.n_nodes, "node"), counted(simulation.n_tasks, "task")
    best = min(simulation.outcomes, key=lambda o: o.mean("total_j"))
    fastest = min(simulation.outcomes, key=lambda o: o.mean("mean_completion_s"))
    change = simulation.against_first(best, "total_j")
    sections = [_table_section(simulation)]
    if sweep is not None:
        sections.append(_weights_section(simulation, sweep))
    sections.append(_load_section(simulation))
    advice = None if sweep is None else recommendation(sweep)
    return Document(
        title="A simulated cluster",
        lead=f"{tasks} on {nodes}, {counted(len(simulation.seeds), 'seed')}. All figures are "
        "simulated.",
        facts=(
            Fact("least energy", write_quantity(best.mean("total_j"), ENERGY), plain(best.label)),
            Fact("against " + plain(simulation.outcomes[0].label), f"{100 * change.mean:+.1f} %",
                 "total energy"),
            Fact("fastest", duration(fastest.mean("mean_completion_s")), plain(fastest.label)),
        ),
        trust=" ".join(filter(None, (_verdict(simulation), advice and plain(advice)))),
        notes=tuple(remarks(simulation)),
        sections=tuple(sections),
        foot=f"Written by foretell {__version__}.",
    )  # fmt: skip


def _table_section(simulation: Simulation) -> Section:
    table = Table("What each policy comes to", HEADER, tuple(simulation_rows(simulation)))
    return Section("policies", "The policies", (table,))


def _weights_section(simulation: Simulation, sweep: WeightSweep) -> Section:
    first, others = sweep.simulation.outcomes[0], sweep.outcomes
    energy = [sweep.simulation.against_first(o, "total_j") for o in others]
    time = [sweep.simulation.against_first(o, "mean_completion_s") for o in others]
    H = np.array([o.choice.H or 0.0 for o in others])
    weights = Weights(
        H,
        np.array([i.mean for i in energy]),
        (np.array([i.lower for i in energy]), np.array([i.upper for i in energy])),
        np.array([i.mean for i in time]),
        (np.array([i.lower for i in time]), np.array([i.upper for i in time])),
        first.label,
    )
    rows = [
        (f"{h:g}", f"{100 * e.mean:+.1f} %", f"{100 * t.mean:+.1f} %")
        for h, e, t in zip(H, energy, time, strict=True)
    ]
    numbers = Table("Against " + plain(first.label), ("H", "energy", "completion"), tuple(rows))
    points = [_point(o) for o in (*simulation.outcomes, *others)]
    points = list({p.label: p for p in points}.values())
    front = Table(
        "Each policy", ("policy", "mean completion time", "total energy"),
        tuple((plain(p.label), duration(p.time_s), write_quantity(p.energy_j, ENERGY))
              for p in points),
    )  # fmt: skip
    return Section(
        "weights",
        "Energy against speed",
        (
            Paragraph(
                f"H weighs energy against time. The policy is {plain(sweep.base.name)} with "
                f"{plain(sweep.settings)}. Bands are 95 % intervals over the seeds."
            ),
            Picture(
                "weights", "Energy and time against H",
                f"From {rows[0][1]} energy at H = {rows[0][0]} to {rows[-1][1]} at "
                f"H = {rows[-1][0]}.",
                partial(draw_weights, weights), numbers, is_small=True,
            ),
            Picture(
                "front", "The front of energy and time", "Lower left is better.",
                partial(draw_front, points), front, is_small=True,
            ),
        ),
    )  # fmt: skip


def _point(outcome: PolicyOutcome) -> Point:
    choice = outcome.choice
    family = replace(choice, H=None).label
    return Point(
        outcome.label, family, family if choice.H is None else f"H={choice.H:g}",
        outcome.mean("mean_completion_s"), outcome.mean("total_j"),
    )  # fmt: skip


def _load_section(simulation: Simulation) -> Section:
    pictures = []
    for i, outcome in enumerate(simulation.outcomes):
        load = load_of(simulation, outcome)
        means = ", ".join(f"{plain(n)} {100 * s.mean():.0f} %" for n, s in load.shares.items())
        pictures.append(
            Picture(
                f"nodes-{i + 1}", f"Nodes over time, {plain(outcome.label)}",
                f"Mean share of CPUs in use: {means}.", partial(draw_load, load), is_small=True,
            )
        )  # fmt: skip
    used = any(node.resources.cpus for node in simulation.cluster.node)
    before = ", with what was in use before" if used else ""
    seed = simulation.seeds[0]
    text = f"The share of CPUs in use on each type of node{before}, with seed {seed}."
    return Section("nodes", "Nodes over time", (Paragraph(text), *pictures))


def load_of(simulation: Simulation, outcome: PolicyOutcome) -> Load:
    """Compute the share of CPUs in use by node type, at moments that are evenly spaced."""
    stays, cluster = outcome.played.stays, simulation.cluster
    type_of = {name: t.name for t in cluster.node_type for name in t.node_names}
    names = sorted(type_of)
    start = min((s.start_s for s in stays), default=0.0)
    end = max((s.end_s for s in stays), default=start + 1.0)
    at_s = np.linspace(start, end, _N_MOMENTS)
    shares = {}
    for table in cluster.node_type:
        own = [s for s in stays if type_of[names[s.node]] == table.name]
        total = np.zeros(_N_MOMENTS)
        if own:
            starts, ends, cpus = (
                np.array([getattr(s, part) for s in own]) for part in ("start_s", "end_s", "cpus")
            )
            order, other = np.argsort(starts), np.argsort(ends)
            began = np.append(0.0, np.cumsum(cpus[order]))
            ended = np.append(0.0, np.cumsum(cpus[other]))
            total = (
                began[np.searchsorted(starts[order], at_s, side="right")]
                - ended[np.searchsorted(ends[other], at_s, side="right")]
            )
        before = sum(n.resources.cpus for n in cluster.node if type_of[n.name] == table.name)
        total = total + before
        n_cpus = table.node_type.capacity.cpus * len(table.node_names)
        shares[table.name] = total / max(n_cpus, 1e-9)
    return Load(at_s - start, shares)
