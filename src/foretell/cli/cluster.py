"""`foretell cluster`: the node for each task, and what a policy would save."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from foretell.cli import _options as option
from foretell.cli._output import NOTHING_USABLE, echo, echo_json, echo_unchanged
from foretell.cli.schedule import schedule
from foretell.wording import counted

cluster_argument = option.path_argument("cluster")


@click.group(invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Choose the node for each task, by the time and energy predicted on each type of node.

    CLUSTER is a cluster file (TOML): types of nodes with their models or formulas, and a policy.
    """
    if ctx.invoked_subcommand is None:
        echo(ctx.get_help())


command.add_command(schedule)


@command.command()
@cluster_argument
@option.output("Folder for the sweeps.", default=Path("probe"), show_default=True)
@click.option(
    "--governor",
    "governors",
    multiple=True,
    metavar="NAME",
    help="A frequency governor to try, where the machine grants it; can be repeated.",
)
@option.force
@option.json("Print the files and targets as JSON.")
def probe(
    cluster: Path, output: Path, governors: tuple[str, ...], force: bool, as_json: bool
) -> None:
    """Write the sweeps that teach foretell each type of node.

    Run them on a node of that type with `foretell measure`, and fit two models from the table.
    """
    from foretell.cluster.probe import write_probes

    found = write_probes(cluster, output, governors=governors, force=force)
    if as_json:
        echo_json(
            [
                {"type": p.name, "idle": str(p.idle), "sweep": str(p.sweep), "n_runs": p.n_runs,
                 "targets": list(p.targets)}
                for p in found
            ]
        )  # fmt: skip
        return
    for p in found:
        time, energy = p.targets
        echo(f"{p.name}: {counted(p.n_runs, 'run')}. On a node of this type:")
        echo(f"  foretell measure {p.idle} -o {p.name}-idle.csv")
        echo(f"  foretell measure {p.sweep} -o {p.name}.csv")
        echo(f"  foretell fit {p.name}.csv --target {time} --target {energy} -o models/{p.name}")


@command.command()
@cluster_argument
@click.option(
    "--task",
    metavar="NAME=VALUE,...",
    help="What the task needs, and its features: cpu=2,memory=1Gi,iterations=800.",
)
@click.option(
    "--H", "weight", metavar="SHARE", help="Weight of energy: 1 energy alone, 0 speed alone."
)
@click.option("--policy", metavar="POLICY", help="How nodes are scored, instead of the file's way.")
@click.option("--seed", type=int, default=0, show_default=True, help="Decides among equals.")
@click.option(
    "--as",
    "form",
    metavar="FORM",
    help="Print it for another scheduler: peaks, affinity or kueue; peaks needs no task.",
)
@option.json("Print the ranked nodes as JSON.")
def place(
    cluster: Path,
    task: str | None,
    weight: str | None,
    policy: str | None,
    seed: int,
    form: str | None,
    as_json: bool,
) -> None:
    """Rank the nodes for a task, and say why others are out.

    The exit code is 1 when no node can take the task.
    """
    from foretell.adapters.placement_handoff import PEAKS, check_form, hand_off_placement
    from foretell.cluster.place import place_task
    from foretell.decide.placement.tasks import read_h

    if form is not None:
        check_form(form)
    if task is None and form != PEAKS:
        raise click.MissingParameter(param_hint="'--task'", param_type="option")
    H = None if weight is None else read_h(weight)
    if form is not None:
        echo_unchanged(hand_off_placement(cluster, task, form, H=H, policy=policy))
        return
    assert task is not None
    found = place_task(cluster, task, H=H, policy=policy, seed=seed)
    if as_json:
        echo_json(found.to_json())
    else:
        echo(str(found), err=found.chosen is None)
    if found.chosen is None:
        sys.exit(NOTHING_USABLE)


@command.command()
@cluster_argument
@option.path("--tasks", metavar="CSV", help="Tasks that arrive; otherwise made up as [trace] says.")
@click.option(
    "--policy",
    metavar="POLICY,...",
    help="Policies with their settings: kube,heats:H=0,geometric:H=1:moves=on.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="The first seed.")
@click.option(
    "--seeds", "n_seeds", type=int, default=1, show_default=True, help="How many seeds to try."
)
@option.output("Write a report (.html, .md, .pdf), or all tasks (.csv).")
@option.force
@option.json("Print all figures as JSON.")
def simulate(
    cluster: Path,
    tasks: Path | None,
    output: Path | None,
    force: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Play tasks on a cluster under several policies, and compare energy and times.

    The same seed gives the same output, byte for byte.
    """
    from foretell.cluster.simulate import simulate_cluster, simulate_weights
    from foretell.files.directory import check_new, write_new
    from foretell.report.write import choose_form

    is_table = output is not None and output.suffix.lower() == ".csv"
    if output is not None:  # what cannot be written is refused before the work
        check_new(output, force=force)
        if not is_table:
            choose_form(output, None)
    found = simulate_cluster(cluster, tasks, **given)
    if as_json:
        echo_json(found.to_json())
    else:
        echo(str(found))
    if output is None:
        return
    if is_table:
        write_new(output, found.tasks().to_csv(index=False).encode(), force=force)
        echo(f"{output} written.", err=True)
        return
    from foretell.report.placement import recommendation, write_simulation

    sweep = simulate_weights(cluster, tasks, **given)
    report = write_simulation(found, sweep, output, force=force)
    if not as_json and (advice := recommendation(sweep)):
        echo(advice)
    echo(f"{report.path}   {report.n_bytes / 1000:.0f} kB", err=True)


@command.command()
@cluster_argument
@option.jobs
@option.json("Print what became of each model as JSON.")
def maintain(cluster: Path, jobs: int | None, as_json: bool) -> None:
    """Refit models on the tasks that completed, and promote those that are not worse.

    A model is promoted if its error on the newest fifth of the tasks does not grow; the old one is
    kept. After an interruption, the same command goes on. The exit code is 1 when no refit worked.
    """
    from foretell.cluster.maintenance.maintain import maintain_models
    from foretell.executors import n_cores

    found = maintain_models(cluster, n_jobs=n_cores() if jobs is None else jobs)
    if as_json:
        echo_json(found.to_json())
    else:
        echo(str(found))
    if all(outcome.verdict == "failed" for outcome in found.models):
        sys.exit(NOTHING_USABLE)
