"""Priors: what is read, what is refused, and that every value drawn keeps to the prior."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.errors import UsageError
from foretell.model.campaigns.search.priors import PRIORS, parse_prior

SHARES = st.floats(0, 1)
BOUNDS = st.tuples(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6)).map(lambda b: (b[0], b[0] + b[1]))
POSITIVE_BOUNDS = st.tuples(st.floats(1e-9, 1e6), st.floats(1.001, 1e6)).map(
    lambda b: (b[0], b[0] * b[1])
)
STEPS = st.sampled_from([0.001, 0.1, 0.25, 0.3, 1, 2, 2.5, 10, 50])


def is_multiple(value, step):
    return math.isclose(value / step, round(value / step), abs_tol=1e-6, rel_tol=1e-9)


@pytest.mark.parametrize(
    "text, low, high",
    [
        ("uniform(0.5, 2)", 0.5, 2),
        (" uniform( -1 ,1 ) ", -1, 1),
        ("loguniform(1e-3, 10)", 1e-3, 10),
        ("quniform(1, 9, 2)", 2, 8),
        ("quniform(0.1, 0.3, 0.1)", 0.1, 0.3),
        ("qloguniform(10, 1000, 10)", 10, 1000),
        ("uniformint(2, 5)", 2, 5),
        ("randint(4)", 0, 3),
        ("randint(2, 4)", 2, 3),
        ("choice(a, b)", "a", "b"),
    ],
)
def test_ends_of_the_range_are_the_written_ones(text, low, high):
    prior = parse_prior(text)
    assert (prior.at(0), prior.at(1)) == (low, high)


@pytest.mark.parametrize(
    "text, middle",
    [
        ("uniform(0, 4)", 2.0),
        ("loguniform(0.01, 1)", pytest.approx(0.1)),
        ("normal(5, 2)", pytest.approx(5)),
        ("lognormal(8, 2)", pytest.approx(8)),
        ("qnormal(5.2, 0.001, 1)", 5),
        ("qlognormal(50, 1.001, 10)", 50),
    ],
)
def test_middle_of_the_range(text, middle):
    assert parse_prior(text).at(0.5) == middle


@pytest.mark.parametrize(
    "value", ["squared_error", 3, 0.1, None, True, ["uniform(0,1)"], "", "a (b) c", "(1, 2)"]
)
def test_what_is_no_prior(value):
    assert parse_prior(value) is None


@pytest.mark.parametrize(
    "text, part",
    [
        ("unifrom(0, 1)", "unknown prior 'unifrom' in 'unifrom(0, 1)'. Did you mean 'uniform'?"),
        ("pchoice(0.5, 1)", "Did you mean 'choice'?"),
        ("uniform(1)", "expected uniform(low, high); got 1 argument"),
        ("uniform()", "got 0 arguments"),
        ("uniform(1, 2, 3)", "got 3 arguments"),
        ("uniform(2, 1)", "the lower bound 2 must be less than the upper bound 1"),
        ("uniform(1, 1)", "must be less"),
        ("uniform(a, 1)", "'a' is not a number"),
        ("uniform(true, 1)", "True is not a number"),
        ("uniform([1], 1)", "[1] is not a number"),
        ("uniform(0, 1e999)", "larger than 1e+150"),
        ("uniform(1,, 2)", "a value is missing"),
        ("loguniform(0, 1)", "0 must be positive"),
        ("qloguniform(-1, 1, 1)", "-1 must be positive"),
        ("lognormal(0, 2)", "0 must be positive"),
        ("lognormal(1, 0.5)", "a factor above 1"),
        ("lognormal(1, 1e100)", "the factor 1e+100 is too large"),
        ("normal(0, 0)", "the deviation must be positive"),
        ("quniform(0, 1, 0)", "the step 0 must be positive"),
        ("quniform(1.1, 1.9, 1)", "no multiple of 1 lies between 1.1 and 1.9"),
        ("uniformint(0.5, 2)", "the bounds must be whole numbers"),
        ("uniformint(3, 2)", "no whole number lies between 3 and 2"),
        ("randint(0)", "no whole number"),
        ("choice()", "expected choice(option"),
    ],
)
def test_prior_written_wrongly_is_refused(text, part):
    with pytest.raises(UsageError) as caught:
        parse_prior(text)
    assert part in str(caught.value)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    "text, options",
    [
        ("choice(linear, rbf)", ("linear", "rbf")),
        ("choice('a,b', c)", ("a,b", "c")),
        ("choice([1, 2, none])", (1, 2, None)),
        ("choice([20, 10], [5])", ([20, 10], [5])),
        ("choice(True)", (True,)),
    ],
)
def test_choice_reads_words_numbers_and_lists(text, options):
    assert parse_prior(text).options == options


@given(BOUNDS, SHARES)
def test_uniform_stays_in_its_bounds(bounds, share):
    low, high = bounds
    assert low <= parse_prior(f"uniform({low!r}, {high!r})").at(share) <= high


@given(POSITIVE_BOUNDS, SHARES)
def test_loguniform_stays_in_its_bounds(bounds, share):
    low, high = bounds
    assert low <= parse_prior(f"loguniform({low!r}, {high!r})").at(share) <= high


@given(POSITIVE_BOUNDS, STEPS, SHARES, st.sampled_from(["quniform", "qloguniform"]))
def test_stepped_priors_give_multiples_inside_their_bounds(bounds, step, share, name):
    low, high = bounds[0], bounds[1] + step  # so that some multiple lies between them
    value = parse_prior(f"{name}({low!r}, {high!r}, {step})").at(share)
    assert low <= value <= high
    assert is_multiple(value, step)
    assert isinstance(value, int) == (step == round(step))


@given(st.integers(-1000, 1000), st.integers(0, 1000), SHARES)
def test_whole_priors_give_whole_numbers_inside_their_bounds(low, width, share):
    for text in (f"uniformint({low}, {low + width})", f"randint({low}, {low + width + 1})"):
        value = parse_prior(text).at(share)
        assert isinstance(value, int)
        assert low <= value <= low + width


@given(st.floats(-1e3, 1e3), st.floats(0.01, 1e3), STEPS, SHARES)
def test_normal_priors_stay_within_four_deviations(mean, deviation, step, share):
    assert abs(parse_prior(f"normal({mean!r}, {deviation!r})").at(share) - mean) < 4 * deviation
    rounded = parse_prior(f"qnormal({mean!r}, {deviation!r}, {step})").at(share)
    assert is_multiple(rounded, step)
    assert abs(rounded - mean) < 4 * deviation + step


@given(st.floats(0.01, 1e3), st.floats(1.01, 10), STEPS, SHARES)
def test_lognormal_priors_stay_within_four_factors(median, factor, step, share):
    value = parse_prior(f"lognormal({median!r}, {factor!r})").at(share)
    assert median / factor**4 < value < median * factor**4
    assert is_multiple(parse_prior(f"qlognormal({median!r}, {factor!r}, {step})").at(share), step)


@given(SHARES, SHARES)
def test_a_larger_share_never_gives_a_smaller_value(one, other):
    small, large = sorted((one, other))
    for text in ("uniform(-2, 5)", "loguniform(0.1, 9)", "quniform(0, 9, 0.3)", "normal(0, 1)"):
        prior = parse_prior(text)
        assert prior.at(small) <= prior.at(large)


def test_every_prior_has_a_signature_that_starts_with_its_name():
    assert all(signature.startswith(f"{name}(") for name, (signature, _) in PRIORS.items())
