"""Plans in the formats of other systems: Ray, Kubernetes, Spark, a shell."""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from foretell.decide.plan.answer import Candidate, Plan
from foretell.errors import Option, UsageError, listing, suggest
from foretell.spaces.quantities import MEMORY

#: What a system needs to know, and the names of columns that usually say it.
ROLES = {
    "workers": ("workers", "n_workers", "num_workers", "nodes", "n_nodes", "num_nodes", "executors",
                "num_executors", "replicas"),
    "cpus": ("cpus_per_worker", "cpus", "cores", "threads", "n_threads", "num_threads",
             "cores_per_executor", "executor_cores", "cpus_per_node", "cores_per_node"),
    "gpus": ("gpus_per_worker", "gpus", "n_gpus", "num_gpus"),
    "memory_bytes": ("memory_bytes", "memory_per_worker_bytes"),
}  # fmt: skip
_MEBIBYTE = 2**20
#: Keys that need no quotes in YAML: words that do not mean true, false or nothing there.
_PLAIN_KEY = re.compile(r"(?!(?i:y|n|yes|no|on|off|true|false|null)$)[A-Za-z][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Ask:
    """What a plan asks of a system.

    Attributes
    ----------
    memory_bytes
        From a column; or what the job stays below with 95 %, if a model predicts it; or None.
    """

    workers: int
    cpus: float | None
    gpus: float
    memory_bytes: float | None
    configuration: Mapping[str, Any]


def hand_off(plan: Plan, form: str, roles: Mapping[str, str] | None = None) -> str:
    """Write the chosen configuration in the format of another system."""
    check_form(form)
    if plan.chosen is None:
        raise UsageError("there is no plan to hand off: no configuration meets the limits")
    return FORMS[form](plan, _ask(plan.chosen, roles or {}))


def check_form(form: str) -> None:
    """Raise a UsageError unless the form is known."""
    if form not in FORMS:
        raise UsageError(f"unknown format. {suggest(form, FORMS)}", option=Option("form", form))


def read_roles(texts: Sequence[str]) -> dict[str, str]:
    """Read ``workers=nodes``: which column says what a system needs to know."""
    roles = {}
    for text in texts:
        role, sign, column = (part.strip() for part in text.partition("="))
        if role not in ROLES or not sign or not column:
            raise UsageError(
                f"write ROLE=COLUMN; the roles are {listing(ROLES)}", option=Option("role", text)
            )
        roles[role] = column
    return roles


def _ask(chosen: Candidate, roles: Mapping[str, str]) -> Ask:
    found: dict[str, float | None] = {}
    for role, names in ROLES.items():
        if role in roles and roles[role] not in chosen.configuration:
            raise UsageError(
                f"the plan has no such column. {suggest(roles[role], chosen.configuration)}",
                option=Option("role", roles[role], key=role),
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
            f"the column '{name}' should say the {role}, but {value!r} is not an amount",
            remedy=("name another column: ", Option("role", "COLUMN", key=role)),
        )
    return float(value)


def _whole(workers: float) -> int:
    if not workers.is_integer():
        raise UsageError(
            f"{workers:g} workers cannot be handed off; vary whole numbers, such as workers=1..64"
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
    return _json_text({"scaling_config": values, "configuration": ask.configuration})


def _as_kubernetes(plan: Plan, ask: Ask) -> str:
    """Return a Job; its image is for the user to fill in."""
    resources: dict[str, Any] = {"cpu": f"{math.ceil(1000 * (ask.cpus or 1.0))}m"}
    if ask.memory_bytes is not None:
        resources["memory"] = f"{math.ceil(ask.memory_bytes / _MEBIBYTE)}Mi"
    if ask.gpus:
        resources["nvidia.com/gpu"] = math.ceil(ask.gpus)
    container = {
        "name": "job",
        "image": "YOUR-IMAGE",
        "env": [{"name": name, "value": value} for name, value in _variables(ask).items()],
        "resources": {"requests": resources, "limits": resources},
    }
    spec: dict[str, Any] = {"parallelism": ask.workers, "completions": ask.workers}
    deadline = plan.question.limits.get("deadline")
    if deadline is not None:
        spec["activeDeadlineSeconds"] = math.ceil(deadline)
    spec["template"] = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "planned-job"},
           "spec": spec}  # fmt: skip
    return "".join(f"{line}\n" for line in yaml_lines(job))


def _as_spark(plan: Plan, ask: Ask) -> str:
    """Return options of spark-submit."""
    settings: dict[str, Any] = {"spark.executor.instances": ask.workers}
    if ask.cpus is not None:
        settings["spark.executor.cores"] = math.ceil(ask.cpus)
    if ask.memory_bytes is not None:
        settings["spark.executor.memory"] = f"{math.ceil(ask.memory_bytes / _MEBIBYTE)}m"
    if ask.gpus:
        settings["spark.executor.resource.gpu.amount"] = _number(ask.gpus)
    settings |= _named(ask, lambda name: f"spark.foretell.{name.lower()}")
    return "".join(f"--conf {shlex.quote(f'{name}={value}')}\n" for name, value in settings.items())


def _as_env(plan: Plan, ask: Ask) -> str:
    """Return assignments that a shell reads."""
    return "".join(f"{name}={shlex.quote(value)}\n" for name, value in _variables(ask).items())


def _variables(ask: Ask) -> dict[str, str]:
    """Return variables for a shell; the prefix keeps a column called ``path`` from doing harm."""
    return _named(ask, lambda name: f"FORETELL_{name.upper()}")


def _named(ask: Ask, rename: Callable[[str], str]) -> dict[str, str]:
    """Return the configuration under other names; no two columns may have the same one."""
    found: dict[str, str] = {}
    for column, value in ask.configuration.items():
        name = rename(_identifier(column))
        if name in found:
            raise UsageError(f"'{column}' and another column would both become {name}; rename one")
        found[name] = str(value)
    return found


def _identifier(name: str) -> str:
    """Replace all but letters, digits and _."""
    return re.sub(r"[^A-Za-z0-9_]", "_", name)


def _as_json(plan: Plan, ask: Ask) -> str:
    return _json_text(plan.to_json())


def _json_text(values: Mapping[str, Any]) -> str:
    return json.dumps(values, indent=2) + "\n"


def yaml_lines(value: Any) -> Iterator[str]:
    """Write mappings, lists, texts and integers as YAML, which people edit more easily than JSON.

    Every text value is quoted, so that none can be taken for anything else. PyYAML would do the
    same, but this is all of YAML that is needed, and no reason for another dependency.

    >>> print(*yaml_lines({"kind": "Job", "env": [{"name": "A", "value": "1"}]}), sep="\\n")
    kind: "Job"
    env:
      - name: "A"
        value: "1"
    """
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            name = key if _PLAIN_KEY.fullmatch(key) else _quoted(key)
            if isinstance(inner, Mapping | list) and inner:
                yield f"{name}:"
                yield from (f"  {line}" for line in yaml_lines(inner))
            else:
                yield f"{name}: {next(yaml_lines(inner))}"
    elif isinstance(value, list) and value:
        for item in value:
            first, *rest = yaml_lines(item)
            yield f"- {first}"
            yield from (f"  {line}" for line in rest)
    elif isinstance(value, str):
        yield _quoted(value)
    else:
        yield json.dumps(value)


def _quoted(text: str) -> str:
    """Quote a text; what does not print is written by its number."""
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    return character if character.isprintable() else f"\\U{ord(character):08x}"


#: The formats, and the function that writes each.
FORMS: dict[str, Callable[[Plan, Ask], str]] = {
    "ray": _as_ray,
    "kubernetes": _as_kubernetes,
    "spark": _as_spark,
    "env": _as_env,
    "json": _as_json,
}
