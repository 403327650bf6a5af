"""Isolation of tasks: a confined process, sealed data, and an interface for enclaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from foretell.tasks.declare import Options
    from foretell.tasks.graph import Graph
    from foretell.tasks.running.places import Place


def open_isolation(options: Options, graph: Graph) -> Place:
    """Open what runs isolated tasks of a graph; it is never weaker than its name says."""
    from foretell.tasks.isolation.enclave import require_enclave
    from foretell.tasks.isolation.sandbox import Sandboxes
    from foretell.tasks.running.places import Processes, refuse_keys

    if options.isolation == "process":
        refuse_keys(graph)
        return Processes(graph.workers, is_isolation=True)
    if options.isolation == "enclave" and options.allow != "sandbox":
        require_enclave()
    return Sandboxes(graph.owner)
