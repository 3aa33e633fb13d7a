"""What becomes of the actions that agents choose."""

import numpy as np
import pytest
from earl_envs.end_reason import EndReason
from earl_envs.faces.episode import Episode, EpisodeKey, Table
from earl_envs.faces.judge import Judge


def begin(illegal, *, stones, seed=0):
    key = EpisodeKey(seed=seed, episode=0)
    judge = Judge(illegal)
    judge.begin(key)
    table = Table.lay("faces/LastStone-v0", {"stones": stones})
    return judge, Episode(table, seed=key.game_seed)


def test_legal_moves_are_made_and_illegal_ones_forfeit():
    judge, episode = begin("forfeit", stones=4)
    judge.act(episode, np.int64(1))
    assert (episode.moves, judge.remarks) == ([1], {})
    judge.act(episode, 2)
    assert (episode.end_reason, judge.remarks) == (EndReason.ILLEGAL_MOVE, {"illegal_action": 2})
    assert episode.returns == (1.0, -1.0)
    judge.act(episode, 0)
    assert (episode.moves, judge.remarks) == ([1], {}), "nothing happens after the end"


@pytest.mark.parametrize("action", [True, 1.0, "1", None, [1], -1, 3])
def test_what_is_no_action_is_refused_and_changes_nothing(action):
    judge, episode = begin("retry(1)", stones=2)
    judge.act(episode, 2)
    with pytest.raises(ValueError, match="an action must be"):
        judge.act(episode, action)
    assert judge.remarks == {"illegal_action": 2}
    judge.act(episode, 2)
    assert episode.end_reason is EndReason.ILLEGAL_MOVE


def test_an_episode_begins_with_its_whole_patience():
    judge, episode = begin("retry(1)", stones=2)
    judge.act(episode, 2)
    judge.begin(EpisodeKey(seed=0, episode=1))
    assert judge.remarks == {}
    judge.act(episode, 2)
    assert episode.end_reason is None


def test_what_is_played_instead_depends_on_the_key_alone_and_is_any_legal_action():
    def substituted(seed):
        judge, episode = begin("random_legal", stones=2, seed=seed)
        judge.act(episode, 2)
        assert episode.moves == [judge.remarks["substituted"]]
        return episode.moves[0]

    drawn = [substituted(seed) for seed in range(20)]
    assert drawn == [substituted(seed) for seed in range(20)]
    assert set(drawn) == {0, 1}
