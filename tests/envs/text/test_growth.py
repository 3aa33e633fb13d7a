"""Measured prompt growth against what the policies promise."""

import numpy as np
import pytest
from earl_envs import make_game
from earl_envs.text.growth import measure_growth

GAME = make_game("earl/ConnectFour-v0")
BOARD = len(GAME.text((0, 0), 0))
RULES = len(GAME.rules())


def _reply(name: str) -> str:
    return "x" * 97 + name


@pytest.fixture(scope="module")
def growths():
    measured = measure_growth(GAME, num_games=8, seed=0, reply=_reply, count_tokens=len)
    return {growth.history: growth for growth in measured}


def test_full_history_grows_by_one_exchange_a_turn(growths):
    prompts = growths["full"].prompt_tokens
    assert len(prompts) > 10
    assert prompts == tuple(RULES + BOARD + turn * (BOARD + 100) for turn in range(len(prompts)))


def test_total_of_a_full_history_is_quadratic_in_the_turns(growths):
    totals = np.array(growths["full"].total_tokens)
    turns = np.arange(1, len(totals) + 1)
    # The sum of 1 to T is T(T + 1) / 2; here every turn adds one exchange.
    expected = turns * (RULES + BOARD) + turns * (turns - 1) / 2 * (BOARD + 100)
    np.testing.assert_allclose(totals, expected)


def test_window_stops_growing_when_it_is_full(growths):
    prompts = growths["last-3"].prompt_tokens
    kept = [min(turn, 3) for turn in range(len(prompts))]
    assert prompts == tuple(RULES + BOARD + number * (BOARD + 100) for number in kept)


def test_board_only_never_grows(growths):
    assert set(growths["board-only"].prompt_tokens) == {RULES + BOARD}


def test_all_policies_see_the_same_games(growths):
    counts = {growth.num_games for growth in growths.values()}
    assert len(counts) == 1
    (numbers,) = counts
    assert numbers[0] == 16  # both seats of 8 games
    assert list(numbers) == sorted(numbers, reverse=True)


def test_another_seed_plays_other_games():
    first, second = (
        measure_growth(GAME, ["full"], num_games=5, seed=seed)[0].num_games for seed in (0, 1)
    )
    assert first != second


def test_no_games_are_refused():
    with pytest.raises(ValueError, match="num_games must be >= 1, got 0"):
        measure_growth(GAME, num_games=0, seed=0)
