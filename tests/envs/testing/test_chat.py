"""Conversations that go wrong are caught: by the game's fault, or by ours."""

import pytest
from earl_envs.end_reason import EndReason
from earl_envs.games.tic_tac_toe import TicTacToe
from earl_envs.testing import chat
from earl_envs.text.chat_env import ChatEnv
from earl_envs.text.chat_step import ChatStep
from earl_envs.text.history import Message

CHAT = ["illegal_policies", "canary_floor", "reply_leak", "end_reasons", "chat_clone",
        "prompt_growth"]  # fmt: skip


@pytest.fixture
def findings_with(monkeypatch, stones, findings_of):
    def ask(check, altered):
        monkeypatch.setattr(chat, "ChatEnv", altered)
        return findings_of(check, stones)

    return ask


@pytest.mark.parametrize("check", CHAT)
def test_honest_games_pass(check, stones, findings_of):
    assert findings_of(check, stones) == []
    assert findings_of(check, TicTacToe) == []


def test_a_game_that_a_drawn_move_ends_is_no_fault(stones, findings_of):
    class Short(stones):
        def initial(self, rng):
            return 1, 0

    for check in CHAT:
        assert findings_of(check, Short, num_games=2) == []


def test_a_forfeit_that_raises_is_caught(stones, findings_of):
    class NoForfeit(stones):
        def forfeit(self, seat):
            raise RuntimeError("nobody forfeits")

    (found, *_) = findings_of("illegal_policies", NoForfeit)
    assert found.startswith(
        "under forfeit a reply that names no move must have the outcome unparsable, got env_error"
    )


def test_a_policy_that_moves_by_itself_is_caught(findings_with):
    class Moves(ChatEnv):
        def step(self, reply, *, cut=False):
            self.play(0)
            return ChatStep(action=0)

    (found, *_) = findings_with("illegal_policies", Moves)
    assert found.endswith("stones")
    assert "under forfeit a reply that names no move" in found
    assert "got moved" in found


def test_an_illegal_move_that_counts_as_unreadable_is_caught(findings_with):
    class Confuses(ChatEnv):
        def step(self, reply, *, cut=False):
            step = super().step(reply, cut=cut)
            if self.end_reason is EndReason.ILLEGAL_MOVE:
                self.end_reason = EndReason.UNPARSABLE
            return step

    found = findings_with("illegal_policies", Confuses)
    assert found[0].startswith(
        "under forfeit the illegal move [2] must have the outcome illegal_move, got unparsable"
    )
    assert found[0].endswith(": 1 stones")


def test_an_illegal_move_that_is_replaced_unasked_is_caught(findings_with):
    class Replaces(ChatEnv):
        def step(self, reply, *, cut=False):
            legal = self.game.legal(self.state)
            return super().step("[1]" if reply == "[2]" and legal == [0] else reply, cut=cut)

    found = findings_with("illegal_policies", Replaces)
    assert any("under retry(2) the illegal move [2] must have" in finding for finding in found)
    assert any("got moved" in finding for finding in found)


@pytest.mark.parametrize("reason", ["context_limit", "move_limit", "turn_token_limit"])
def test_a_cut_that_somebody_wins_is_caught(findings_with, reason):
    class Wins(ChatEnv):
        def fail(self, why, detail):
            super().fail(why, detail)
            if why == reason:
                self.returns = (1.0, -1.0)

    found = findings_with("end_reasons", Wins)
    assert f"ends for {reason} must score 0, got {reason} with (1.0, -1.0)" in "".join(found)


def test_a_cut_reply_that_counts_as_a_wrong_one_is_caught(findings_with):
    class Punishes(ChatEnv):
        def step(self, reply, *, cut=False):
            return super().step(reply)

    (found, *_) = findings_with("end_reasons", Punishes)
    assert "ends for turn_token_limit must score 0, got unparsable with (-1.0, 1.0)" in found


def test_garbage_that_pays_is_caught(findings_with):
    class Pays(ChatEnv):
        def step(self, reply, *, cut=False):
            step = super().step(reply, cut=cut)
            if self.done:
                self.returns = (1.0, 1.0)
            return step

    (found, *_) = findings_with("canary_floor", Pays)
    assert found.startswith("seat 0 wrote garbage: the scores must be (-1.0, 1.0), got (1.0, 1.0)")


def test_words_that_reach_another_seat_are_caught(findings_with):
    class Leaks(ChatEnv):
        said = ""

        def step(self, reply, *, cut=False):
            self.said += reply
            return super().step(reply, cut=cut)

        def messages(self, seat):
            return [*super().messages(seat), Message(role="user", content=self.said)]

    (found, *_) = findings_with("reply_leak", Leaks)
    assert found.startswith("seat 1 is told what another seat wrote")


def test_a_failure_that_somebody_wins_is_caught(findings_with):
    class Wins(ChatEnv):
        def fail(self, reason, detail):
            super().fail(reason, detail)
            self.returns = (1.0, -1.0)

    found = findings_with("end_reasons", Wins)
    assert "ends for env_error must score 0, got env_error with (1.0, -1.0)" in "".join(found)


def test_an_end_outside_the_vocabulary_is_caught(findings_with):
    class Draws(ChatEnv):
        def fail(self, reason, detail):
            super().fail(reason, detail)
            self.end_reason = EndReason.FINISHED

    found = findings_with("end_reasons", Draws)
    assert any("must score 0, got finished" in finding for finding in found)


def test_a_finished_conversation_that_goes_on_is_caught(findings_with):
    class GoesOn(ChatEnv):
        def step(self, reply, *, cut=False):
            return ChatStep(action=None) if self.done else super().step(reply, cut=cut)

    assert findings_with("end_reasons", GoesOn)[0].startswith("a reply after the end must be refus")


def test_a_clone_that_shares_is_caught(findings_with):
    class Shares(ChatEnv):
        def clone(self):
            return self

    assert "clone" in findings_with("chat_clone", Shares)[0]


def test_memories_of_the_episode_before_are_caught(findings_with):
    class Remembers(ChatEnv):
        num_resets = 0

        def reset(self, *, seed):
            self.num_resets += 1
            super().reset(seed=seed)

        def messages(self, seat):
            return super().messages(seat) * self.num_resets

    (found, *_) = findings_with("chat_clone", Remembers)
    assert found.startswith("reset() left something of the episode before it")


def test_a_text_that_repeats_the_game_is_caught(stones, findings_of):
    class Chronicle(stones):
        def initial(self, rng):
            return (*super().initial(rng), "")

        def apply(self, state, action):
            stones, seat = super().apply(state[:2], action)
            return stones, seat, state[2] + f"then {action + 1} of {state[0]} were taken; " * 9

        def text(self, state, seat):
            return state[2] + f"{state[0]} stones"

    (found, *_) = findings_of("prompt_growth", Chronicle)
    assert found.startswith("text() for seat 0 grows by 216 characters per move (limit 64)")


def test_prompts_that_keep_what_they_should_drop_are_caught(findings_with):
    class Keeps(ChatEnv):
        def __init__(self, game, history):
            super().__init__(game, history="full")

        def step(self, reply, *, cut=False):
            return super().step("word " * 100 + reply, cut=cut)

    (found, *_) = findings_with("prompt_growth", Keeps)
    assert found.startswith("under board-only a prompt must hold rules and board, ")
