"""`foretell tune eta`: how long a hyperparameter search will take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from foretell.cli import _options as option
from foretell.cli._output import echo, echo_json


@click.command()
@option.path_argument("space")
@option.path(
    "--model", metavar="PATH", required=True,
    help="Model of the time of an epoch, its folder, or a store of epochs.",
)  # fmt: skip
@click.option(
    "--scheduler", metavar="NAME", default="asha", show_default=True,
    help="asha or hyperband as in Ray Tune, random, optuna-halving, optuna-halving-auto or "
    "optuna-hyperband.",
)  # fmt: skip
@click.option("--trials", type=int, default=64, show_default=True, help="How many are tried.")
@click.option(
    "--max-epochs", type=int, default=27, show_default=True, help="How long the longest trains."
)
@click.option("--min-epochs", type=int, default=1, show_default=True,
              help="No trial is stopped before it.")  # fmt: skip
@click.option(
    "--eta", type=float, default=3, show_default=True,
    help="One of so many trials goes on to the next rung.",
)  # fmt: skip
@click.option("--cores", type=int, help="Cores for all trials [default: those of this machine].")
@click.option(
    "--start-up", "start_up_s", type=float, metavar="SECONDS",
    help="Time before the first epoch of a trial [default: start_up_s of the space].",
)  # fmt: skip
@click.option(
    "--study", metavar="NAME",
    help="Name of the Optuna study, which decides the brackets of optuna-hyperband.",
)  # fmt: skip
@click.option("--job", metavar="NAME", help="Which job of the store is meant.")
@click.option("--share", is_flag=True, help="Use epochs of other machines in the store, too.")
@click.option("--seed", type=int, default=0, show_default=True, help="Decides the simulations.")
@option.json("Print all figures as JSON.")
def eta(space: Path, model: Path, cores: int | None, as_json: bool, **given: Any) -> None:
    """Tell how long a hyperparameter search will take, with a 90 % interval.

    SPACE is a space file (TOML): hyperparameters with their values, system settings, fixed values.
    The scheduler is simulated over predicted epoch times, with the errors that the model may have;
    below the answer stands what other threads, fewer rungs or a smaller space would save.
    """
    from foretell.executors import n_cores
    from foretell.tune.eta import predict_search

    options = {name: value for name, value in given.items() if value is not None}
    found = predict_search(
        space, model=model, cores=n_cores() if cores is None else cores, **options
    )
    if as_json:
        echo_json(found.to_json())
    else:
        echo(str(found))
