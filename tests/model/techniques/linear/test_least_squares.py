"""What all linear models share: which terms remain in their formulas."""

from __future__ import annotations

import numpy as np
import pytest

from foretell.model.techniques import TECHNIQUES, TrainingRows, complete
from foretell.model.techniques.linear._least_squares import intercept


def fit(name, x, y, **options):
    technique = TECHNIQUES.get(name)()
    prepared = technique.prepare(TrainingRows(x, y, np.ones(len(y))))
    return technique.fit(prepared, complete(technique, options), seed=0)


@pytest.mark.parametrize(
    ("name", "options"), [("LRRidge", {"alpha": 0}), ("NNLS", {}), ("Stepwise", {})]
)
@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_a_column_the_law_does_not_use_has_no_term_of_rounding_errors(name, options, unit):
    nodes = np.repeat([1.0, 2.0, 4.0, 8.0], 3)
    size = np.tile([10.0, 20.0, 30.0], 4) * unit
    x = np.column_stack([1 / nodes, size])
    slopes, constant = fit(name, x, 80 / nodes + 10, **options).coefficients()
    assert slopes[0] == pytest.approx(80)
    assert slopes[1] == 0
    assert constant == pytest.approx(10)


def test_a_small_term_that_matters_stays():
    x = np.column_stack([np.arange(10.0), np.arange(10.0) % 3])
    slopes, _ = fit("LRRidge", x, x @ [1e6, 1e-3] + 5, alpha=0).coefficients()
    assert slopes[1] == pytest.approx(1e-3, rel=1e-3)


def test_a_law_through_the_origin_has_no_intercept_of_rounding_errors():
    x = np.array([[0.1], [0.2], [0.7], [1.3]])
    assert fit("LRRidge", x, 3 * x[:, 0], alpha=0).coefficients()[1] == 0
    assert intercept(1e9, np.array([1e9 - 1.0]), np.ones(1)) == 1.0
