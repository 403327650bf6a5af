"""What is asked about an impact: of which columns more is better, as their names tell."""

import pytest

from foretell.decide.impact.question import ImpactQuestion


@pytest.mark.parametrize(
    ("name", "is_lower_better"),
    [
        ("time_s", True),
        ("time_per_step_s", True),
        ("ms_per_sample", True),
        ("joules_per_sample", True),
        ("worker2_time_s", True),
        ("score_time_ms", True),
        ("samples_per_s", False),
        ("throughput", False),
        ("test_accuracy", False),
    ],
)
def test_of_targets_less_is_better_unless_the_name_says_otherwise(name, is_lower_better):
    assert ImpactQuestion(target=name).outcomes[0].is_lower_better == is_lower_better


@pytest.mark.parametrize(
    ("name", "is_lower_better"),
    [("answer_accuracy", False), ("lower_bound_accuracy", False), ("val_loss", True),
     ("wer", True), ("r2", False)],
)  # fmt: skip
def test_of_qualities_more_is_better_unless_they_are_losses(name, is_lower_better):
    found = ImpactQuestion(target="time_s", quality=name).outcomes[1]
    assert found.is_lower_better == is_lower_better
