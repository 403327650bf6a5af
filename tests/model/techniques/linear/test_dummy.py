from __future__ import annotations

import numpy as np

from foretell.model.techniques import TrainingRows
from foretell.model.techniques.linear.dummy import DummyTechnique


def test_mean_counts_each_merged_run():
    rows = TrainingRows(np.ones((2, 3)), np.array([10.0, 20.0]), np.array([3.0, 1.0]))
    fitted = DummyTechnique().fit(rows, {}, seed=0)
    assert fitted.predict(np.full((2, 3), 99.0)).tolist() == [12.5, 12.5]
    slopes, intercept = fitted.coefficients()
    assert (slopes.tolist(), intercept) == ([0.0, 0.0, 0.0], 12.5)
