"""A game in progress."""

import numpy as np
import pytest
from earl_envs.end_reason import EndReason
from earl_envs.faces.episode import Episode, EpisodeKey, Table, ending, next_key, seat_word
from earl_envs.record import start_position
from hypothesis import given
from hypothesis import strategies as st


def sit(game_id, seed=0, **params):
    return Episode(Table.lay(game_id, params), seed=seed)


def test_a_seed_begins_a_series_and_no_seed_continues_it():
    first = next_key(None, 7)
    assert first == EpisodeKey(seed=7, episode=0)
    assert next_key(next_key(first, None), None) == EpisodeKey(seed=7, episode=2)
    assert next_key(EpisodeKey(seed=7, episode=2), 9) == EpisodeKey(seed=9, episode=0)
    assert next_key(None, None) != next_key(None, None)


def test_chance_depends_on_seed_and_episode():
    keys = [EpisodeKey(seed=seed, episode=episode) for seed in (0, 1) for episode in (0, 1, 2)]
    assert len({key.game_seed for key in keys}) == 6
    draws = {
        (k.rng("g", seat).random(), k.rng("g", seat).random()) for k in keys for seat in (0, 1)
    }
    assert len(draws) == 12
    assert all(first == again for first, again in draws)


def test_draws_are_even_whichever_part_of_the_key_changes():
    legal = [2, 3, 5, 7]
    key = EpisodeKey(seed=0, episode=0)
    for draws in (
        [EpisodeKey(seed=seed, episode=0).draw("g", 0, 0, legal) for seed in range(2000)],
        [EpisodeKey(seed=0, episode=episode).draw("g", 0, 0, legal) for episode in range(2000)],
        [EpisodeKey(seed=2**70, episode=0).draw("g", 0, move, legal) for move in range(2000)],
        [key.draw(f"me/G-v{version}", 0, 0, legal) for version in range(2000)],
        [key.draw("g", seat, 0, legal) for seat in range(2000)],
    ):
        # Five standard deviations of a binomial with 2,000 draws and probability 1/4.
        assert all(abs(draws.count(action) - 500) < 97 for action in legal)


def test_draws_of_a_seat_of_a_game_are_the_same_in_every_process():
    assert seat_word("earl/TicTacToe-v0", 1) == 9_024_603_878_791_810_345
    key = EpisodeKey(seed=5, episode=3)
    assert [key.draw("earl/TicTacToe-v0", 1, move, range(9)) for move in range(8)] == [
        *(2, 3, 1, 5, 5, 2, 1, 7)
    ]


@given(st.lists(st.integers(0, 2), max_size=11))
def test_moves_lead_where_the_rules_say_and_the_record_leads_there_again(moves):
    episode = sit("faces/LastStone-v0", seed=3)
    left = 11
    for move in moves:
        if episode.end_reason is not None or move + 1 > left:
            break
        episode.play(move)
        left -= move + 1
    assert episode.state[0] == left
    replayed = episode.record().positions()[-1]
    assert (replayed.state, replayed.seat) == (episode.state, episode.seat)
    assert (episode.returns is None) == (left > 0) == (episode.end_reason is None)
    assert episode.terminated == (left == 0)
    assert not episode.truncated


def test_the_parameters_of_the_game_are_in_the_record():
    episode = sit("faces/LastStone-v0", stones=5, seats=3)
    episode.play(1)
    record = episode.record()
    assert record.params == {"stones": 5, "seats": 3}
    assert record.positions()[-1].state == (3, 1)


def test_an_illegal_move_is_refused_and_a_forfeit_loses():
    episode = sit("earl/TicTacToe-v0")
    episode.play(4)
    with pytest.raises(ValueError, match=r"action 4 is not legal, legal: \[0, 1, 2, 3, 5"):
        episode.play(4)
    episode.forfeit(4)
    assert (episode.returns, episode.end_reason) == ((1.0, -1.0), EndReason.ILLEGAL_MOVE)
    assert episode.terminated
    assert episode.detail.startswith("action 4 is not legal")
    assert episode.mask(1).sum() == 0


def test_rules_that_raise_end_the_game_for_nobody():
    episode = sit("faces/Faulty-v0", method="apply")
    episode.play(2)
    episode.play(2)
    assert episode.state == (5, 0)
    episode.play(0)
    assert episode.state == (5, 0), "the last sound state stays"
    assert (episode.returns, episode.end_reason) == ((0.0, 0.0), EndReason.ENV_ERROR)
    assert episode.truncated
    assert "RuntimeError: apply broke" in episode.detail
    assert episode.moves == [2, 2]


def test_planes_that_raise_end_the_game_and_show_zeros():
    episode = sit("faces/Faulty-v0", method="planes")
    assert episode.observe(0).tolist() == [[[11] * 4]]
    episode.play(2)
    episode.play(2)
    assert not episode.observe(0).any()
    assert episode.end_reason is EndReason.ENV_ERROR


def test_the_mask_is_of_the_seat_to_move_only():
    episode = sit("faces/LastStone-v0", stones=2)
    assert episode.mask(0).tolist() == [1, 1, 0]
    assert episode.mask(1).tolist() == [0, 0, 0]


def test_the_start_is_drawn_from_the_seed():
    heights = {sit("faces/Climb-v0", seed=seed).state[0] for seed in range(30)}
    assert heights == {0, 1, 2, 3}
    table = Table.lay("faces/Climb-v0", {})
    assert sit("faces/Climb-v0", seed=5).state == start_position(table.game, 5).state


@pytest.mark.parametrize(
    ("returns", "winner"),
    [((1.0, -1.0), 0), ((-1.0, 1.0), 1), ((0.0, 0.0), -1), ((1.0, 1.0, 0.0), -1), ((0.5,), -1)],
)
def test_the_winner_scored_more_than_every_other(returns, winner):
    info = ending(returns, EndReason.FINISHED)
    assert info["winner"] == winner
    assert np.array_equal(info["returns"], returns)
    assert info["end_reason"] == "finished"
