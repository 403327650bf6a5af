"""A Trainable of Ray Tune whose system settings are tuned from epoch to epoch."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ray import tune

from foretell.tune.hook.context import RAY, Context
from foretell.tune.hook.loop import Pipeline
from foretell.tune.hook.start import PipelineOptions, make_pipeline

LOG = logging.getLogger("foretell.tune")


class PipelineTrainable(tune.Trainable):  # type: ignore[misc]
    """Base class for trainings in the form of a class: a step is one epoch.

    Subclasses have ``setup``, ``save_checkpoint`` and ``load_checkpoint`` as any Trainable has,
    and ``train_epoch`` in place of ``step``. With ``reset_config``, make loaders anew in it: each
    trial has a hook of its own.

    Attributes
    ----------
    job, settings, options
        What ``pipeline`` takes.
    max_epochs
        How many epochs a trial has at most; without, nothing is tried.
    """

    job: ClassVar[str] = "ray"
    settings: ClassVar[Mapping[str, Sequence[Any]]] = {"threads": [1, 2]}
    options: ClassVar[PipelineOptions] = {}
    max_epochs: ClassVar[int | None] = None

    _knobs: Pipeline | None = None
    _has_entered: bool = False

    def train_epoch(self) -> dict[str, Any]:
        """Train one epoch, and return what is reported of it."""
        raise NotImplementedError(f"{type(self).__name__} needs a method train_epoch")

    @property
    def knobs(self) -> Pipeline:
        """The hook; its ``loader`` makes loaders whose workers are tuned.

        It begins with the first step, so that loaders made in ``setup`` say where tuning starts.
        """
        if self._knobs is None:
            resources = self.trial_resources
            lease = resources.required_resources.get("CPU") if resources is not None else None
            context = Context(RAY, self.job, str(self.trial_id), dict(self.config), lease)
            self._knobs = make_pipeline(context, self.settings, self.options)
        return self._knobs

    def step(self) -> dict[str, Any]:
        """Train one epoch under the setting chosen for it.

        If it fails, the setting on trial stays marked, and is not tried again when the trial goes
        on from its checkpoint.
        """
        knobs = self.knobs
        if not self._has_entered:
            self._has_entered = True
            knobs.step(knobs.enter)
        knobs.step(knobs.before, self.iteration, self.max_epochs)
        try:
            result = self.train_epoch()
        except BaseException:
            knobs.leave()
            raise
        knobs.step(knobs.after)
        return result

    def reset(self, new_config: dict[str, Any], storage: Any = None) -> bool:
        """Leave the hook of the trial before: with ``reuse_actors``, each trial has its own.

        What subclasses do in ``cleanup`` is for the end of the process.
        """
        if self._knobs is not None:
            self._knobs.leave()
        self._knobs, self._has_entered = None, False
        return bool(super().reset(new_config, storage))

    def cleanup(self) -> None:
        """Put settings back."""
        if self._knobs is not None:
            self._knobs.leave()
