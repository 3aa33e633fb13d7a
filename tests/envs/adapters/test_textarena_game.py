"""TextArena's rules, cleaned of its process-wide effects."""

import copy

import pytest
from earl_envs.boundary import Failure

pytest.importorskip("textarena")

from earl_envs.adapters.textarena_game import TextArenaGame, env_ids, refuse


def tic_tac_toe(num_retries=0):
    game = TextArenaGame("TicTacToe-v0", num_seats=2, num_retries=num_retries)
    return game, game.start(0)


def test_each_seat_is_told_the_rules_apart_from_the_board():
    game, told = tic_tac_toe()
    assert [text.startswith(f"You are Player {seat} in Tic Tac Toe") for seat, text in
            enumerate(told)] == [True, True]  # fmt: skip
    assert not any("Current Board" in text for text in told)
    assert game.ask()[1].startswith("Current Board")


def test_a_second_start_repeats_nothing_of_the_first():
    game, told = tic_tac_toe()
    first = game.ask()
    game.move(0, "[4]")
    assert game.start(0) == told
    assert game.ask() == first


def test_news_is_shown_once_and_own_words_never():
    game, _ = tic_tac_toe()
    game.ask()
    game.move(0, "My plan: [4]")
    peeked = game.news(1)
    seat, news = game.ask()
    assert (seat, news) == (1, peeked)
    assert "[Player 0] My plan: [4]" in news
    assert "My plan" not in game.news(0)
    assert game.news(1) == ""


def test_a_refused_reply_says_why_and_ends_the_game_only_without_retries():
    game, _ = tic_tac_toe()
    assert game.move(0, "[4]") == ""
    assert "already occupied" in game.move(1, "[4]")
    assert game.finished
    assert game.scores()[1] == (1.0, -1.0)
    game, _ = tic_tac_toe(num_retries=1)
    assert game.move(0, "no idea") != ""
    assert not game.finished
    assert game.move(0, "no idea") != ""
    assert game.finished


def test_a_reply_that_it_was_not_shown_counts_as_refused():
    game, _ = tic_tac_toe(num_retries=2)
    assert game.refuse_reply("too long") is True
    assert "Reason: too long" in game.ask()[1]
    assert game.move(0, "no idea") != ""
    assert game.refuse_reply("too long") is False
    assert game.move(0, "[4]") == ""
    assert game.ask()[0] == 1


def test_an_earlier_refusal_does_not_count_again():
    game, _ = tic_tac_toe(num_retries=1)
    # Games of teams go on after a refusal and keep the mark.
    game._env.state.game_info[0]["invalid_move"] = True
    assert game.move(0, "[4]") == ""


def test_chance_comes_from_the_seed():
    game = TextArenaGame("Sokoban-v0", num_seats=1, num_retries=0)
    boards = []
    for seed in (3, 3, 4):
        game.start(seed)
        boards.append(game.ask())
    assert boards[0] == boards[1] != boards[2]


def test_a_copy_draws_the_same_chance():
    game = TextArenaGame("PigDice-v0", num_seats=2, num_retries=0)
    game.start(1)
    game.ask()
    other = copy.deepcopy(game)
    for each in (game, other):
        for _ in range(4):
            each.move(each.ask()[0], "[roll]")
    assert [game.news(0), game.news(1)] == [other.news(0), other.news(1)]


def test_what_textarena_raises_is_a_failure():
    game = TextArenaGame("TicTacToe-v0", num_seats=3, num_retries=0)
    failed = game.start(0)
    assert isinstance(failed, Failure)
    assert "number of players has to be 2" in failed.error


def test_ids_are_listed_once_and_unknown_ones_refused():
    ids = env_ids()
    assert {"TicTacToe-v0", "2048-v0-easy"} < set(ids)
    assert "TicTacToe-v0-raw" not in ids
    with pytest.raises(ValueError, match="did you mean 'TicTacToe-v0'"):
        TextArenaGame("TicTacTo-v0", num_seats=2, num_retries=0)


def test_missing_data_is_named_in_one_line():
    raised = "LookupError: **** Resource \x1b[93mwords\x1b[0m not found. Please use the (x:1 in y)"
    with pytest.raises(ValueError, match=r"needs data of NLTK: python -m nltk\.downloader words$"):
        refuse("Wordle-v0", raised)
