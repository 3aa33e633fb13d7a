"""What an agent may spend on an episode of words."""

import math

import pytest
from earl_envs.faces.text_limits import TextLimits, as_limits


def test_a_reply_has_the_room_that_the_tighter_limit_leaves():
    assert TextLimits().room_tokens(10**6) == math.inf
    assert TextLimits(reply_tokens=5).room_tokens(10**6) == 5
    assert TextLimits(context_tokens=12).room_tokens(10) == 2
    both = TextLimits(reply_tokens=5, context_tokens=12)
    assert [both.room_tokens(prompt) for prompt in (3, 10, 12, 20)] == [5, 2, 0, -8]


@pytest.mark.parametrize("name", ["turns", "reply_tokens", "context_tokens"])
def test_limits_are_positive(name):
    with pytest.raises(ValueError, match=f"{name} must be >= 1, got 0"):
        TextLimits(**{name: 0})


def test_nothing_else_stands_for_limits():
    limits = TextLimits(turns=3)
    assert as_limits(limits) is limits
    assert as_limits(None) == TextLimits()
    with pytest.raises(ValueError, match=r"limits must be TextLimits\(...\) or None, got 5"):
        as_limits(5)
