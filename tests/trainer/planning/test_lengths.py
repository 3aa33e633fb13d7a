"""How long sequences are and how alike those of a prompt."""

from dataclasses import replace

import numpy as np
import pytest
from earl_trainer.planning.lengths import EmpiricalLengths, LogNormalLengths
from hypothesis import given, settings
from hypothesis import strategies as st

LENGTHS = LogNormalLengths(median_tokens=1000, tail_ratio=8, max_tokens=4000)


def draw(lengths, *, num_groups=20_000, group_size=4, seed=0):
    return lengths.draw(num_groups, group_size, np.random.default_rng(seed))


def test_median_tail_and_cut_are_what_they_are_called():
    uncut = draw(replace(LENGTHS, max_tokens=10**9))
    assert np.median(uncut) == pytest.approx(1000, rel=0.02)
    assert np.quantile(uncut, 0.99) == pytest.approx(8000, rel=0.05)
    assert (draw(LENGTHS) == np.minimum(uncut, 4000)).all()


@settings(max_examples=20, deadline=None)
@given(
    median=st.integers(50, 5000),
    tail=st.floats(1.0, 20.0),
    cut=st.floats(0.2, 20.0),
    share=st.floats(0.0, 1.0),
)
def test_closed_forms_are_the_means_of_what_is_drawn(median, tail, cut, share):
    lengths = LogNormalLengths(
        median_tokens=median, tail_ratio=tail, max_tokens=int(median * cut), prompt_share=share
    )
    drawn = draw(lengths, num_groups=40_000, group_size=2).astype(float)
    assert drawn.mean() == pytest.approx(lengths.mean_tokens, rel=0.05, abs=0.6)
    in_flight = (drawn**2).mean() / (2 * drawn.mean())
    assert in_flight == pytest.approx(lengths.mean_context_tokens, rel=0.12, abs=0.6)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_sequences_of_a_prompt_share_that_part_of_the_variance(share):
    logs = np.log(draw(replace(LENGTHS, max_tokens=10**9, prompt_share=share)))
    assert np.corrcoef(logs[:, 0], logs[:, 1])[0, 1] == pytest.approx(share, abs=0.02)
    assert logs.std() == pytest.approx(LENGTHS.sigma, rel=0.02)


def test_a_tail_ratio_of_one_makes_all_alike():
    lengths = LogNormalLengths(median_tokens=70, tail_ratio=1, max_tokens=50)
    assert set(draw(lengths, num_groups=10).flat) == {50}
    assert lengths.mean_tokens == 50
    assert lengths.mean_context_tokens == 25


def test_measured_groups_are_drawn_whole_and_equally_often():
    lengths = EmpiricalLengths(groups=((1, 2), (3, 4), (5, 60)))
    drawn = [tuple(row) for row in draw(lengths, num_groups=6000, group_size=2).tolist()]
    assert set(drawn) == set(lengths.groups)
    assert all(drawn.count(group) == pytest.approx(2000, rel=0.1) for group in lengths.groups)
    assert lengths.mean_tokens == 12.5
    assert lengths.max_tokens == 60


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: replace(LENGTHS, median_tokens=0.5), "median_tokens must be >= 1, got 0.5"),
        (lambda: replace(LENGTHS, tail_ratio=0.9), "tail_ratio must be >= 1, got 0.9"),
        (lambda: replace(LENGTHS, max_tokens=0), "max_tokens must be >= 1, got 0"),
        (lambda: replace(LENGTHS, prompt_share=1.5), r"prompt_share must be in \[0, 1\], got 1.5"),
        (lambda: EmpiricalLengths(groups=()), r"of one size >= 1, got sizes \[\]"),
        (lambda: EmpiricalLengths(groups=((),)), r"of one size >= 1, got sizes \[0\]"),
        (lambda: EmpiricalLengths(groups=((1, 2), (1,))), r"of one size >= 1, got sizes \[1, 2\]"),
        (lambda: EmpiricalLengths(groups=((1, 0),)), "measured lengths must be >= 1, got 0"),
        (
            lambda: draw(EmpiricalLengths(groups=((1,),)), group_size=2),
            "measured groups have 1 sequences, not 2",
        ),
    ],
)
def test_what_means_nothing_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
