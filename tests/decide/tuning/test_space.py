"""Spaces of hyperparameters: what could be left out of them."""

from foretell.decide.tuning.space import read_space


def test_a_value_that_is_written_twice_is_one_part():
    space = read_space({"hyperparameters": {"batch": [16, 16, 32], "lr": [0.1, 0.2]}})
    texts = [part.text for part in space.parts(["batch", "lr"])]
    assert texts == ["batch=16", "batch=32", "lr=0.1", "lr=0.2"]


def test_the_only_value_is_no_part():
    space = read_space({"hyperparameters": {"batch": [16, 16], "lr": [0.1, 0.2]}})
    assert [part.name for part in space.parts(["batch", "lr"])] == ["lr", "lr"]
