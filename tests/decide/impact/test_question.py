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
        ("iou", False),
        ("val_precision", False),
        ("episode_reward_mean", False),
        ("accuracy_loss", True),
        ("throughput_mb", False),
        ("score_time", True),
        ("score_time_min", True),
        ("episode_reward_min", False),
        ("accuracy_loss_min", True),
        ("cost_per_h", True),
        ("energy_per_s", True),
        ("errors_per_s", True),
        ("throughput_error", True),
        ("simulated_time_per_s", False),
        ("time_to_accuracy", True),
        ("epochs_to_accuracy", True),
        ("steps_to_best_reward", True),
        ("time_to_accuracy_80", True),
        ("image_to_text_score", False),
        ("rows_to_disk_per_s", False),
    ],
)
def test_of_targets_less_is_better_unless_the_name_says_otherwise(name, is_lower_better):
    assert ImpactQuestion(target=name).outcomes[0].is_lower_better == is_lower_better


@pytest.mark.parametrize(
    ("name", "is_lower_better"),
    [("answer_accuracy", False), ("lower_bound_accuracy", False), ("val_loss", True),
     ("wer", True), ("r2", False), ("energy_j", True), ("latency_ms", True), ("p99_latency", True),
     ("peak_memory_bytes", True), ("images_per_s", False), ("reward", False),
     ("episode_reward_min", False), ("val_loss_min", True), ("duration_min", True),
     ("errors_per_s", True), ("cost_per_h", True), ("epochs_to_accuracy", True),
     ("speech_to_text_wer", True), ("text_to_image_recall", False)],
)  # fmt: skip
def test_of_qualities_more_is_better_unless_they_are_losses(name, is_lower_better):
    found = ImpactQuestion(target="time_s", quality=name).outcomes[1]
    assert found.is_lower_better == is_lower_better


@pytest.mark.parametrize(
    ("name", "high"),
    [
        ("time_s", 0.2),
        ("throughput", 0.2),
        ("accuracy", 0.05),
        ("iou", 0.05),
        ("val_loss", 0.05),
        ("epochs_to_accuracy", 0.2),
        ("cost_per_h", 0.2),
        ("image_to_text_score", 0.05),
    ],
)
def test_a_target_that_is_a_quality_has_the_levels_of_one(name, high):
    assert ImpactQuestion(target=name).outcomes[0].high == high
    own = ImpactQuestion(target=name, levels={name: (0.3, 0.1)})
    assert own.outcomes[0].high == 0.3


def test_what_a_source_says_is_better_yields_to_what_was_asked():
    found = ImpactQuestion(target="value").informed({"value": "higher", "other": "lower"})
    assert not found.outcomes[0].is_lower_better
    assert found.outcomes[0].high == 0.05
    asked = ImpactQuestion(target="value", better={"value": "lower"})
    assert asked.informed({"value": "higher"}).outcomes[0].is_lower_better
    rate = ImpactQuestion(target="samples_per_s").informed({"samples_per_s": "higher"})
    assert rate.outcomes[0].high == 0.2
