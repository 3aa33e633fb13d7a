import pytest
from earl_envs.evaluation.intervals import difference_interval, wilson_interval
from hypothesis import given, settings
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [
        # Newcombe, Statistics in Medicine 17 (1998) 857-872, table I, method 3.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        # The closed form at the ends: z^2 / (n + z^2) from 0, n / (n + z^2) to 1.
        (0, 10, 0.0, 3.841459 / 13.841459),
        (400, 400, 400 / 403.841459, 1.0),
        (50, 100, 0.4038, 0.5962),
    ],
)
def test_wilson_interval_equals_known_values(successes, trials, low, high):
    assert wilson_interval(successes, trials) == pytest.approx((low, high), abs=6e-5)


@settings(derandomize=True, max_examples=200, deadline=None)
@given(trials=st.integers(1, 3000), data=st.data())
def test_wilson_interval_holds_its_rate_and_reaches_the_ends_only_there(trials, data):
    successes = data.draw(st.integers(0, trials) | st.sampled_from([0, trials]))
    low, high = wilson_interval(successes, trials)
    assert 0.0 <= low <= successes / trials <= high <= 1.0
    assert (low == 0.0) is (successes == 0)
    assert (high == 1.0) is (successes == trials)


@pytest.mark.parametrize(
    ("first", "second", "low", "high"),
    [
        # Newcombe, Statistics in Medicine 17 (1998) 873-890, table II, method 10, of p1 - p2.
        ((48, 80), (56, 70), 0.0524, 0.3339),
        ((3, 10), (9, 10), 0.1705, 0.8090),
        ((2, 7), (6, 7), 0.0582, 0.8062),
        ((0, 29), (5, 56), -0.0381, 0.1926),
        ((0, 20), (0, 10), -0.1611, 0.2775),
        ((0, 10), (10, 10), 0.6075, 1.0),
    ],
)
def test_difference_interval_equals_newcombes_values(first, second, low, high):
    assert difference_interval(*first, *second) == pytest.approx((low, high), abs=6e-5)


def test_the_difference_the_other_way_round_is_its_mirror_image():
    low, high = difference_interval(48, 80, 56, 70)
    assert difference_interval(56, 70, 48, 80) == pytest.approx((-high, -low))


@pytest.mark.parametrize(("successes", "trials"), [(1, 0), (0, 0), (-1, 5), (6, 5)])
def test_counts_that_are_none_are_refused(successes, trials):
    with pytest.raises(ValueError, match=f"got {successes}/{trials}"):
        wilson_interval(successes, trials)


def test_draws_count_as_half_a_success():
    low, high = wilson_interval(7.5, 20)
    assert wilson_interval(7, 20) < (low, high) < wilson_interval(8, 20)
