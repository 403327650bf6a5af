"""Which epochs are worth keeping: not those that others disturbed, nor those that vary wildly."""

from __future__ import annotations

import statistics

from foretell.tune.hook.clock import Measured
from foretell.tune.hook.policy import Choice, Moment
from foretell.tune.store.rows import packed

#: Epochs of one setting that differ more than this from their median are not kept.
_MOST_VARIATION = 0.20
#: Cores kept busy by other programs from which on an epoch is not kept.
MOST_LOAD = 0.3
#: From so many epochs of a setting on, it is known how long they usually take.
_LEAST_EPOCHS = 2
#: Why an epoch is not kept, as users read it.
DISTURBED = "other programs used the machine"
VARYING = "epochs of the same setting vary by more than 20 %"


class Steadiness:
    """Remembers the epochs of one training, to tell which are typical."""

    def __init__(self) -> None:
        self._seen: dict[str, list[float]] = {}

    def refusal(self, choice: Choice, moment: Moment, measured: Measured) -> str | None:
        """Return why an epoch does not say how long such epochs take; None if it does."""
        if measured.load_others > MOST_LOAD:
            return DISTURBED
        seen = self._seen.get(_key(choice, moment), [])
        if moment.is_first or len(seen) < _LEAST_EPOCHS:
            return None
        usual_s = statistics.median(seen)
        is_usual = abs(measured.epoch_s - usual_s) <= _MOST_VARIATION * usual_s
        return None if is_usual else VARYING

    def add(self, choice: Choice, moment: Moment, measured: Measured) -> None:
        """Remember an epoch, whether it is kept or not: what is usual may change."""
        if not moment.is_first:
            self._seen.setdefault(_key(choice, moment), []).append(measured.epoch_s)


def _key(choice: Choice, moment: Moment) -> str:
    return packed({**choice.setting, "is_shared": moment.is_shared})
