"""Launchers: two ways to start the workers of a distributed training on a Ray that runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from foretell.errors import error_lines
from foretell.measure.workloads._base import RunFailedError, Watch
from foretell.measure.workloads._training import (
    Job,
    WorkerFailedError,
    WorkerReport,
    import_all,
    work,
)

_MOST_REASON = 300
_READY_LIMIT_S = 60.0


class TrainerLauncher:
    """Ray Train's TorchTrainer: new workers for each run, as its users have them."""

    def prepare(self, job: Job) -> None:
        """Do nothing: all that Ray Train does is measured."""

    def launch(self, job: Job, watch: Watch) -> list[WorkerReport]:
        """Make a trainer, time ``fit``, and return the report of each worker."""
        from ray import train
        from ray.train.torch import TorchConfig, TorchTrainer

        resources = {"CPU": job.cpus} | ({"GPU": job.gpus} if job.gpus else {})
        trainer = TorchTrainer(
            _work_in_trainer,
            train_loop_config={"job": asdict(job)},
            torch_config=TorchConfig(backend=backend(job)),
            scaling_config=train.ScalingConfig(
                num_workers=job.workers,
                use_gpu=job.gpus > 0,
                resources_per_worker=resources,
            ),
            run_config=train.RunConfig(storage_path=str(watch.scratch.resolve())),
        )
        try:
            with watch.stage("fit"):
                result = trainer.fit()
        except train.TrainingFailedError as error:
            raise _failure(getattr(error, "worker_failures", {}), error) from None
        return [WorkerReport(**report) for report in result.return_value]


def _work_in_trainer(given: dict[str, Any]) -> list[dict[str, Any]]:
    """Work, and gather the reports of all workers: Ray keeps only what the first returns."""
    from ray.train.torch import get_device
    from torch import distributed

    report = asdict(work(Job(**given["job"]), get_device()))
    reports: list[dict[str, Any]] = [{}] * distributed.get_world_size()
    distributed.all_gather_object(reports, report)
    return reports


class ActorsLauncher:
    """Plain Ray actors that stay alive from run to run, so that only the work itself costs time.

    Actors are added when a run needs more of them. Those it does not need sit idle.
    """

    def __init__(self) -> None:
        self._actors: list[Any] = []
        self._resources = (0, 0)
        self._n_grouped = 0

    def prepare(self, job: Job) -> None:
        """Make sure that there are enough actors, and join as many as needed to a process group."""
        import ray

        if self._resources != (job.cpus, job.gpus):
            self._dismiss()
            self._resources = (job.cpus, job.gpus)
        kind = ray.remote(num_cpus=job.cpus, num_gpus=job.gpus)(_Member)
        while len(self._actors) < job.workers:
            self._actors.append(kind.remote())
        if self._n_grouped != job.workers:
            self._group(job)

    def launch(self, job: Job, watch: Watch) -> list[WorkerReport]:
        """Let the actors work, time it as ``fit``, and return their reports."""
        with watch.stage("fit"):
            return self._all([a.work.remote(job) for a in self._actors[: job.workers]])

    def _group(self, job: Job) -> None:
        members = self._actors[: job.workers]
        self._await_start(job, [a.leave.remote() for a in self._actors])
        [(host, port)] = self._all([members[0].host.remote()])
        joining = [
            member.join.remote(host, port, rank, job.workers, backend(job))
            for rank, member in enumerate(members)
        ]
        self._all(joining)
        self._n_grouped = job.workers

    def _await_start(self, job: Job, pending: list[Any]) -> None:
        """Wait until all actors have started; others may use the cluster, and never leave."""
        import ray

        _, late = ray.wait(pending, num_returns=len(pending), timeout=_READY_LIMIT_S)
        if late:
            self._dismiss()
            raise RunFailedError(
                f"{len(late)} of {job.workers} workers did not start within {_READY_LIMIT_S:g} s; "
                "others may use the Ray cluster"
            )
        self._all(pending)

    def _all(self, pending: list[Any]) -> list[Any]:
        """Wait for all; as soon as one fails, end the others, which may wait for it forever."""
        import ray

        waiting = list(pending)
        while waiting:
            (ended, *_), waiting = ray.wait(waiting, num_returns=1)
            try:
                ray.get(ended)
            except ray.exceptions.RayError as error:
                self._dismiss()
                raise _failure({pending.index(ended): error}, error) from None
        found: list[Any] = ray.get(pending)
        return found

    def _dismiss(self) -> None:
        import ray

        for actor in self._actors:
            ray.kill(actor)
        self._actors, self._n_grouped = [], 0


class _Member:
    """One actor: a worker of one process group after another."""

    def __init__(self) -> None:
        self._store: Any = None

    def host(self) -> tuple[str, int]:
        """Open the store through which a new group meets; return its address."""
        from ray.util import get_node_ip_address
        from torch.distributed import TCPStore

        host = get_node_ip_address()
        self._store = TCPStore(host, 0, is_master=True, wait_for_workers=False)
        return host, self._store.port

    def join(self, host: str, port: int, rank: int, n: int, name: str) -> None:
        """Become one of n workers, ready to work."""
        from torch import distributed

        import_all()
        store = self._store or distributed.TCPStore(host, port, is_master=False)
        distributed.init_process_group(name, store=store, rank=rank, world_size=n)

    def leave(self) -> None:
        """Leave the group, if in any."""
        from torch import distributed

        if distributed.is_initialized():
            distributed.destroy_process_group()
        self._store = None

    def work(self, job: Job) -> WorkerReport:
        """Do one worker's part of a run."""
        import torch

        return work(job, torch.device("cuda" if job.gpus else "cpu"))


def backend(job: Job) -> str:
    """Return what workers talk through: nccl between GPUs, otherwise gloo."""
    return "nccl" if job.gpus else "gloo"


def _failure(by_rank: Mapping[int, Any], error: Exception) -> RunFailedError:
    """Say which worker failed and why."""
    if not by_rank:
        return RunFailedError(_reason(error))
    reasons = [f"worker {rank}: {_reason(why)}" for rank, why in sorted(by_rank.items())]
    return RunFailedError("; ".join(reasons))


def _reason(error: Any) -> str:
    """Return the last line of a traceback, the error, without the causes that Ray guesses."""
    own = error_lines(error)[-1].rpartition(f"{WorkerFailedError.__name__}: ")[2]
    return own.partition(" Some common causes")[0][:_MOST_REASON]
