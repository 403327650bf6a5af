"""The knob of threads: on how many cores Torch computes an operation."""

from __future__ import annotations

from foretell.tune.knobs._base import Knob, Surroundings, Value, check_count


class ThreadsKnob(Knob):
    """Threads of Torch's operations; they belong to the process, not to a training.

    Sums are split in other places, so that results differ in the last digits.
    """

    def read(self) -> Value:
        """Return how many threads Torch uses."""
        import torch

        return int(torch.get_num_threads())

    def apply(self, value: Value) -> None:
        """Set them, for the thread that trains."""
        import torch

        torch.set_num_threads(int(value))

    def check(self, value: Value) -> None:
        """Accept whole numbers from 1 on."""
        check_count("threads", value, 1)

    def refusal(self, around: Surroundings) -> str | None:
        """Refuse if several trainings share this process."""
        if around.n_in_process > 1:
            return (
                f"threads belong to the process, and {around.why_shared}; run trials one at a "
                "time in each process"
            )
        return None

    def n_cores(self, value: Value) -> float:
        """Return one core for each thread."""
        return float(value)

    def prior(self, value: Value, against: Value) -> tuple[float, float]:
        """Between a perfect speed-up and losing as much: more threads are often slower."""
        ratio = float(against) / float(value)
        return (0.9 * min(ratio, 1 / ratio), 1.1 * max(ratio, 1 / ratio))
