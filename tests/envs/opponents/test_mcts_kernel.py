"""The compiled tree search."""

import time

import numpy as np
import pytest
from earl_envs import make_game
from earl_envs.opponents import mcts_kernel as kernel
from hypothesis import given, settings
from hypothesis import strategies as st

BOARDS = {kernel.CONNECT_FOUR: "earl/ConnectFour-v0", kernel.TIC_TAC_TOE: "earl/TicTacToe-v0"}


@settings(deadline=None)  # the first example compiles
@given(st.sampled_from(sorted(BOARDS)), st.lists(st.integers(0, 8), max_size=42))
def test_boards_agree_with_the_rules_of_their_games(board, actions):
    game = make_game(BOARDS[board])
    state = game.initial(np.random.default_rng(0))
    for action in actions:
        if game.returns(state) is not None:
            break
        legal = game.legal(state)
        taken = state[0] | state[1]
        moves = kernel.legal_moves(taken, board)
        following = [sum(game.apply(state, option)) - sum(state) for option in legal]
        assert moves == sum(following)
        if action in legal:
            state = game.apply(state, action)
    returns = game.returns(state) or (0.0, 0.0)
    assert [kernel.has_line(stones, board) for stones in state] == [r > 0 for r in returns]


@pytest.mark.parametrize("seed", range(5))
def test_a_certain_win_is_found_and_ends_the_search(seed):
    # Seat 0 holds three on the bottom; a million simulations would take a second.
    own, other = 1 | 1 << 7 | 1 << 14, 1 << 1 | 1 << 8 | 1 << 15
    move = kernel.search(own, own | other, kernel.CONNECT_FOUR, 1_000_000, 2.0, seed)
    assert move == 1 << 21


@pytest.mark.parametrize("seed", range(5))
def test_a_certain_loss_is_not_walked_into(seed):
    # O threatens 5 on the right of the middle row; X has nothing of its own.
    own, other = 0b001_000_001, 0b000_011_000
    move = kernel.search(own, own | other, kernel.TIC_TAC_TOE, 500, 2.0, seed)
    assert move == 1 << 5


def test_a_solved_board_has_the_value_of_its_game():
    # Enough simulations settle Tic-Tac-Toe; from any first move but these O would lose.
    for first, answers in {4: {0, 2, 6, 8}, 0: {4}, 1: {0, 2, 4, 7}}.items():
        for seed in range(3):
            own = 1 << first
            move = kernel.search(0, own, kernel.TIC_TAC_TOE, 100_000, 2.0, seed)
            assert int(move).bit_length() - 1 in answers


def test_a_thousand_simulations_rarely_miss_an_answer_that_draws():
    # One mistake in 500 where wins at once are taken first, one in ten where they wait their turn.
    cells = [
        int(kernel.search(0, 1 << 1, kernel.TIC_TAC_TOE, 1_000, 2.0, seed)).bit_length() - 1
        for seed in range(100)
    ]
    assert sum(cell not in {0, 2, 4, 7} for cell in cells) <= 2


def test_play_outs_of_the_empty_board_are_uniform():
    # One simulation per child and one more: the first moves chosen then are close to uniform.
    moves = [
        int(kernel.search(0, 0, kernel.TIC_TAC_TOE, 1, 2.0, seed)).bit_length() - 1
        for seed in range(900)
    ]
    assert np.bincount(moves, minlength=9).min() > 50  # five standard deviations


@pytest.mark.slow
def test_connect_four_is_searched_five_times_as_fast_as_by_openspiel():
    import pyspiel

    game = pyspiel.load_game("connect_four")
    evaluator = pyspiel.RandomRolloutEvaluator(1, 0)
    bot = pyspiel.MCTSBot(game, evaluator, 2.0, 1_000, 1_000, True, 0, False)
    state = game.new_initial_state()

    def per_move_s(move, num_moves):
        move()
        start_s = time.process_time()
        for _ in range(num_moves):
            move()
        return (time.process_time() - start_s) / num_moves

    theirs_s = per_move_s(lambda: bot.step(state), 30)
    ours_s = per_move_s(lambda: kernel.search(0, 0, kernel.CONNECT_FOUR, 1_000, 2.0, 1), 100)
    assert theirs_s / ours_s >= 5
