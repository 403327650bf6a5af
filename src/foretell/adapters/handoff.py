"""Plans in the formats of other systems: Ray, Kubernetes, Spark, a shell."""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from foretell.decide.plan.answer import Candidate, Plan
from foretell.errors import Option, UsageError, listing, suggest
from foretell.machines import Needs, Resources
from foretell.spaces.quantities import MEMORY

Configuration = Mapping[str, Any]

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


def hand_off(plan: Plan, form: str, roles: Mapping[str, str] | None = None) -> str:
    """Write the chosen configuration in the format of another system."""
    check_form(form)
    if plan.chosen is None:
        raise UsageError("there is no plan to hand off: no configuration meets the limits")
    return FORMS[form](plan, plan.chosen.configuration, _needs(plan.chosen, roles or {}))


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


def _needs(chosen: Candidate, roles: Mapping[str, str]) -> Needs:
    """Return what a plan needs; an amount that nothing says is 0.

    Without a column for the memory, it is what the job stays below with 95 %, if that is predicted.
    """
    found = dict.fromkeys(ROLES, 0.0)
    for role, names in ROLES.items():
        if role in roles and roles[role] not in chosen.configuration:
            raise UsageError(
                f"the plan has no such column. {suggest(roles[role], chosen.configuration)}",
                option=Option("role", roles[role], key=role),
            )
        looked = (roles[role],) if role in roles else names
        for name in [n for n in looked if n in chosen.configuration][:1]:
            found[role] = _amount(chosen.configuration[name], name, role)
    workers, memory = found["workers"] or 1.0, found["memory_bytes"]
    if not workers.is_integer():
        raise UsageError(
            f"{workers:g} workers cannot be handed off; vary whole numbers, such as workers=1..64"
        )
    predicted = chosen.estimates.get(MEMORY)
    if not memory and predicted is not None and math.isfinite(predicted.upper):
        memory = predicted.upper
    return Needs(Resources(found["cpus"], math.ceil(memory), found["gpus"]), int(workers))


def _amount(value: Any, name: str, role: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise UsageError(
            f"the column '{name}' should say the {role}, but {value!r} is not an amount",
            remedy=("name another column: ", Option("role", "COLUMN", key=role)),
        )
    return float(value)


def _number(value: float) -> float | int:
    return int(value) if float(value).is_integer() else value


def _as_ray(plan: Plan, configuration: Configuration, needs: Needs) -> str:
    """Return the arguments of ray.train.ScalingConfig."""
    each = needs.each
    resources: dict[str, Any] = {"CPU": _number(each.cpus or 1.0)}
    if each.gpus:
        resources["GPU"] = _number(each.gpus)
    if each.memory_bytes:
        resources["memory"] = each.memory_bytes
    values = {
        "num_workers": needs.n_parts,
        "use_gpu": each.gpus > 0,
        "resources_per_worker": resources,
    }
    return _json_text({"scaling_config": values, "configuration": configuration})


def _as_kubernetes(plan: Plan, configuration: Configuration, needs: Needs) -> str:
    """Return a Job; its image is for the user to fill in."""
    each = needs.each
    resources: dict[str, Any] = {"cpu": f"{math.ceil(1000 * (each.cpus or 1.0))}m"}
    if each.memory_bytes:
        resources["memory"] = f"{math.ceil(each.memory_bytes / _MEBIBYTE)}Mi"
    if each.gpus:
        resources["nvidia.com/gpu"] = math.ceil(each.gpus)
    variables = _variables(configuration)
    container = {
        "name": "job",
        "image": "YOUR-IMAGE",
        "env": [{"name": name, "value": value} for name, value in variables.items()],
        "resources": {"requests": resources, "limits": resources},
    }
    spec: dict[str, Any] = {"parallelism": needs.n_parts, "completions": needs.n_parts}
    deadline = plan.question.limits.get("deadline")
    if deadline is not None:
        spec["activeDeadlineSeconds"] = math.ceil(deadline)
    spec["template"] = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "planned-job"},
           "spec": spec}  # fmt: skip
    return "".join(f"{line}\n" for line in yaml_lines(job))


def _as_spark(plan: Plan, configuration: Configuration, needs: Needs) -> str:
    """Return options of spark-submit."""
    each = needs.each
    settings: dict[str, Any] = {"spark.executor.instances": needs.n_parts}
    if each.cpus:
        settings["spark.executor.cores"] = math.ceil(each.cpus)
    if each.memory_bytes:
        settings["spark.executor.memory"] = f"{math.ceil(each.memory_bytes / _MEBIBYTE)}m"
    if each.gpus:
        settings["spark.executor.resource.gpu.amount"] = _number(each.gpus)
    settings |= _named(configuration, lambda name: f"spark.foretell.{name.lower()}")
    return "".join(f"--conf {shlex.quote(f'{name}={value}')}\n" for name, value in settings.items())


def _as_env(plan: Plan, configuration: Configuration, needs: Needs) -> str:
    """Return assignments that a shell reads."""
    variables = _variables(configuration)
    return "".join(f"{name}={shlex.quote(value)}\n" for name, value in variables.items())


def _as_json(plan: Plan, configuration: Configuration, needs: Needs) -> str:
    return _json_text(plan.to_json())


def _variables(configuration: Configuration) -> dict[str, str]:
    """Return variables for a shell; the prefix keeps a column called ``path`` from doing harm."""
    return _named(configuration, lambda name: f"FORETELL_{name.upper()}")


def _named(configuration: Configuration, rename: Callable[[str], str]) -> dict[str, str]:
    """Return the configuration under other names; no two columns may have the same one."""
    found: dict[str, str] = {}
    for column, value in configuration.items():
        name = rename(re.sub(r"[^A-Za-z0-9_]", "_", column))
        if name in found:
            raise UsageError(f"'{column}' and another column would both become {name}; rename one")
        found[name] = str(value)
    return found


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
    parts = (f"\\{c}" if c in '"\\' else c if c.isprintable() else f"\\U{ord(c):08x}" for c in text)
    return f'"{"".join(parts)}"'


#: The formats, and the function that writes each.
FORMS: dict[str, Callable[[Plan, Configuration, Needs], str]] = {
    "ray": _as_ray,
    "kubernetes": _as_kubernetes,
    "spark": _as_spark,
    "env": _as_env,
    "json": _as_json,
}
