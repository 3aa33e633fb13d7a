"""Games whose moves cannot be written or read back are caught."""

import pytest
from earl_envs.games.tic_tac_toe import TicTacToe
from earl_envs.text.protocol import ParsedReply, TextProtocol


@pytest.mark.parametrize("check", ["move_round_trip", "reply_table"])
def test_honest_games_pass(check, stones, findings_of):
    assert findings_of(check, stones) == []
    assert findings_of(check, TicTacToe) == []


def test_two_moves_of_one_name_are_caught(stones, findings_of):
    class Same(stones):
        def move_name(self, state, action):
            return "[take]" if state[0] == 2 else super().move_name(state, action)

    (found, *_) = findings_of("move_round_trip", Same)
    assert found.startswith("legal actions 0 and 1 are both named [take]")
    assert found.endswith(": 2 stones")


@pytest.mark.parametrize("name", ["[take [1]]", "]1[", "<think>1"])
def test_a_name_that_no_reply_can_hold_is_caught(name, stones, findings_of):
    class Odd(stones):
        def move_name(self, state, action):
            return name if action == 1 else "[1]"

    (found, *_) = findings_of("move_round_trip", Odd)
    assert found.startswith("action 1 is written ")


def test_a_name_that_raises_is_caught(stones, findings_of):
    class Raises(stones):
        def move_name(self, state, action):
            return {1: "[one]", 2: "[two]"}[action]

    (found, *_) = findings_of("move_round_trip", Raises)
    assert found.startswith("move_name() raises KeyError: 0")


def test_a_game_that_breaks_a_reply_is_caught(stones, findings_of):
    class Greedy(stones):
        """Its name for one stone is what models write about moves that they do not know."""

        def move_name(self, state, action):
            return ["[1]", "[no such move]"][action]

    (found, *_) = findings_of("reply_table", Greedy)
    assert found.startswith("the reply '[no such move]' must give unparsable, got ")


def test_a_reader_that_falls_back_on_prose_is_caught(monkeypatch, stones, findings_of):
    def first_digit(self, reply, state):
        digits = [int(char) for char in reply if char.isdigit()]
        action = digits[0] - 1 if digits else None
        return ParsedReply(action=action, failure=None, detail="")

    monkeypatch.setattr(TextProtocol, "parse", first_digit)
    (found, *_) = findings_of("reply_table", stones)
    assert found.startswith("the reply '' must give unparsable, got action None")
