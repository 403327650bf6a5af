"""The best policy: the optimum for all tasks that wait, by integer programming; small cases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foretell.decide.placement.policies.geometric import GeometricPolicy

if TYPE_CHECKING:
    from foretell.decide.placement.optimum import Problem


class BestPolicy(GeometricPolicy):
    """Place all waiting tasks at once, so that the sum of their costs is least.

    A cost is (E/min E)^H · (T/min T)^(1−H), as in the geometric policy. A single task gets the
    node that the geometric policy would choose.
    """

    together = "waiting"

    def assign(self, problem: Problem) -> list[int | None] | None:
        """Solve the assignment with HiGHS; None if there are too many pairs."""
        from foretell.decide.placement.optimum import solve

        return solve(problem) if problem.is_small else None
