"""Plans in the words of other systems: Ray, Kubernetes, Spark, a shell."""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from foretell.decide.plan.answer import Option, Plan
from foretell.errors import UsageError, listing, suggest
from foretell.spaces.quantities import MEMORY

#: What a system asks for, and the columns that usually say it.
ROLES = {
    "workers": ("workers", "n_workers", "num_workers", "nodes", "n_nodes", "num_nodes", "executors",
                "num_executors", "replicas"),
    "cpus": ("cpus_per_worker", "cpus", "cores", "threads", "n_threads", "num_threads",
             "cores_per_executor", "executor_cores", "cpus_per_node", "cores_per_node"),
    "gpus": ("gpus_per_worker", "gpus", "n_gpus", "num_gpus"),
    "memory_bytes": ("memory_bytes", "memory_per_worker_bytes"),
}  # fmt: skip
_MEBIBYTE = 2**20


@dataclass(frozen=True)
class Ask:
    """What a plan asks of a system.

    Attributes
    ----------
    memory_bytes
        What is not exceeded with 95 %, where a model tells; None otherwise.
    """

    workers: int
    cpus: float | None
    gpus: float
    memory_bytes: float | None
    configuration: Mapping[str, Any]


def hand_off(plan: Plan, form: str, roles: Mapping[str, str] | None = None) -> str:
    """Write the chosen configuration in the form of another system."""
    check_form(form)
    if plan.chosen is None:
        raise UsageError("there is no plan to hand on: no configuration keeps the limits")
    return FORMS[form](plan, _ask(plan.chosen, roles or {}))


def check_form(form: str) -> None:
    """Raise a UsageError unless the form is known."""
    if form not in FORMS:
        raise UsageError(f"no form '{form}' is known to --as. {suggest(form, FORMS)}")


def read_roles(texts: Sequence[str]) -> dict[str, str]:
    """Read ``workers=nodes``: which column says what a system asks for."""
    roles = {}
    for text in texts:
        role, sign, column = (part.strip() for part in text.partition("="))
        if role not in ROLES or not sign or not column:
            raise UsageError(f"--role {text}: write ROLE=COLUMN; the roles are {listing(ROLES)}")
        roles[role] = column
    return roles


def _ask(chosen: Option, roles: Mapping[str, str]) -> Ask:
    found: dict[str, float | None] = {}
    for role, names in ROLES.items():
        if role in roles and roles[role] not in chosen.configuration:
            raise UsageError(
                f"--role {role}={roles[role]}: the plan has no such column. "
                f"{suggest(roles[role], chosen.configuration)}"
            )
        looked = (roles[role],) if role in roles else names
        name = next((n for n in looked if n in chosen.configuration), None)
        found[role] = None if name is None else _amount(chosen.configuration[name], name, role)
    predicted = chosen.estimates.get(MEMORY)
    memory = found["memory_bytes"]
    if memory is None and predicted is not None and math.isfinite(predicted.upper):
        memory = predicted.upper
    return Ask(
        workers=_whole(found["workers"] or 1.0),
        cpus=found["cpus"],
        gpus=found["gpus"] or 0.0,
        memory_bytes=memory,
        configuration=chosen.configuration,
    )


def _amount(value: Any, name: str, role: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise UsageError(
            f"'{name}' is to say the {role}, and {value!r} is no amount; name another column: "
            f"--role {role}=COLUMN"
        )
    return float(value)


def _whole(workers: float) -> int:
    if not workers.is_integer():
        raise UsageError(
            f"{workers:g} workers cannot be handed on; vary whole numbers of them, as workers=1..64"
        )
    return int(workers)


def _number(value: float) -> float | int:
    return int(value) if float(value).is_integer() else value


def _as_ray(plan: Plan, ask: Ask) -> str:
    """Return the arguments of ray.train.ScalingConfig."""
    each: dict[str, Any] = {"CPU": _number(ask.cpus or 1.0)}
    if ask.gpus:
        each["GPU"] = _number(ask.gpus)
    if ask.memory_bytes is not None:
        each["memory"] = math.ceil(ask.memory_bytes)
    values = {"num_workers": ask.workers, "use_gpu": ask.gpus > 0, "resources_per_worker": each}
    return (
        json.dumps({"scaling_config": values, "configuration": ask.configuration}, indent=2) + "\n"
    )


def _as_kubernetes(plan: Plan, ask: Ask) -> str:
    """Return the parts of a Job; every text is quoted, which YAML reads as JSON does."""
    cpu = f"{math.ceil(1000 * (ask.cpus or 1.0))}m"
    asked = [f"cpu: {json.dumps(cpu)}"]
    if ask.memory_bytes is not None:
        asked.append(f'memory: "{math.ceil(ask.memory_bytes / _MEBIBYTE)}Mi"')
    if ask.gpus:
        asked.append(f'"nvidia.com/gpu": {math.ceil(ask.gpus)}')
    lines = ["apiVersion: batch/v1", "kind: Job", "metadata:", "  name: planned-job", "spec:"]
    lines += [f"  parallelism: {ask.workers}", f"  completions: {ask.workers}"]
    deadline = plan.question.limits.get("deadline")
    if deadline is not None:
        lines.append(f"  activeDeadlineSeconds: {math.ceil(deadline)}")
    lines += ["  template:", "    spec:", "      restartPolicy: Never", "      containers:"]
    lines += ["        - name: job", '          image: "YOUR-IMAGE"', "          env:"]
    for name, value in _variables(ask).items():
        lines.append(f"            - name: {json.dumps(name)}")
        lines.append(f"              value: {json.dumps(value)}")
    lines.append("          resources:")
    for word in ("requests", "limits"):
        lines += [f"            {word}:", *(f"              {line}" for line in asked)]
    return "\n".join(lines) + "\n"


def _as_spark(plan: Plan, ask: Ask) -> str:
    """Return options of spark-submit."""
    settings: dict[str, Any] = {"spark.executor.instances": ask.workers}
    if ask.cpus is not None:
        settings["spark.executor.cores"] = _number(ask.cpus)
    if ask.memory_bytes is not None:
        settings["spark.executor.memory"] = f"{math.ceil(ask.memory_bytes / _MEBIBYTE)}m"
    if ask.gpus:
        settings["spark.executor.resource.gpu.amount"] = _number(ask.gpus)
    for name, value in ask.configuration.items():
        settings[f"spark.foretell.{_identifier(name).lower()}"] = value
    return "".join(f"--conf {shlex.quote(f'{name}={value}')}\n" for name, value in settings.items())


def _as_env(plan: Plan, ask: Ask) -> str:
    """Return assignments that a shell reads."""
    return "".join(f"{name}={shlex.quote(value)}\n" for name, value in _variables(ask).items())


def _variables(ask: Ask) -> dict[str, str]:
    """Return variables for a shell, with a prefix: a column may be called ``path``."""
    found: dict[str, str] = {}
    for name, value in ask.configuration.items():
        variable = f"FORETELL_{_identifier(name)}"
        if variable in found:
            raise UsageError(f"'{name}' and another column would both be {variable}; rename one")
        found[variable] = str(value)
    return found


def _identifier(name: str) -> str:
    """Make a name of capital letters, digits and _."""
    return re.sub(r"[^A-Za-z0-9_]", "_", name).upper()


def _as_json(plan: Plan, ask: Ask) -> str:
    return json.dumps(plan.to_json(), indent=2) + "\n"


#: The forms of --as: a function each.
FORMS: dict[str, Callable[[Plan, Ask], str]] = {
    "ray": _as_ray,
    "kubernetes": _as_kubernetes,
    "spark": _as_spark,
    "env": _as_env,
    "json": _as_json,
}
