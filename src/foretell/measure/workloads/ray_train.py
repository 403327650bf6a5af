"""The ray_train workload: distributed training with PyTorch on Ray, timed stage by stage."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic

from foretell.errors import UsageError, suggest
from foretell.executors.cluster import (
    check_cluster,
    check_room,
    connect,
    is_installed,
    set_environment,
)
from foretell.files.typed import validated
from foretell.machines import Needs
from foretell.measure.workloads._base import Numbers, Options, RunFailedError, Watch, Workload
from foretell.measure.workloads._digits import read_mnist
from foretell.measure.workloads._launchers import ActorsLauncher, TrainerLauncher
from foretell.measure.workloads._own_code import load_function
from foretell.measure.workloads._training import Job, WorkerReport
from foretell.spaces.values import Scalar

Count = Annotated[int, pydantic.Field(ge=1)]
_DERIVED = ("num_cpus", "launcher")
#: Ray Train checks every 2 s whether workers have ended, and the wait would be measured as well.
_ENVIRONMENT = {"RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.2"}
#: Ray then listens on the loopback address alone. An address given to ray.init would not do: Ray
#: replaces the loopback address by one that other machines can reach.
_ALONE = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}


class RayTrainOptions(Options):
    """How the training is launched, and with what.

    Attributes
    ----------
    launcher
        ``trainer`` is Ray Train's TorchTrainer. ``actors`` are plain Ray actors that stay alive
        from run to run: fast, and good for the stages inside the loop; but their ``train``,
        ``fit`` and ``startup`` are not those of Ray Train.
    images
        The folder with MNIST's four idx files, relative to the sweep file. Without it the images
        are scikit-learn's digits, enlarged. Either are repeated up to ``num_images``.
    train_function
        ``module:function`` of your own, installed or beside the sweep file. Each worker calls it
        with the parameters, which are then free, and a timer for stages.
    address
        A Ray cluster that is there, ``auto`` for the one of this machine; without it, Ray is
        started here for the sweep. Meters see what runs below foretell: of a cluster that was
        there before, they see nothing, and take it for the load of others.
    cpus
        How many CPUs that Ray believes to have; more than there are lets workers share them.
    object_store_mib
        The memory that Ray sets aside for objects; training needs next to none.
    """

    launcher: Literal["trainer", "actors"] = "trainer"
    images: str | None = None
    train_function: str | None = None
    address: str | None = None
    cpus: Count | None = None
    object_store_mib: Annotated[int, pydantic.Field(ge=80)] = 128

    @pydantic.model_validator(mode="after")
    def _fit_together(self) -> RayTrainOptions:
        if self.address is not None and self.cpus is not None:
            raise ValueError("cpus is for a Ray of its own; a cluster with an address has its own")
        if self.train_function is not None and self.images is not None:
            raise ValueError("images are for the built-in training; remove train_function or them")
        return self


class Workers(Options):
    """The parameters that say who trains: n workers with j CPUs each."""

    workers: Count = 1
    cpus_per_worker: Count = 1
    gpus_per_worker: Annotated[int, pydantic.Field(ge=0)] = 0


class Training(Workers):
    """The parameters of the built-in training; the batch size is that of each worker."""

    model: Literal["small", "large"] = "small"
    num_images: Count = 10_000
    batch_size: Count = 64
    epochs: Count = 1
    learning_rate: Annotated[float, pydantic.Field(gt=0, allow_inf_nan=False)] = 0.01


class RayTrainWorkload(Workload):
    """Train on several workers, and report the seconds of each stage.

    ``train`` is all that a user calls; ``fit`` the training itself, without making the trainer;
    ``startup`` lasts until the first worker enters the training function. ``data_loading`` makes
    the images, ``training_loop`` holds all epochs, ``train_epoch`` and ``validate_epoch`` are one
    epoch. ``all_reduce`` is the time of the loop in which gradients were under way between workers.
    Stages on workers are means over workers and epochs, and ``<stage>_max_s`` is the slowest
    worker. Ray starts once and serves all runs; its start is part of no stage.
    """

    options: RayTrainOptions
    options_class = RayTrainOptions
    shares_process = True
    times_itself = True
    is_spread = True

    def __init__(self, options: Any, folder: Path) -> None:
        super().__init__(options, folder)
        is_trainer = self.options.launcher == "trainer"
        self._launcher = TrainerLauncher() if is_trainer else ActorsLauncher()

    @property
    def _images(self) -> Path | None:
        name = self.options.images
        return None if name is None else (self.folder / name).resolve()

    def check(self, names: Sequence[str]) -> None:
        """Refuse unknown parameters, images that are not MNIST's, and missing functions."""
        for name in ("ray", "torch"):
            if not is_installed(name):
                raise UsageError(
                    f"workload.use: ray_train needs {name}; run: pip install 'foretell[ray]'"
                )
        for name in names:
            if name in _DERIVED:
                raise UsageError(f"parameters.{name}: ray_train writes this column; remove it")
            if name not in Training.model_fields and self.options.train_function is None:
                raise UsageError(
                    f"parameters.{name}: ray_train has no such parameter. "
                    f"{suggest(name, Training.model_fields)}"
                )
        if self._images is not None:
            read_mnist(self._images)
        if self.options.train_function is not None:
            load_function(self.options.train_function, self.folder, "workload.train_function")

    def derived(self, configuration: Mapping[str, Any]) -> dict[str, Scalar]:
        """Return the total of CPUs, and the launcher, so that times of the two are told apart."""
        job = self._job(configuration)
        return {"num_cpus": job.workers * job.cpus, "launcher": self.options.launcher}

    def needs(self, configuration: Mapping[str, Any]) -> Needs:
        """Return the CPUs and GPUs of each worker."""
        return self._job(configuration).needs

    def run(self, configuration: Mapping[str, Any], watch: Watch) -> Numbers | None:
        """Train once."""
        try:
            job = self._job(configuration)
            self._connect()
            check_room(job.needs)
        except UsageError as error:
            raise RunFailedError(str(error)) from None
        self._launcher.prepare(job)
        with watch.job():
            asked_at = time.time()
            with watch.stage("train"):
                reports = self._launcher.launch(job, watch)
        watch.add("startup", min(r.entered_at for r in reports) - asked_at)
        _add_stages(reports, watch)
        return {**reports[0].numbers, "stages": _details(reports)}

    def _connect(self) -> None:
        """Start Ray here, or connect to a cluster; later runs use the same connection."""
        o = self.options
        # On a cluster, this variable has its address.
        address = o.address or (None if o.cpus else os.environ.get("RAY_ADDRESS"))
        set_environment(_ENVIRONMENT if address is not None else {**_ENVIRONMENT, **_ALONE})
        import ray
        import ray.train.torch  # so that its import is not measured

        if ray.is_initialized():
            return
        if address is not None and address != "auto":
            check_cluster(address)
        local = {"num_cpus": o.cpus, "object_store_memory": o.object_store_mib * 2**20}
        connect(address, local=local)

    def _job(self, configuration: Mapping[str, Any]) -> Job:
        is_own = self.options.train_function is not None
        kind = Workers if is_own else Training
        values = {n: v for n, v in configuration.items() if n in kind.model_fields}
        settings = validated(kind, values, "parameters")
        return Job(
            workers=settings.workers,
            cpus=settings.cpus_per_worker,
            gpus=settings.gpus_per_worker,
            settings={} if is_own else settings.model_dump(),
            configuration={n: v for n, v in configuration.items() if n not in _DERIVED},
            images=None if self._images is None else str(self._images),
            train_function=self.options.train_function,
            folder=str(self.folder),
        )


def _add_stages(reports: Sequence[WorkerReport], watch: Watch) -> None:
    """Record each stage by its mean over workers and epochs, and by that of the slowest worker."""
    for name in dict.fromkeys(name for report in reports for name in report.stages_s):
        by_worker = [r.stages_s[name] for r in reports if name in r.stages_s]
        means = [sum(times) / len(times) for times in by_worker]
        watch.add(name, sum(map(sum, by_worker)) / sum(map(len, by_worker)))
        watch.add(f"{name}_max", max(means))


def _details(reports: Sequence[WorkerReport]) -> str:
    """Write every time of every stage as JSON, one list per worker."""
    names = dict.fromkeys(name for report in reports for name in report.stages_s)
    rounded = {
        name: [[round(s, 6) for s in report.stages_s.get(name, [])] for report in reports]
        for name in names
    }
    return json.dumps(rounded, separators=(",", ":"))
