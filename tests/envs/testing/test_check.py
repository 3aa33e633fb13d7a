"""One question for anybody's game."""

import inspect
import subprocess
import sys
from abc import abstractmethod
from itertools import count

import pytest
from earl_envs.registry import GAMES
from earl_envs.testing import CHECKS, Finding, GameCheckError, check, check_game, strength
from earl_envs.testing.check import find

SLOWER = ("gymnasium", "pettingzoo", "strong", "spawn")
QUICK = [name for name in CHECKS if not name.startswith(SLOWER)]
DECIDED = ["breakthrough", "clobber", "connect_four", "hex", "kuhn_poker", "leduc_poker",
           "liars_dice", "othello", "pentago", "tic_tac_toe"]  # fmt: skip
UNSOLVED_AT_RANDOM = {"earl/Mastermind-v0": {"moves_matter"}}
UNDECIDED = ["goofspiel", "matrix_rps", "pig"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("game_id", "notes"),
    [
        *((game_id, UNSOLVED_AT_RANDOM.get(game_id, set())) for game_id in sorted(GAMES)),
        *((f"openspiel/{name}-v0", set()) for name in DECIDED),
        *((f"openspiel/{name}-v0", {"strong_beats_random"}) for name in UNDECIDED),
    ],
)
def test_listed_games_are_sound(game_id, notes):
    # In a process of its own, as a user would: the checker of annotations that these tests run
    # under makes a million calls of the rules several times slower.
    code = f"from earl_envs.testing import check_game; print(*check_game({game_id!r}).notes)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert set(ended.stdout.split()) == notes


def test_a_sound_game_gives_a_report(register, stones):
    report = check_game(register(stones), num_games=10, checks=QUICK)
    assert report.passed == tuple(QUICK)
    assert str(report) == f"liar/Stones-v0: {len(QUICK)} of {len(QUICK)} checks passed"
    assert report.num_games == 10


def test_a_liar_fails_with_everything_that_is_wrong_and_where(register, stones):
    class Liar(stones):
        def resample(self, state, seat, rng):
            return 1, seat

        def move_name(self, state, action):
            return "[take]"

    with pytest.raises(GameCheckError) as caught:
        check_game(register(Liar), num_games=10, checks=["resample", "move_round_trip", "clone"])

    report = caught.value.report
    assert list(report.findings) == ["resample", "move_round_trip"]
    assert report.passed == ("declaration", "playthrough", "clone")
    message = str(caught.value)
    assert message.startswith("liar/Liar-v0: 3 of 5 checks passed\n  resample: seat 0 can tell ")
    assert "\n  move_round_trip: legal actions 0 and 1 are both named [take]\n    at " in message


def test_what_a_check_could_not_decide_is_noted_and_passes(monkeypatch, register, stones):
    def undecided(context):
        yield Finding(wrong="not decided: it is too long", is_note=True)

    monkeypatch.setattr(check, "CHECKS", {**CHECKS, "scores": undecided})
    report = check_game(register(stones), num_games=3, checks=["scores"])
    assert report.passed == ("declaration", "playthrough", "scores")
    assert str(report).endswith("3 of 3 checks passed\n  scores: not decided: it is too long")


def test_nothing_is_derived_from_rules_that_do_not_hold(register, stones):
    class Stuck(stones):
        def legal(self, state):
            return []

    with pytest.raises(GameCheckError, match="before the rules hold: clone, planes") as caught:
        check_game(register(Stuck), num_games=3, checks=["planes", "clone"])
    assert caught.value.report.skipped == ("clone", "planes")


def test_a_text_as_long_as_a_book_is_caught_before_anything_is_made_of_it(register, stones):
    class Book(stones):
        def text(self, state, seat):
            return "x" * 100_000

    with pytest.raises(GameCheckError) as caught:
        check_game(register(Book), num_games=10)
    assert list(caught.value.report.findings) == ["texts"]
    assert "prompt_growth" in caught.value.report.skipped
    assert len(str(caught.value)) < 3_000


def test_a_check_lists_a_few_findings_and_keeps_those_before_a_failure(context_of, stones):
    faults = ["wrong", "worse", "bad", "evil"]

    def endless(context):
        for number in count():
            yield context.plays[0].visit(0).finding(faults[number % 4])

    def repeated(context):
        for number in count():
            yield context.plays[0].visit(0).finding(f"action {number} is wrong: 'board {number}'")

    def failing(context):
        yield context.plays[0].visit(0).finding("wrong")
        raise KeyError("oops")

    context = context_of(stones)
    assert [finding.wrong for finding in find(context, endless)] == faults[:3]
    (merged,) = find(context, repeated)
    assert merged.wrong == "action 0 is wrong: 'board 0'"
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
    with pytest.raises(ValueError, match="checks must be a list of names, got 'purity'"):
        unchecked(check_game)("earl/TicTacToe-v0", checks="purity")


def unchecked(function):
    """Return the function as users call it, without the tests' checker of annotations."""
    return inspect.unwrap(function)


def test_a_fault_found_by_two_checks_is_told_once(register, stones):
    class Rejects(stones):
        def apply(self, state, action):
            if state[0] == 4:
                raise KeyError("no four")
            return super().apply(state, action)

    with pytest.raises(GameCheckError) as caught:
        check_game(register(Rejects), num_games=20)
    assert {"playthrough", "legal_actions"} <= set(caught.value.report.findings)
    assert str(caught.value).count("KeyError: 'no four'") == 1
    assert "  playthrough, legal_actions: legal() lists action " in str(caught.value)


def test_a_false_declaration_is_all_that_is_looked_at(register, stones):
    class Unsized(stones):
        max_moves = None

    with pytest.raises(GameCheckError) as caught:
        check_game(register(Unsized), checks=["scores"])
    assert list(caught.value.report.findings) == ["declaration"]
    assert caught.value.report.skipped == ("playthrough", "scores")
    assert "TypeError" not in str(caught.value)


@pytest.mark.parametrize(("num_games", "got"), [("a", "'a'"), (1.5, "1.5"), (True, "True")])
def test_a_number_of_games_that_is_none_is_refused(num_games, got):
    with pytest.raises(ValueError, match=f"num_games must be an integer, got {got}"):
        unchecked(check_game)("earl/TicTacToe-v0", num_games=num_games)


def test_games_that_cannot_be_made_are_refused_in_one_line(register, stones):
    class Raises(stones):
        def __init__(self):
            raise KeyError("no board")

    class Abstract(stones):
        @abstractmethod
        def deal(self):
            """Return nothing."""

    with pytest.raises(
        ValueError, match=r"Raises-v0' cannot be made with {}: KeyError: 'no board'"
    ):
        check_game(register(Raises))
    with pytest.raises(ValueError, match=r"Abstract-v0' cannot be made with {}: .*Abstract"):
        check_game(register(Abstract))


def test_sealed_choices_that_begin_in_mid_game_are_sound(monkeypatch, register, sealed):
    monkeypatch.setattr(strength, "_MAX_RULE_CALLS", 1_000)
    report = check_game(register(sealed), num_games=50)
    assert "strong_beats_random" in report.passed
    assert list(report.notes) == ["strong_beats_random", "spawn_worker"]
