"""Options shared by plan, advise and learn: what to choose from, limits, which runs to make."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from foretell.cli import _options as option
from foretell.errors import UsageError

if TYPE_CHECKING:
    from foretell.decide.question.objective import PlanRequest
    from foretell.model.saved.model import SavedModel

_TEXTS = ("minimize", "confidence", "risk", "deadline", "budget", "max_energy", "max_carbon",
          "max_memory", "max_power", "seed")  # fmt: skip
_OPTIONS = (
    click.option("--vary", multiple=True, metavar="COLUMN=VALUES",
                 help="What can be chosen: workers=1..64, size=1..64*2 (by factors), x=0..1:0.1 "
                 "(by steps), machine=m4,c4."),
    click.option("--fix", multiple=True, metavar="COLUMN=VALUE",
                 help="What is given: images=480000."),
    click.option("--derive", multiple=True, metavar="COLUMN=EXPRESSION",
                 help="A column computed from others: 'num_cpus=workers * cpus'."),
    click.option("--only", multiple=True, metavar="EXPRESSION",
                 help="A condition on configurations: 'workers * cpus <= 64'."),
    click.option("--max", "most", multiple=True, metavar="COLUMN=NUMBER",
                 help="The largest value of a column: nodes=48."),
    click.option("--min", "least", multiple=True, metavar="COLUMN=NUMBER",
                 help="The smallest value of a column."),
    option.path("--request", metavar="FILE",
                 help="A TOML file with any of these; options here override it."),
    option.path("--prices", metavar="FILE",
                 help="A TOML file with prices, power and carbon intensity."),
    click.option("--deadline", metavar="TIME", help="The job must end within it: 90s, 1h30m."),
    click.option("--max-energy", metavar="ENERGY", help="It must take less: 500kJ, 1.5kWh."),
    click.option("--max-carbon", metavar="MASS", help="It must emit less: 200g."),
    click.option("--max-memory", metavar="BYTES", help="It must need less: 16GiB."),
    click.option("--max-power", metavar="POWER", help="All nodes together must draw less: 4kW."),
    click.option("--minimize", metavar="WHAT",
                 help="time, cost, energy or carbon [default: cost with prices, else time]."),
    click.option("--confidence", type=float, metavar="SHARE",
                 help="Probability with which each limit must hold [default: 0.9]."),
    click.option("--risk", metavar="RISK",
                 help="What counts outside the data: the pessimistic end of an interval "
                 "(cautious), the prediction (even), the optimistic end (bold), or what a run "
                 "exceeds with a probability (0.2) [default: cautious; with --allow-far: even]."),
    click.option("--allow-far", is_flag=True,
                 help="Also choose what is far outside the data, or an unknown level, by --risk."),
    click.option("--seed", type=int, help="The seed of a search [default: 0]."),
)  # fmt: skip

#: A table in place of what is varied.
candidates_option = option.path(
    "--candidates",
    metavar="TABLE",
    help="A table of configurations to choose from; price_per_hour and power_w may be columns.",
)


#: The runs that advise proposes, and learn makes, at a time.
runs_option = click.option(
    "-k", "--runs", "n_runs", type=int, default=1, help="Runs at a time [default: 1]."
)
run_budget_option = click.option(
    "--budget",
    metavar="AMOUNT",
    help="What all runs may take together: 30m, 500kJ, or 20 in money with --prices.",
)
least_chance_option = click.option(
    "--least-chance",
    type=float,
    default=0.05,
    metavar="SHARE",
    help="Stop when no run changes the plan with a larger probability [default: 0.05].",
)


def plan_options(command: option.Command) -> option.Command:
    """Add the options of a question to a command."""
    for add in reversed(_OPTIONS):
        command = add(command)
    return command


def read_options(given: dict[str, Any]) -> PlanRequest:
    """Make a request from the command line, which overrides the request file."""
    from foretell.decide.question.objective import read_request
    from foretell.decide.question.prices import read_prices

    base: dict[str, Any] = {}
    if given.get("request") is not None:
        asked = read_request(given["request"])
        base = asked.model_dump(by_alias=True, exclude_unset=True)
    base |= {word: given[word] for word in _TEXTS if given.get(word) is not None}
    for word, read in (("most", _numbers), ("least", _numbers), ("derive", _derived)):
        if given[word]:
            base[word] = {**base.get(word, {}), **read(given[word], word)}
    if given["only"]:
        base["only"] = [*base.get("only", []), *given["only"]]
    if given["allow_far"]:
        base["allow_far"] = True
    if given.get("prices") is not None:
        base["prices"] = read_prices(given["prices"])
    vary, fix = read_axes(given["vary"]), fixed_values(given["fix"])
    old = {name: value for name, value in base.get("fix", {}).items() if name not in vary}
    varied = {name: value for name, value in base.get("vary", {}).items() if name not in fix}
    return read_request({**base, "vary": {**varied, **vary}, "fix": {**old, **fix}})


def read_axes(texts: Sequence[str]) -> dict[str, Any]:
    """Read the values of several columns."""
    from foretell.decide.question.space import read_axis

    axes = {}
    for text in texts:
        name, values = read_axis(text)
        if name in axes:
            raise UsageError(f"'{name}' is given twice; write {name}=a,b,c")
        axes[name] = values
    return axes


def fixed_values(texts: Sequence[str], flag: str = "--fix") -> dict[str, Any]:
    """Read one value for each of several columns."""
    fixed = {}
    for name, values in read_axes(texts).items():
        if not isinstance(values, list) or len(values) != 1:
            raise UsageError(f"{flag} {name} takes one value; --vary {name}=... takes several")
        fixed[name] = values[0]
    return fixed


def _derived(texts: Sequence[str], _: str) -> dict[str, str]:
    found = {}
    for text in texts:
        name, _, expression = (part.strip() for part in text.partition("="))
        if not (name and expression):
            raise UsageError(
                f"--derive {text}: write COLUMN=EXPRESSION, such as num_cpus=workers * cpus"
            )
        found[name] = expression
    return found


def _numbers(texts: Sequence[str], word: str) -> dict[str, float]:
    flag = {"most": "--max", "least": "--min"}[word]
    found = fixed_values(texts, flag)
    for name, value in found.items():
        if isinstance(value, str):
            raise UsageError(f"{flag} {name}={value}: '{value}' is not a number")
    return {name: float(value) for name, value in found.items()}


def load_models(paths: Sequence[Path]) -> list[SavedModel]:
    """Load the models of a question; a directory may hold one per target."""
    from foretell.model.saved import model

    return [loaded for path in paths for loaded in model.load_models(path)]
