"""How much was said."""

from earl_trainer.rewards.functions.reply_length import reply_tokens


def test_it_is_the_mean_over_replies(told):
    assert reply_tokens(told("any", "ab", "abcde", "ab")) == 3.0
