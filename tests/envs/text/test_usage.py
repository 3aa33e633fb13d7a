"""The rough token count."""

import pytest
from earl_envs.text.usage import rough_tokens


@pytest.mark.parametrize(
    ("text", "num_tokens"),
    [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("été", 2), ("四目並べ", 3), ("\ud800", 1)],
)
def test_four_bytes_count_as_one_token(text, num_tokens):
    assert rough_tokens(text) == num_tokens
