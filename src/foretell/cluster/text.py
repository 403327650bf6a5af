"""A simulation for people: one line per policy, and what they mean."""

from __future__ import annotations

from foretell.cluster.simulate import PolicyOutcome, Simulation
from foretell.spaces.quantities import ENERGY, duration, write_quantity
from foretell.wording import counted, plain

HEADER = (
    "policy", "energy", "tasks", "idle", "makespan", "wait", "completion", "slowdown (p95)",
    "moves", "regret",
)  # fmt: skip


def simulation_rows(simulation: Simulation) -> list[tuple[str, ...]]:
    """Return one row of cells per policy."""
    return [_row(simulation, outcome) for outcome in simulation.outcomes]


def _row(simulation: Simulation, outcome: PolicyOutcome) -> tuple[str, ...]:
    mean = outcome.mean
    limit = "" if simulation.is_exact else "≤ "
    return (
        plain(outcome.label),
        _relative(simulation, outcome),
        write_quantity(mean("task_j"), ENERGY),
        write_quantity(mean("idle_j"), ENERGY),
        duration(mean("makespan_s")),
        duration(mean("mean_wait_s")),
        duration(mean("mean_completion_s")),
        f"{mean('mean_slowdown'):.2f} ({mean('p95_slowdown'):.2f})",
        f"{mean('n_moves'):.3g}",
        f"{limit}{100 * mean('regret'):.3g} %",
    )


def _relative(simulation: Simulation, outcome: PolicyOutcome) -> str:
    total = write_quantity(outcome.mean("total_j"), ENERGY)
    if outcome is simulation.outcomes[0]:
        return total
    change = simulation.against_first(outcome, "total_j")
    if len(simulation.seeds) == 1:
        return f"{total} ({100 * change.mean:+.1f} %)"
    return f"{total} ({100 * change.lower:+.1f} … {100 * change.upper:+.1f} %)"


def simulation_text(simulation: Simulation) -> str:
    """Write a simulation as a table."""
    seeds = counted(len(simulation.seeds), "seed")
    nodes, tasks = counted(simulation.n_nodes, "node"), counted(simulation.n_tasks, "task")
    rows = [HEADER, *simulation_rows(simulation)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEADER))]
    left_out = _n_unplaced(simulation)
    tasks += f" ({left_out} left out)" if left_out else ""
    lines = [f"{tasks}, {nodes}, {seeds}, simulated"]
    for row in rows:
        cells = [
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join([*lines, *remarks(simulation)])


def remarks(simulation: Simulation) -> list[str]:
    """Say what the columns mean, and what to know about them."""
    first = simulation.outcomes[0]
    found = list(filter(None, [_own_weights(simulation)]))
    if len(simulation.outcomes) > 1:
        interval = " with 95 % intervals" if len(simulation.seeds) > 1 else ""
        found.append(f"Energy is that of tasks and idle nodes, against {first.label}{interval}.")
    if not simulation.is_exact:
        found.append(
            "Regret is against every task alone on its best node at once, which no schedule may "
            "reach."
        )
    if len({o.played.H for o in simulation.outcomes}) > 1:
        found.append(
            "Regret weighs energy and time by the H of its row, or else of the cluster file."
        )
    if n := _n_unplaced(simulation):
        fits, are = ("fits", "is") if n == 1 else ("fit", "are")
        found.append(
            f"{counted(n, 'task')} {fits} on no node, even on an empty one, and {are} left out."
        )
    off = [node.name for node in simulation.cluster.node if not node.ready]
    if off:
        found.append(f"Idle energy includes nodes that are not ready: {', '.join(off)}.")
    unmetered = [t.name for t in simulation.cluster.node_type if t.node_type.idle_w is None]
    if unmetered:
        found.append(f"Idle power of {', '.join(unmetered)} is not given and counts as 0.")
    return found


def _n_unplaced(simulation: Simulation) -> int:
    return round(max(o.mean("n_unplaced") for o in simulation.outcomes))


def _own_weights(simulation: Simulation) -> str:
    """Say that the weights of policies do not apply to tasks that have their own."""
    n, n_tasks = simulation.n_own_weights, simulation.n_tasks
    if not n or not any(o.choice.make().needed(0.5) for o in simulation.outcomes):
        return ""
    if n == n_tasks:
        return "All tasks have their own H; the policy's H does not apply."
    have, them = ("has its", "it") if n == 1 else ("have their", "them")
    return f"{n} of {n_tasks} tasks {have} own H; the policy's H does not apply to {them}."
