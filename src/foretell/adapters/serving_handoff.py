"""Deployments in the formats of systems that serve networks: Triton, BentoML, Ray Serve."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from foretell.adapters.handoff import yaml_lines
from foretell.decide.deployment.scenario import OFFLINE
from foretell.decide.deployment.wording import rate_text, time_text
from foretell.deploy.answer import Deployment
from foretell.errors import Option, UsageError, suggest

#: How Triton calls types of numbers.
_TRITON_TYPES = {
    "float16": "TYPE_FP16", "bfloat16": "TYPE_BF16", "float32": "TYPE_FP32",
    "float64": "TYPE_FP64", "int32": "TYPE_INT32", "int64": "TYPE_INT64", "bool": "TYPE_BOOL",
}  # fmt: skip
_NAME = "network"


def hand_off_deployment(found: Deployment, form: str) -> str:
    """Write how to serve a network for the system that serves it.

    Parameters
    ----------
    found
        What `choose_deployment` returned.
    form
        ``triton``: config.pbtxt; ``bentoml``: a service in Python; ``ray-serve``: a configuration
        in YAML; ``json``: all of the answer.

    >>> from foretell import choose_deployment, hand_off_deployment
    >>> found = choose_deployment("net.py:build", "784", "offline")    # doctest: +SKIP
    >>> print(hand_off_deployment(found, "triton"))                    # doctest: +SKIP
    """
    check_form(form)
    return FORMS[form](found)


def check_form(form: str) -> None:
    """Raise a UsageError unless the form is known."""
    if form not in FORMS:
        raise UsageError(
            f"there is no form '{form}'. {suggest(form, FORMS)}", option=Option("form")
        )


def _comments(found: Deployment, sign: str = "#") -> list[str]:
    """Say where the figures come from."""
    figures = found.figures
    name = found.question.scenario.name
    rate = f"{rate_text(figures.per_s)} ({name})"
    if name == OFFLINE:
        return [f"{sign} Written by foretell: predicted {rate}, from measured batch times."]
    told = f"predicted p99 {time_text(figures.p99_s)}, mean {time_text(figures.mean_s)}"
    return [f"{sign} Written by foretell: {told} at {rate}, simulated from measured batch times."]


# Triton


def _as_triton(found: Deployment) -> str:
    """Return config.pbtxt for the PyTorch backend on CPUs."""
    setting, description = found.setting, found.description
    kind = found.network.dtype.partition(":")[0]
    lines = [
        *_comments(found),
        f'name: "{_name(found)}"',
        'backend: "pytorch"',
        f"max_batch_size: {setting.batch}",
        *_tensor("input", "INPUT__0", kind, found.network.shape),
        *_tensor("output", "OUTPUT__0", description["output_dtype"], description["output_shape"]),
    ]
    if setting.batch > 1:
        delay = math.floor(1e6 * setting.wait_s)
        lines.append(f"dynamic_batching {{ max_queue_delay_microseconds: {delay} }}")
    lines.append(f"instance_group [ {{ count: {setting.replicas} kind: KIND_CPU }} ]")
    for key, value in (("INTRA_OP_THREAD_COUNT", setting.threads), ("INTER_OP_THREAD_COUNT", 1)):
        lines.append(f'parameters {{ key: "{key}" value: {{ string_value: "{value}" }} }}')
    return "".join(f"{line}\n" for line in lines)


def _tensor(word: str, name: str, dtype: str, shape: Sequence[int]) -> list[str]:
    if dtype not in _TRITON_TYPES:
        raise UsageError(f"Triton has no type for {dtype}; let the network return floats")
    # Triton has no tensors without dimensions: a network that returns one number per sample has
    # one dimension of one.
    dims = ", ".join(map(str, shape)) or "1"
    reshape = "" if shape else " reshape: { shape: [ ] }"
    kind = _TRITON_TYPES[dtype]
    return [f'{word} [ {{ name: "{name}" data_type: {kind} dims: [ {dims} ]{reshape} }} ]']


# BentoML


def _as_bentoml(found: Deployment) -> str:
    """Return a service with adaptive batching."""
    setting, question = found.setting, found.question
    place, _, function = found.network.build.rpartition(":")
    limit_ms = math.ceil(1e3 * (question.limit_s or found.choice.p99_s[1]))
    kind = found.network.dtype.partition(":")[0]
    arguments = ", ".join(f"{k}={v!r}" for k, v in found.network.arguments.items())
    batching = ""
    if setting.batch > 1:
        batching = (
            f"batchable=True, batch_dim=0, max_batch_size={setting.batch}, "
            f"max_latency_ms={limit_ms}"
        )
    # NumPy has no type for this one.
    as_float = ".float()" if found.description["output_dtype"] == "bfloat16" else ""
    lines = [
        f'"""{_comments(found, "")[0].strip()}"""',
        "",
        "import importlib.util",
        "import sys",
        "from pathlib import Path",
        "",
        "import bentoml",
        "import numpy",
        "import torch",
        "",
        "",
        f"@bentoml.service(workers={setting.replicas}, resources={{'cpu': '{setting.cores}'}}, "
        f"traffic={{'timeout': {max(1, math.ceil(20 * limit_ms / 1e3))}}})",
        f"class {_class_name(found)}:",
        "    def __init__(self) -> None:",
        *_import_lines(place),
        f"        self.network = module.{function}({arguments}).eval()  # load your weights here",
        "",
        f"    @bentoml.api({batching})",
        "    def predict(self, samples: numpy.ndarray) -> numpy.ndarray:",
        f"        torch.set_num_threads({setting.threads})  # it holds in the thread that calls it",
        "        with torch.inference_mode():",
        f"            found = self.network(torch.as_tensor(samples, dtype=torch.{kind}))",
        "        found = found[0] if isinstance(found, (tuple, list)) else found",
        f"        return found{as_float}.numpy()",
    ]
    return "".join(f"{line}\n" for line in lines)


def _import_lines(place: str) -> list[str]:
    """Return how a service gets the module of a network: a file may have any name."""
    if not place.endswith(".py"):
        return [f"        module = importlib.import_module({place!r})"]
    return [
        f"        path = Path(__file__).with_name({Path(place).name!r})  # beside this file",
        "        spec = importlib.util.spec_from_file_location(path.stem, path)",
        "        module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)",
        "        spec.loader.exec_module(module)",
    ]


# Ray Serve


def _as_ray_serve(found: Deployment) -> str:
    """Return a configuration for `serve deploy`."""
    setting = found.setting
    batching = {"max_batch_size": setting.batch, "batch_wait_timeout_s": setting.wait_s}
    deployment = {
        "name": _class_name(found),
        "num_replicas": setting.replicas,
        # One batch is computed while the next one waits.
        "max_ongoing_requests": 2 * setting.batch,
        "ray_actor_options": {
            "num_cpus": setting.threads,
            "runtime_env": {"env_vars": {"OMP_NUM_THREADS": str(setting.threads)}},
        },
        "user_config": {**batching, "threads": setting.threads},
    }
    application = {
        "name": _name(found),
        "route_prefix": "/",
        "import_path": "YOUR_MODULE:app",
        "deployments": [deployment],
    }
    comments = [
        *_comments(found),
        "# import_path names your application. Its reconfigure(user_config) hands the batching to",
        "# @serve.batch: predict.set_max_batch_size(...) and set_batch_wait_timeout_s(...).",
    ]
    return "".join(
        f"{line}\n" for line in [*comments, *yaml_lines({"applications": [application]})]
    )


def _as_json(found: Deployment) -> str:
    return json.dumps(found.to_json(), indent=2) + "\n"


def _name(found: Deployment) -> str:
    """Return the name of the function, as all systems take it."""
    function = found.network.build.rpartition(":")[2]
    return re.sub(r"[^a-zA-Z0-9_]+", "_", function).strip("_").lower() or _NAME


def _class_name(found: Deployment) -> str:
    name = "".join(part.capitalize() for part in _name(found).split("_"))
    return f"{name if name[:1].isalpha() else f'Network{name}'}Service"


#: The formats, and the function that writes each.
FORMS: dict[str, Callable[[Deployment], str]] = {
    "triton": _as_triton,
    "bentoml": _as_bentoml,
    "ray-serve": _as_ray_serve,
    "json": _as_json,
}
