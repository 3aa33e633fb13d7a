"""Turns of many games at once against one game at a time."""

import time

import numpy as np
import pytest
from earl_envs import Game, GameBatch, ParseFailure, TextProtocol, make_batch
from earl_envs.text.batch_text import BatchText
from hypothesis import given, settings
from hypothesis import strategies as st

GAMES = ["earl/TicTacToe-v0", "earl/ConnectFour-v0", "earl/Othello-v0"]
# What is written around a name, and whether it can still be played from there.
WORDINGS = [
    "{}",
    "<think>[1] or [2]? [3]!</think> I take {}.",
    "<answer>{}</answer>",
    r"[1] \boxed{{{}}}",
    "<think>{}",
    "<answer>{}</action>",
    "{} is bad, [none] is better",
    "no idea",
    "",
    "\x00 é {} \n",
]


def _reply(protocol: TextProtocol, state, rng: np.random.Generator) -> str:
    """Word a legal move most of the time, any move of the game else."""
    game = protocol.game
    actions = game.legal(state) if rng.random() < 0.8 else range(game.num_actions)
    action = int(rng.choice(list(actions)))
    return rng.choice(WORDINGS).format(protocol.format_move(state, action))


@pytest.mark.parametrize("backend", ["numba", "generic"])
@pytest.mark.parametrize("game_id", GAMES)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_turns_mean_what_the_protocol_and_the_rules_say(game_id, backend, seed):
    rng = np.random.default_rng(seed)
    batch = make_batch(game_id, batch_size=7, seed=seed, backend=backend)
    words, protocol, game = BatchText(batch), TextProtocol(batch.game), batch.game
    states = [batch.state(index) for index in range(7)]
    assert words.texts(range(7)) == [game.text(state, game.seat(state)) for state in states]
    for _ in range(8):
        running = [index for index in range(7) if game.returns(states[index]) is None]
        if not running:
            break
        chosen = rng.permutation(running)[: rng.integers(1, len(running) + 1)].tolist()
        replies = [_reply(protocol, states[index], rng) for index in chosen]
        result = words.turn(replies, chosen)
        parsed = dict(
            zip(chosen, map(protocol.parse, replies, [states[i] for i in chosen]), strict=True)
        )
        for index, outcome in parsed.items():
            if outcome.action is not None:
                states[index] = game.apply(states[index], outcome.action)
        assert [batch.state(index) for index in range(7)] == states
        wrong = {index: outcome for index, outcome in parsed.items() if outcome.failure}
        assert result.failures == wrong
        assert not result.errors
        assert result.texts == [
            "" if game.returns(state) is not None else game.text(state, game.seat(state))
            for state in (states[index] for index in chosen)
        ]


def test_default_is_every_running_game_and_finished_ones_say_nothing():
    batch = make_batch("earl/TicTacToe-v0", batch_size=2, seed=0)
    words = BatchText(batch)
    for move in (1, 4, 2, 5):
        words.turn([f"[{move}]"] * 2)
    result = words.turn(["[3]", "[9]"])
    assert result.texts == ["", "O O 3\nX X 6\n7 8 O"]
    assert words.turn(["[6]"]).texts == [""]
    assert batch.done.all()


def test_autoreset_shows_the_new_start():
    batch = make_batch("earl/TicTacToe-v0", batch_size=1, seed=0, autoreset=True)
    words = BatchText(batch)
    for move in (1, 4, 2, 5):
        words.turn([f"[{move}]"])
    assert words.turn(["[3]"]).texts == ["1 2 3\n4 5 6\n7 8 9"]
    assert batch.done.tolist() == [True]


@pytest.mark.parametrize("backend", ["numba", "generic"])
def test_wrong_reply_leaves_its_game_and_steps_the_neighbours(backend):
    batch = make_batch("earl/TicTacToe-v0", batch_size=3, seed=0, backend=backend)
    words = BatchText(batch)
    words.turn(["[1]"] * 3)
    result = words.turn(["[1]", "[2]", "<answer>[2] [3]</answer> [4]"])
    assert {index: parsed.failure for index, parsed in result.failures.items()} == {
        0: ParseFailure.ILLEGAL,
        2: ParseFailure.UNPARSABLE,
    }
    assert result.failures[0].detail == "'[1]' is not legal now"
    assert batch.num_moves.tolist() == [1, 2, 1]
    assert result.texts == ["O 2 3\n4 5 6\n7 8 9", "X O 3\n4 5 6\n7 8 9", "O 2 3\n4 5 6\n7 8 9"]


@pytest.mark.parametrize("backend", ["numba", "generic"])
@pytest.mark.parametrize(
    ("replies", "indices", "message"),
    [
        (["[1]"], [3], r"every index must be in 0\.\.2, got \[3\]"),
        (["[1]"], [-1], r"every index must be in 0\.\.2, got \[-1\]"),
        (["[1]", "[2]"], [1, 1], r"a game has one turn per call, got indices \[1, 1\]"),
        (["[1]"], [0, 1], "one reply per game: got 1 for 2 games"),
        (["[1]"], [1.0], "indices must be a list of integers"),
        (["[1]"], [True], "indices must be a list of integers"),
        (["[1]"], [[1]], "indices must be a list of integers"),
    ],
)
def test_wrong_indices_are_refused_and_nothing_is_played(backend, replies, indices, message):
    batch = make_batch("earl/TicTacToe-v0", batch_size=3, seed=0, backend=backend)
    with pytest.raises(ValueError, match=message):
        BatchText(batch).turn(replies, indices)
    assert not batch.num_moves.any()


@pytest.mark.parametrize("backend", ["numba", "generic"])
def test_finished_game_takes_no_reply(backend):
    batch = make_batch("earl/TicTacToe-v0", batch_size=2, seed=0, backend=backend)
    for action in (0, 3, 1, 4, 2):
        batch.step([action], [1])
    with pytest.raises(ValueError, match="game 1 is over and takes no reply"):
        BatchText(batch).turn(["[5]", "[6]"], [0, 1])
    assert batch.num_moves.tolist() == [0, 5]


class Shy(Game):
    """Counts up; cannot show the state 2 nor name moves in state 1 when built to."""

    num_seats, num_actions, max_moves = 1, 2, 9

    def __init__(self, *, namable: bool) -> None:
        self.namable = namable

    def initial(self, rng):
        return 0

    def seat(self, state):
        return 0

    def legal(self, state):
        return [0, 1]

    def apply(self, state, action):
        return state + 1 + action

    def returns(self, state):
        return (1.0,) if state > 3 else None

    def text(self, state, seat):
        if state == 2:
            raise RuntimeError("no picture")
        return str(state)

    def move_name(self, state, action):
        if state == 1 and not self.namable:
            raise RuntimeError("no name")
        return f"[{action + 1}]"


def test_game_that_fails_to_speak_is_an_error_of_that_game_alone():
    batch = GameBatch(Shy(namable=False), seeds=[0, 0, 0])
    words = BatchText(batch)
    batch.step([0], [1])
    result = words.turn(["[2]", "[1]", "[1]"])
    assert result.texts == ["", "", "1"]
    assert set(result.errors) == {0, 1}
    assert result.errors[0].error.startswith("RuntimeError: no picture (")
    assert result.errors[1].error.startswith("RuntimeError: no name (")
    assert not result.failures
    assert batch.num_moves.tolist() == [1, 1, 1]
    assert batch.done.tolist() == [True, True, False]
    assert dict(batch.failed) == {index: error.error for index, error in result.errors.items()}
    assert not batch.returns.any()


def test_loop_over_running_games_ends_though_one_never_speaks():
    batch = GameBatch(Shy(namable=False), seeds=[0, 0])
    words, num_turns = BatchText(batch), 0
    while not batch.done.all() and num_turns < 20:
        running = np.flatnonzero(~batch.done).tolist()
        words.turn(["[1]" if index else "[2]" for index in running], running)
        num_turns += 1
    assert num_turns < 20
    assert set(batch.failed) == {0, 1}


def test_game_that_cannot_write_its_first_text_ends_and_its_neighbour_is_told():
    batch = GameBatch(Shy(namable=True), seeds=[0, 0])
    batch.step([1], [0])
    assert BatchText(batch).texts([0, 1, 0]) == ["", "0", ""]
    assert batch.done.tolist() == [True, False]
    assert batch.failed[0].startswith("RuntimeError: no picture (")


def test_autoreset_reports_a_game_that_cannot_name_its_moves_and_begins_the_next():
    batch = GameBatch(Shy(namable=False), seeds=[0, 0], autoreset=True)
    words = BatchText(batch)
    words.turn(["[1]"], [0])
    result = words.turn(["[1]", "[1]"])
    assert batch.done.tolist() == [True, False]
    assert batch.failed[0].startswith("RuntimeError: no name (")
    assert batch.episodes.tolist() == [1, 0]
    assert result.texts == ["0", "1"]


def test_time_of_a_turn_is_linear_in_the_length_of_the_replies():
    def least_time_s(num_chars: int) -> float:
        batch = make_batch("earl/ConnectFour-v0", batch_size=64, seed=0, autoreset=True)
        words, times = BatchText(batch), []
        for _ in range(5):
            replies = [
                "<think>" + "x" * num_chars + "</think>" + batch.game.move_name((0, 0), action)
                for action in batch.random_actions().tolist()
            ]
            start_s = time.perf_counter()
            assert not words.turn(replies).failures
            times.append(time.perf_counter() - start_s)
        return min(times)

    assert least_time_s(64_000) < 8 * least_time_s(16_000) + 0.01
