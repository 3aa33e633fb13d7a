"""What an episode says about itself."""

import pytest
from earl_envs import EndReason
from earl_trainer.types import Episode, EpisodeStart, Turn

START = EpisodeStart(episode=0, group=0, seat=0, game_seed=0, reply_seed=0)


def turn(prompt_tokens, reply_tokens, *, cut=False):
    return Turn(
        prompt_ids=(1,) * prompt_tokens,
        reply_ids=(2,) * reply_tokens,
        logprobs=(0.0,) * reply_tokens,
        versions=(0,) * reply_tokens,
        text="",
        action=None,
        cut=cut,
    )


def episode(end_reason=EndReason.FINISHED, turns=()):
    return Episode(start=START, turns=turns, moves=(), end_reason=end_reason, outcome=0.0)


@pytest.mark.parametrize(
    ("reason", "kinds"),
    [
        (EndReason.FINISHED, ()),
        (EndReason.ILLEGAL_MOVE, ("forfeited",)),
        (EndReason.UNPARSABLE, ("forfeited",)),
        (EndReason.CONTEXT_LIMIT, ("truncated",)),
        (EndReason.ENV_ERROR, ("failed",)),
        (EndReason.OPPONENT_ERROR, ("failed",)),
    ],
)
def test_an_end_is_forfeited_cut_failed_or_none_of_them(reason, kinds):
    ended = episode(reason, (turn(3, 2),))
    said = {"forfeited": ended.forfeited, "truncated": ended.truncated, "failed": ended.failed}

    assert said == {kind: kind in kinds for kind in said}


def test_a_cut_reply_truncates_a_game_that_was_finished():
    assert episode(turns=(turn(3, 2, cut=True), turn(8, 2))).truncated


def test_the_context_is_the_last_prompt_and_reply():
    assert episode(turns=(turn(3, 2), turn(8, 4))).context_tokens == 12
    assert episode().context_tokens == 0
