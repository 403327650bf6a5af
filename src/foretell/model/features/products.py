"""Products of features up to a degree, or exactly the selected ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import combinations, combinations_with_replacement
from math import comb

from foretell.errors import UsageError, suggest
from foretell.model.campaigns.schema import Features
from foretell.model.features.feature import MOST_FACTORS, Factor, Feature

#: More products than this are refused: no table has the rows to tell them apart.
MOST_PRODUCTS = 100_000


def add_products(features: list[Feature], options: Features) -> list[Feature]:
    """Add products, equal ones once: every combination up to a degree, or a selection by name."""
    if options.selected_products:
        groups = _selected(options.selected_products, features)
    else:
        groups = _combinations(features, options)
    added = [
        Feature("__".join(f.name for f in group), _factors(group), is_numeric=False)
        for group in groups
        if _is_sensible(_factors(group))
    ]
    return features + list(dict.fromkeys(added))


def _combinations(features: list[Feature], options: Features) -> Iterator[tuple[Feature, ...]]:
    highest = len(features) if options.product_max_degree == "inf" else options.product_max_degree
    only = options.product_interactions_only
    ordered = sorted(features, key=lambda f: f.name)
    n = len(ordered)
    count = sum(comb(n, d) if only else comb(n + d - 1, d) for d in range(2, highest + 1))
    if count > MOST_PRODUCTS:
        raise UsageError(
            f"degree {options.product_max_degree} of {n} features gives "
            f"{count:,} products, and at most {MOST_PRODUCTS:,} are allowed; "
            "lower the degree, or name the products with selected_products",
            at=("features", "product_max_degree"),
        )
    if n and highest > MOST_FACTORS:
        raise UsageError(
            f"must be at most {MOST_FACTORS}, not {highest}", at=("features", "product_max_degree")
        )
    combine = combinations if only else combinations_with_replacement
    for degree in range(2, highest + 1):
        yield from combine(ordered, degree)


def _selected(products: Iterable[str], features: list[Feature]) -> Iterator[tuple[Feature, ...]]:
    by_name = {f.name: f for f in features}
    at = ("features", "selected_products")
    for text in products:
        names = text.split()
        for name in names:
            if name not in by_name:
                raise UsageError(
                    f"'{text}' names the feature '{name}', which does not exist. "
                    f"{suggest(name, by_name)}",
                    at=at,
                )
        if len(names) < 2:
            raise UsageError(f"'{text}' needs two names or more, with spaces between", at=at)
        if len(names) > MOST_FACTORS:
            raise UsageError(f"a product has at most {MOST_FACTORS} factors", at=at)
        yield tuple(by_name[name] for name in names)


def _factors(group: tuple[Feature, ...]) -> tuple[Factor, ...]:
    return tuple(factor for feature in group for factor in feature.factors)


def _is_sensible(factors: tuple[Factor, ...]) -> bool:
    """Leave out x · 1/x, and two indicators of one column, which are never both true."""
    indicated = [f.column for f in factors if f.level is not None]
    if len(set(indicated)) < len(indicated):
        return False
    distinct = set(factors)
    return not any(replace(f, steps=(*f.steps, "inverse")) in distinct for f in distinct)
