"""foretell: how long a job will take and how much energy it will burn, before it runs.

>>> import foretell
>>> model = foretell.load_model("models/")             # doctest: +SKIP
>>> model.predict(new_configurations)                  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foretell._version import __version__ as __version__
from foretell.late_names import late_names

if TYPE_CHECKING:
    from foretell.adapters.dispatcher.dispatcher import Dispatcher as Dispatcher
    from foretell.adapters.optuna_study import read_optuna_study as read_optuna_study
    from foretell.adapters.placement_handoff import hand_off_placement as hand_off_placement
    from foretell.adapters.ray_results import read_ray_results as read_ray_results
    from foretell.adapters.serving_handoff import hand_off_deployment as hand_off_deployment
    from foretell.adapters.spark.learning import learn_queue as learn_queue
    from foretell.adapters.spark.pruning import prune_partitions as prune_partitions
    from foretell.approximate import Estimate as Estimate
    from foretell.approximate import estimate_count as estimate_count
    from foretell.approximate import estimate_sum as estimate_sum
    from foretell.approximate import kept_partitions as kept_partitions
    from foretell.cluster.maintenance.maintain import maintain_models as maintain_models
    from foretell.cluster.maintenance.outcome import Maintained as Maintained
    from foretell.cluster.place import place_task as place_task
    from foretell.cluster.probe import Probe as Probe
    from foretell.cluster.probe import ProbeOptions as ProbeOptions
    from foretell.cluster.probe import write_probes as write_probes
    from foretell.cluster.simulate import Simulation as Simulation
    from foretell.cluster.simulate import simulate_cluster as simulate_cluster
    from foretell.corun.group import Grouping as Grouping
    from foretell.corun.group import group_jobs as group_jobs
    from foretell.corun.machine import measure_machine as measure_machine
    from foretell.corun.measuring.measure import measure_co_runs as measure_co_runs
    from foretell.corun.models.score import fit_co_runs as fit_co_runs
    from foretell.corun.models.score import score_co_runs as score_co_runs
    from foretell.corun.predict import Together as Together
    from foretell.corun.predict import predict_together as predict_together
    from foretell.corun.predict import slowdown as slowdown
    from foretell.corun.profile import Profile as Profile
    from foretell.corun.profile import profile_job as profile_job
    from foretell.corun.profile import read_profile as read_profile
    from foretell.corun.profile import write_profile as write_profile
    from foretell.dataset import Dataset as Dataset
    from foretell.dataset import read_dataset as read_dataset
    from foretell.decide.advise.advice import Advice as Advice
    from foretell.decide.advise.next_run import advise as advise
    from foretell.decide.placement.answer import Placement as Placement
    from foretell.decide.plan.answer import Plan as Plan
    from foretell.decide.plan.plan import make_plan as make_plan
    from foretell.deploy.answer import Deployment as Deployment
    from foretell.deploy.choose import choose_deployment as choose_deployment
    from foretell.deploy.deployable import Deployable as Deployable
    from foretell.errors import DatasetError as DatasetError
    from foretell.errors import ForetellError as ForetellError
    from foretell.errors import ModelError as ModelError
    from foretell.errors import NothingUsableError as NothingUsableError
    from foretell.errors import StorageError as StorageError
    from foretell.errors import UsageError as UsageError
    from foretell.impact.analyze import analyze_impact as analyze_impact
    from foretell.impact.result import Impact as Impact
    from foretell.learn.loop import learn_plan as learn_plan
    from foretell.learn.result import Learned as Learned
    from foretell.measure.measure import measure_sweep as measure_sweep
    from foretell.model.campaigns.schema import Campaign as Campaign
    from foretell.model.estimator import ForetellRegressor as ForetellRegressor
    from foretell.model.fit import fit_model as fit_model
    from foretell.model.results.fit import AutomaticFit as AutomaticFit
    from foretell.model.results.fit import Fit as Fit
    from foretell.model.saved.model import SavedModel as SavedModel
    from foretell.model.saved.model import load_model as load_model
    from foretell.model.saved.model import load_models as load_models
    from foretell.model.scoring import Score as Score
    from foretell.model.scoring import score_model as score_model
    from foretell.predictor import Forecast as Forecast
    from foretell.predictor import Predictor as Predictor
    from foretell.queue.choose import QueueChoice as QueueChoice
    from foretell.queue.choose import choose_drops as choose_drops
    from foretell.queue.predict import QueuePrediction as QueuePrediction
    from foretell.queue.predict import predict_queue as predict_queue
    from foretell.report.write import write_report as write_report

#: The public names by module. They are imported on first use, so that `import foretell` is quick.
_NAMES = {
    "foretell.adapters.dispatcher.dispatcher": ("Dispatcher",),
    "foretell.adapters.optuna_study": ("read_optuna_study",),
    "foretell.adapters.placement_handoff": ("hand_off_placement",),
    "foretell.adapters.ray_results": ("read_ray_results",),
    "foretell.adapters.serving_handoff": ("hand_off_deployment",),
    "foretell.adapters.spark.learning": ("learn_queue",),
    "foretell.adapters.spark.pruning": ("prune_partitions",),
    "foretell.approximate": ("Estimate", "estimate_count", "estimate_sum", "kept_partitions"),
    "foretell.cluster.maintenance.maintain": ("maintain_models",),
    "foretell.cluster.maintenance.outcome": ("Maintained",),
    "foretell.cluster.place": ("place_task",),
    "foretell.cluster.probe": ("Probe", "ProbeOptions", "write_probes"),
    "foretell.cluster.simulate": ("Simulation", "simulate_cluster"),
    "foretell.corun.group": ("Grouping", "group_jobs"),
    "foretell.corun.machine": ("measure_machine",),
    "foretell.corun.measuring.measure": ("measure_co_runs",),
    "foretell.corun.models.score": ("fit_co_runs", "score_co_runs"),
    "foretell.corun.predict": ("Together", "predict_together", "slowdown"),
    "foretell.corun.profile": ("Profile", "profile_job", "read_profile", "write_profile"),
    "foretell.dataset": ("Dataset", "read_dataset"),
    "foretell.decide.advise.advice": ("Advice",),
    "foretell.decide.advise.next_run": ("advise",),
    "foretell.decide.placement.answer": ("Placement",),
    "foretell.decide.plan.answer": ("Plan",),
    "foretell.decide.plan.plan": ("make_plan",),
    "foretell.deploy.answer": ("Deployment",),
    "foretell.deploy.choose": ("choose_deployment",),
    "foretell.deploy.deployable": ("Deployable",),
    "foretell.errors": (
        "DatasetError",
        "ForetellError",
        "ModelError",
        "NothingUsableError",
        "StorageError",
        "UsageError",
    ),
    "foretell.impact.analyze": ("analyze_impact",),
    "foretell.impact.result": ("Impact",),
    "foretell.learn.loop": ("learn_plan",),
    "foretell.learn.result": ("Learned",),
    "foretell.measure.measure": ("measure_sweep",),
    "foretell.model.campaigns.schema": ("Campaign",),
    "foretell.model.estimator": ("ForetellRegressor",),
    "foretell.model.fit": ("fit_model",),
    "foretell.model.results.fit": ("AutomaticFit", "Fit"),
    "foretell.model.saved.model": ("SavedModel", "load_model", "load_models"),
    "foretell.model.scoring": ("Score", "score_model"),
    "foretell.predictor": ("Forecast", "Predictor"),
    "foretell.queue.choose": ("QueueChoice", "choose_drops"),
    "foretell.queue.predict": ("QueuePrediction", "predict_queue"),
    "foretell.report.write": ("write_report",),
}
__getattr__, _listed, __all__ = late_names("foretell", _NAMES, packages=("tasks", "tune"))


def __dir__() -> list[str]:
    return [*_listed(), "__version__"]
