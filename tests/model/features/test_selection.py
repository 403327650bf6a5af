import numpy as np
import pytest

from foretell.model.features.selection import select_by_importance, select_forward


def error_of(weights):
    """An error that falls by a feature's weight when it is chosen."""
    return lambda subset: 10.0 - sum(weights[i] for i in subset)


def test_forward_selection_adds_the_best_feature_each_time():
    chosen = select_forward(range(4), error_of([1, 4, 2, 3]), min_features=1, max_features=2)
    assert chosen.tolist() == [1, 3]


def test_forward_selection_stops_growing_when_nothing_helps():
    weights = [3, 2, -1, -1]
    chosen = select_forward(range(4), error_of(weights), min_features=1, max_features=4)
    assert chosen.tolist() == [0, 1]


def test_forward_selection_keeps_the_least_number_asked_for():
    weights = [3, -1, -2]
    chosen = select_forward(range(3), error_of(weights), min_features=2, max_features=3)
    assert chosen.tolist() == [0, 1]


def test_forward_selection_passes_over_subsets_that_cannot_be_fitted():
    def error(subset):
        return float("inf") if 0 in subset else 1.0 / (1 + sum(subset))

    assert 0 not in select_forward(range(3), error, min_features=1, max_features=3)


def test_forward_selection_without_any_fit_says_so():
    with pytest.raises(ValueError, match="no subset"):
        select_forward(range(3), lambda s: float("inf"), min_features=1, max_features=2)


@pytest.mark.parametrize(
    ("tolerance", "most", "kept"),
    [
        (0.4, None, [1]),
        (0.9, None, [0, 1]),
        (0.99, None, [0, 1, 3]),
        (0.99, 2, [0, 1]),
        (1, None, [0, 1, 3]),
    ],
)
def test_importance_keeps_the_largest_shares_up_to_the_tolerance(tolerance, most, kept):
    shares = np.array([0.25, 0.65, 0.0, 0.1])
    chosen = select_by_importance(shares, tolerance=tolerance, max_features=most)
    assert chosen.tolist() == kept


def test_importance_of_a_model_without_splits_keeps_one_feature():
    assert len(select_by_importance(np.zeros(3), tolerance=0.5, max_features=None)) == 1
