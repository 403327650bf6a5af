"""How true impacts are: theory, SALib and Optuna beside shares; noise that looks like an effect.

    python -m benchmarks.impact [--quick]

All tables are made up, with a known truth: simulated.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
import optuna
import pandas as pd
from SALib.analyze import sobol as salib_sobol
from SALib.sample import sobol as salib_sample
from scipy.stats import spearmanr

from foretell import analyze_impact
from foretell.sensitivity.sobol import sobol_of

G = np.array([0.0, 1.0, 4.5, 9.0, 99.0, 99.0, 99.0, 99.0])
Values = np.ndarray


def ishigami(x: Values) -> Values:
    z = np.pi * (2 * x - 1)
    return np.sin(z[:, 0]) + 7 * np.sin(z[:, 1]) ** 2 + 0.1 * z[:, 2] ** 4 * np.sin(z[:, 0])


def g_function(x: Values) -> Values:
    return np.prod((np.abs(4 * x - 2) + G) / (1 + G), axis=1)


def g_theory() -> tuple[Values, Values]:
    own = 1 / 3 / (1 + G) ** 2
    whole = np.prod(1 + own) - 1
    return own / whole, own * np.prod(1 + own) / (1 + own) / whole


def ishigami_theory() -> tuple[Values, Values]:
    first = 0.5 * (1 + 0.1 * np.pi**4 / 5) ** 2
    second, both = 49 / 8, 0.01 * np.pi**8 * 8 / 225
    whole = first + second + both
    return (np.array([first, second, 0.0]) / whole,
            np.array([first + both, second, both]) / whole)  # fmt: skip


def compare_shares() -> list[tuple[str, str, str, bool]]:
    """Return the largest distance from theory and from SALib, of shares alone and in total."""
    found = []
    for name, function, theory, k in (
        ("Ishigami", ishigami, ishigami_theory(), 3),
        ("g-function", g_function, g_theory(), len(G)),
    ):
        names = [f"x{i}" for i in range(k)]
        ours = sobol_of(function, names)
        own = np.array([list(ours.first.values()), list(ours.total.values())])
        problem = {"num_vars": k, "names": names, "bounds": [[0, 1]] * k}
        x = salib_sample.sample(problem, 4096, calc_second_order=False, seed=1)
        other = salib_sobol.analyze(problem, function(x), calc_second_order=False, seed=1)
        off = float(np.abs(own - np.array(theory)).max())
        off_salib = float(np.abs(own - np.array([other["S1"], other["ST"]])).max())
        found.append((f"{name}, off theory", f"{off:.4f}", "≤ 0.02", off <= 0.02))
        found.append((f"{name}, off SALib", f"{off_salib:.4f}", "≤ 0.02", off_salib <= 0.02))
    return found


def settings(trial: optuna.Trial) -> dict[str, float]:
    return {
        "lr": trial.suggest_float("lr", 1e-4, 1e-1, log=True),
        "batch": trial.suggest_int("batch", 16, 256, log=True),
        "depth": trial.suggest_int("depth", 1, 8),
        "dropout": trial.suggest_float("dropout", 0, 0.5),
        "width": trial.suggest_int("width", 8, 64),
    }


def loss(p: dict[str, float]) -> float:
    return 0.5 + 0.4 * (np.log10(p["lr"]) + 2.5) ** 2 + 0.06 * p["depth"] + 0.3 * p["dropout"] ** 2


def seconds(p: dict[str, float]) -> float:
    return 3 + 1.2 * p["depth"] + 60 / p["batch"] + 0.01 * p["width"]


def mixed(p: dict[str, float]) -> float:
    return 2 + 0.5 * np.log10(p["lr"]) ** 2 * (1 + p["dropout"]) + 0.02 * p["width"]


def rank_correlations(n_trials: int) -> list[tuple[str, str, str, bool]]:
    """Return rank correlations of our shares with those of Optuna's evaluators."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    evaluators = {
        "fANOVA": optuna.importance.FanovaImportanceEvaluator(seed=0),
        "PED-ANOVA": optuna.importance.PedAnovaImportanceEvaluator(evaluate_on_local=False),
    }
    by: dict[str, list[float]] = {name: [] for name in evaluators}
    found = []
    for function in (loss, seconds, mixed):
        study = _studied(function, n_trials)
        ours = _our_shares(study)
        for name, evaluator in evaluators.items():
            theirs = optuna.importance.get_param_importances(study, evaluator=evaluator)
            names = list(theirs)
            rank = spearmanr([theirs[n] for n in names], [ours.get(n, 0.0) for n in names])
            by[name].append(float(rank.statistic))
    for name, ranks in by.items():
        told = ", ".join(f"{r:.2f}" for r in ranks)
        median = float(np.median(ranks))
        found.append((f"rank correlation with {name}", f"{median:.2f} ({told})", "≥ 0.8",
                      median >= 0.8))  # fmt: skip
    return found


def _studied(function: Callable[[dict[str, float]], float], n_trials: int) -> optuna.Study:
    draw = np.random.default_rng(0)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(
        lambda trial: function(settings(trial)) * float(np.exp(draw.normal(0, 0.02))), n_trials
    )
    return study


def _our_shares(study: optuna.Study) -> dict[str, float]:
    rows = [{**t.params, "value": t.value} for t in study.trials]
    found = analyze_impact(pd.DataFrame(rows), "value")
    return found.of().shares.by_input()


def noise_tables(n_tables: int) -> list[tuple[str, str, str, bool]]:
    """Count how often a column of noise is high, by noise and number of repeats."""
    counts, high, told = 0, 0, 0
    for seed in range(n_tables):
        draw = np.random.default_rng(seed)
        noise, n_repeats = [(0.02, 3), (0.1, 3), (0.2, 2), (0.3, 3), (0.3, 5)][seed % 5]
        grid = np.array(np.meshgrid([1, 2, 4], [0, 1], [0, 1, 2, 3])).reshape(3, -1).T
        rows = np.repeat(grid, n_repeats, axis=0)
        times = (
            10 / rows[:, 0] ** 0.7 * 1.15 ** rows[:, 1] * np.exp(draw.normal(0, noise, len(rows)))
        )
        frame = pd.DataFrame(rows, columns=["cores", "mode", "noise"]).assign(time_s=times)
        level = analyze_impact(frame, "time_s").level("noise")
        counts += 1
        high += level == "high"
        told += level != "within noise"
    return [
        ("a column of noise is high", f"{high} of {counts}", "≤ 5 %", high <= 0.05 * counts),
        ("… or anything but noise", f"{told} of {counts}", "", True),
    ]


def drawn_tables(n_tables: int) -> list[tuple[str, str, str, bool]]:
    """Count the same for a setting drawn anew for each run, beside discrete ones."""
    found = []
    for n_runs in (30, 60, 120):
        high = 0
        for seed in range(n_tables):
            draw = np.random.default_rng([seed, n_runs])
            rows = {
                "noise": 10 ** draw.uniform(-4, -1, n_runs),
                "batch": draw.choice([16, 32, 64, 128], n_runs),
                "filters": draw.choice([8, 16, 32], n_runs),
            }
            times = 10 * (rows["batch"] / 16) ** -0.5 * rows["filters"] ** 0.3
            frame = pd.DataFrame(rows).assign(time_s=times * np.exp(draw.normal(0, 0.1, n_runs)))
            high += analyze_impact(frame, "time_s", hyper="noise").level("noise") == "high"
        told = f"{high} of {n_tables}"
        found.append((f"… drawn anew for each of {n_runs} runs", told, "≤ 5 %",
                      high <= 0.05 * n_tables))  # fmt: skip
    return found


def random_tables(n_tables: int) -> list[tuple[str, str, str, bool]]:
    """Count the same in tables of settings drawn at random, which a model judges."""
    high = 0
    for seed in range(n_tables):
        draw = np.random.default_rng(1000 + seed)
        x = draw.random((60, 3))
        times = (1 + 9 * x[:, 0]) * (1 + x[:, 1]) * np.exp(draw.normal(0, 0.1, 60))
        frame = pd.DataFrame(x, columns=["size", "mode", "noise"]).assign(time_s=times)
        high += analyze_impact(frame, "time_s").level("noise") == "high"
    told = f"{high} of {n_tables}"
    return [("… judged by a model", told, "≤ 5 %", high <= 0.05 * n_tables)]


def main() -> None:
    is_quick = "--quick" in sys.argv[1:]
    started = time.perf_counter()
    rows = compare_shares()
    rows += noise_tables(20 if is_quick else 200)
    rows += drawn_tables(2 if is_quick else 20)
    rows += rank_correlations(40 if is_quick else 200) if not is_quick else []
    rows += random_tables(20) if not is_quick else []
    width = max(len(row[0]) for row in rows)
    print("impact (simulated)".ljust(width), "found".ljust(28), "bar")
    for name, value, bar, holds in rows:
        print(name.ljust(width), value.ljust(28), bar, "" if holds else "  MISSED")
    print(f"in {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
