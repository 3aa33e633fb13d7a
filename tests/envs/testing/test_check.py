"""One question for anybody's game."""

import subprocess
import sys

import pytest
from earl_envs.registry import GAMES
from earl_envs.testing import CHECKS, GameCheckError, check_game
from earl_envs.testing.check import find

SLOWER = ("gymnasium", "pettingzoo", "strong", "spawn")
QUICK = [name for name in CHECKS if not name.startswith(SLOWER)]
OPENSPIEL = ["breakthrough", "connect_four", "goofspiel", "hex", "kuhn_poker", "leduc_poker",
             "liars_dice", "matrix_rps", "othello", "pig", "tic_tac_toe"]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    "game_id", [*sorted(GAMES), *(f"openspiel/{name}-v0" for name in OPENSPIEL)]
)
def test_listed_games_are_sound(game_id):
    # In a process of its own, as a user would: the checker of annotations that these tests run
    # under makes a million calls of the rules several times slower.
    code = f"from earl_envs.testing import check_game; check_game({game_id!r}, num_games=20)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


def test_a_sound_game_gives_a_report(register, stones):
    report = check_game(register(stones), num_games=10, checks=QUICK)
    assert report.passed == tuple(QUICK)
    assert str(report) == f"liar/Stones-v0: {len(QUICK)} of {len(QUICK)} checks passed"
    assert report.num_games == 10


def test_a_liar_fails_with_everything_that_is_wrong_and_where(register, stones):
    class Liar(stones):
        def text(self, state, seat):
            return "" if state[0] == 2 else super().text(state, seat)

        def move_name(self, state, action):
            return "[take]"

    with pytest.raises(GameCheckError) as caught:
        check_game(register(Liar), num_games=10, checks=["texts", "move_round_trip", "clone"])

    report = caught.value.report
    assert list(report.findings) == ["texts", "move_round_trip"]
    assert report.passed == ("playthrough", "clone")
    message = str(caught.value)
    assert message.startswith("liar/Liar-v0: 2 of 4 checks passed\n  texts: text() for seat ")
    assert "\n  move_round_trip: legal actions 0 and 1 are both named [take]\n    at " in message


def test_nothing_is_derived_from_rules_that_do_not_hold(register, stones):
    class Stuck(stones):
        def legal(self, state):
            return []

    with pytest.raises(GameCheckError, match="before the rules hold: clone, texts") as caught:
        check_game(register(Stuck), num_games=3, checks=["texts", "clone"])
    assert caught.value.report.skipped == ("clone", "texts")


def test_a_check_lists_a_few_findings_and_keeps_those_before_a_failure(context_of, stones):
    def endless(context):
        while True:
            yield context.plays[0].visit(0).finding("wrong")

    def failing(context):
        yield context.plays[0].visit(0).finding("wrong")
        raise KeyError("oops")

    context = context_of(stones)
    assert len(find(context, endless)) == 3
    first, second = find(context, failing)
    assert first.wrong == "wrong"
    assert second.wrong.startswith("KeyError: 'oops'")


def test_parameters_are_those_of_the_game(register, stones):
    class Heap(stones):
        max_moves = 30

        def __init__(self, size=5):
            self.size = size

        def initial(self, rng):
            return self.size, 0

    game_id = register(Heap)
    assert check_game(game_id, params={"size": 30}, num_games=3, checks=["scores"]).passed
    with pytest.raises(GameCheckError, match="still running after max_moves = 30 moves"):
        check_game(game_id, params={"size": 90}, num_games=3, checks=["scores"])


def test_unknown_names_are_refused_with_the_nearest():
    with pytest.raises(ValueError, match="unknown check 'ruls'"):
        check_game("earl/TicTacToe-v0", checks=["ruls"])
    with pytest.raises(ValueError, match=r"unknown game 'earl/TicTacTo-v0'; did you mean"):
        check_game("earl/TicTacTo-v0")
