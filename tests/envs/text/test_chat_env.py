"""Episodes by text: who is told what, what wrong replies cost, and why episodes end."""

import copy
import pickle
from collections.abc import Callable

import numpy as np
import pytest
from earl_envs import EndReason, Game, ParseFailure, TextProtocol, make_game
from earl_envs.text.chat_env import ChatEnv
from earl_envs.text.history import Message
from earl_envs.text.remaining import RemainingTurns
from hypothesis import given, settings
from hypothesis import strategies as st

RULES = "Take 1 to 3 stones, such as [2]. Whoever takes the last one wins."


def _begun(game: Game, *, seed: int = 0, **options) -> ChatEnv:
    env = ChatEnv(game, **options)
    env.reset(seed=seed)
    return env


@pytest.fixture
def begun(last_stone) -> Callable[..., ChatEnv]:
    """Begin an episode of the small game."""
    return lambda **options: _begun(last_stone(), **options)


@pytest.fixture
def broken(last_stone) -> Callable[..., Game]:
    """Make a game that raises in a method, in one of a state from the second move on."""

    def break_(*, where: str) -> Game:
        sound = getattr(last_stone, where)

        def method(self, *args):
            if not (args and isinstance(args[0], tuple) and args[0][0] > 10):
                raise RuntimeError(f"{where} is broken")
            return sound(self, *args)

        return type("Broken", (last_stone,), {where: method})()

    return break_


def _snapshot(env: ChatEnv) -> tuple:
    """Return everything a caller can see."""
    told = [env.messages(seat) for seat in range(env.game.num_seats)]
    seen = (env.state, env.seat, env.returns, env.end_reason, env.detail, env.moves)
    return (*seen, env.replies, env.usage, env.num_turns, told)


def _play_out(env: ChatEnv, rng: np.random.Generator) -> None:
    protocol = TextProtocol(env.game)
    while not env.done:
        legal = env.game.legal(env.state)
        env.step(protocol.format_move(env.state, int(rng.choice(legal))))


def test_each_seat_is_told_its_turns_until_the_rules_end_the_game(begun):
    env = begun()
    for reply in ("[3]", "[3]", "[3]", "[2]"):
        assert env.returns is None
        assert env.end_reason is None
        assert env.step(reply).action == int(reply[1]) - 1
    assert (env.done, env.seat, env.end_reason, env.detail) == (True, -1, EndReason.FINISHED, "")
    assert env.returns == (-1.0, 1.0)
    assert env.moves == (2, 2, 2, 1)
    assert [message.content for message in env.messages(1)] == [
        *(RULES, "8 stones", "[3]", "2 stones", "[2]", "0 stones")
    ]


def test_prompt_is_rules_own_past_and_newest_message(begun):
    env = begun()
    env.step("hm [1]")
    env.step("[2]")
    assert env.messages(0) == [
        Message(role="system", content=RULES),
        Message(role="user", content="11 stones"),
        Message(role="assistant", content="hm [1]"),
        Message(role="user", content="8 stones"),
    ]
    assert env.observation(0) == "8 stones"


@pytest.mark.parametrize("history", ["full", "last-1", "board-only"])
@pytest.mark.parametrize("illegal", ["retry(2)", "noop", "random_legal"])
def test_nothing_that_one_seat_says_reaches_the_other(begun, history, illegal):
    env = begun(history=history, illegal=illegal, max_turns=100)
    said: list[list[str]] = [[], []]
    for turn in range(12):
        if env.done:
            break
        seat = env.seat
        secret = f"secret{seat}-{turn}"
        said[seat].append(secret)
        name = f"[{secret}]" if turn % 3 == 0 else "[1]"
        env.step(f"<think>{secret}</think> {secret} {name}")
        told = ["\n".join(message.content for message in env.messages(s)) for s in range(2)]
        assert not any(secret in told[1] for secret in said[0])
        assert not any(secret in told[0] for secret in said[1])
    assert min(map(len, said)) >= 3


@pytest.mark.parametrize(
    ("reply", "reason", "failure"),
    [
        ("[2] or <answer>4</answer>", EndReason.UNPARSABLE, ParseFailure.UNPARSABLE),
        ("", EndReason.UNPARSABLE, ParseFailure.UNPARSABLE),
        ("<answer>[3]</answer>", EndReason.ILLEGAL_MOVE, ParseFailure.ILLEGAL),
    ],
)
def test_forfeit_loses_at_the_first_wrong_reply(begun, reply, reason, failure):
    env = begun()
    for _ in range(3):
        env.step("[3]")
    step = env.step(reply)
    assert (step.action, step.failure, step.substituted) == (None, failure, False)
    assert (env.end_reason, env.returns, env.moves) == (reason, (1.0, -1.0), (2, 2, 2))
    assert step.detail == env.detail != ""


def test_retry_explains_to_the_same_seat_and_forfeits_when_its_patience_ends(begun):
    env = begun(illegal="retry(2)")
    env.step("[1]")
    for reply, complaint in (("[9]", "'[9]' is no move of this game"), ("x", "no complete [move]")):
        assert env.step(reply).action is None
        assert (env.seat, env.state) == (1, (10, 1))
        assert env.observation(1).startswith(complaint)
        assert env.observation(1).endswith("10 stones")
        assert complaint not in env.observation(0)
    assert [message.content for message in env.messages(1)[1:5]] == [
        *("10 stones", "[9]", "'[9]' is no move of this game. Reply again.\n10 stones", "x")
    ]
    env.step("[8]")
    assert (env.end_reason, env.returns) == (EndReason.UNPARSABLE, (1.0, -1.0))


def test_retries_are_counted_anew_in_every_turn(begun):
    env = begun(illegal="retry(1)")
    for reply in ("x", "[1]", "x", "[1]", "x", "[1]"):
        env.step(reply)
    assert (env.moves, env.num_turns, env.done) == ((0, 0, 0), 3, False)
    assert env.observation(env.seat) == "8 stones"


def test_noop_spends_the_turn_and_shows_the_same_position(begun):
    env = begun(illegal="noop", max_turns=3)
    before = env.observation(0)
    step = env.step("x")
    assert (step.action, step.failure) == (None, ParseFailure.UNPARSABLE)
    assert (env.seat, env.observation(0), env.num_turns) == (0, before, 1)
    env.step("x")
    env.step("x")
    assert (env.end_reason, env.returns, env.moves) == (EndReason.MOVE_LIMIT, (0.0, 0.0), ())


def test_noop_without_a_limit_of_its_own_ends_after_max_moves_turns(begun):
    env = begun(illegal="noop")
    for _ in range(11):
        env.step("x")
    assert env.end_reason is EndReason.MOVE_LIMIT


def test_random_legal_plays_a_marked_legal_move_drawn_from_the_seed(begun):
    def actions(seed: int) -> list[int | None]:
        env, steps = begun(illegal="random_legal", seed=seed), []
        while not env.done:
            steps.append(env.step("[x]"))
        assert all(step.substituted and step.failure is not None for step in steps)
        assert env.end_reason is EndReason.FINISHED
        assert tuple(step.action for step in steps) == env.moves
        return list(env.moves)

    assert actions(1) == actions(1)
    assert len({tuple(actions(seed)) for seed in range(20)}) > 5


@pytest.mark.parametrize("illegal", ["forfeit", "retry(2)", "noop", "random_legal"])
def test_illegal_structured_answer_never_moves_the_board_unless_marked(illegal):
    env = _begun(make_game("earl/TicTacToe-v0"), illegal=illegal)
    env.step("[9]")
    before = env.state
    step = env.step("thought [3] ... <answer>[9]</answer>")
    assert step.failure is ParseFailure.ILLEGAL
    assert step.substituted == (illegal == "random_legal")
    assert (env.state == before) == (not step.substituted)


@pytest.mark.parametrize("illegal", ["forfeit", "retry(2)", "noop", "random_legal"])
@pytest.mark.parametrize("reply", ["", "<think>[1] is", "the answer is [", "[what]"])
def test_cut_reply_without_a_move_ends_the_episode_without_a_loser(begun, illegal, reply):
    env = begun(illegal=illegal)
    step = env.step(reply, cut=True)
    assert (step.action, step.failure) == (None, ParseFailure.UNPARSABLE)
    assert (env.end_reason, env.returns, env.moves) == (
        *(EndReason.TURN_TOKEN_LIMIT, (0.0, 0.0), ()),
    )
    assert env.usage[-1].cut


@pytest.mark.parametrize("illegal", ["forfeit", "retry(2)"])
@pytest.mark.parametrize("reply", ["I could take [1] or maybe", "[9] is taken, so", "[3] and I"])
def test_move_named_on_the_way_is_no_answer_of_a_cut_reply(begun, illegal, reply):
    env = begun(illegal=illegal)
    assert env.step(reply, cut=True).action is None
    assert (env.end_reason, env.moves) == (EndReason.TURN_TOKEN_LIMIT, ())


def test_cut_reply_with_a_complete_answer_counts_as_any_other(begun):
    env = begun()
    assert env.step("so it is [3]", cut=True).action == 2
    assert env.step("<answer>3</answer> because [1", cut=True).action == 2
    env.step("[3]")
    env.step("so [3]", cut=True)
    assert env.end_reason is EndReason.ILLEGAL_MOVE


def test_limit_on_turns_cuts_a_game_that_is_not_over(begun):
    env = begun(max_turns=2)
    env.step("[1]")
    env.play(0)
    assert (env.end_reason, env.returns) == (EndReason.MOVE_LIMIT, (0.0, 0.0))
    assert env.moves == (0, 0)


def test_game_that_is_over_with_its_last_turn_is_finished_and_not_cut(begun):
    env = begun(max_turns=4)
    for reply in ("[3]", "[3]", "[3]", "[2]"):
        env.step(reply)
    assert env.end_reason is EndReason.FINISHED


def test_play_moves_without_words(begun):
    env = begun()
    env.play(np.int64(2))
    assert (env.seat, env.state, env.moves, env.usage, env.replies) == (1, (8, 1), (2,), (), ())
    assert type(env.moves[0]) is int
    assert [message.content for message in env.messages(1)] == [RULES, "8 stones"]


def test_play_refuses_illegal_moves_and_plays_nothing(begun):
    env = begun()
    for _ in range(3):
        env.play(2)
    with pytest.raises(ValueError, match=r"action 2 is illegal for seat 1, legal: \[0, 1\]"):
        env.play(2)
    assert env.moves == (2, 2, 2)


@pytest.mark.parametrize("reason", ["opponent_error", "env_error", "context_limit", "move_limit"])
def test_outside_reasons_end_the_episode_without_a_winner(begun, reason):
    env = begun()
    env.fail(EndReason(reason), "the line is dead")
    assert (env.done, env.end_reason, env.returns) == (True, EndReason(reason), (0.0, 0.0))
    assert env.detail == "the line is dead"


@pytest.mark.parametrize("reason", ["finished", "illegal_move", "unparsable"])
def test_ends_that_are_the_games_or_the_players_cannot_be_declared(begun, reason):
    env = begun()
    with pytest.raises(ValueError, match=f"an outside reason is one of .*; got '{reason}'"):
        env.fail(EndReason(reason))
    assert not env.done


@pytest.mark.parametrize(
    "call",
    [
        lambda env: env.step("[1]"),
        lambda env: env.play(0),
        lambda env: env.fail(EndReason.ENV_ERROR),
    ],
)
def test_finished_or_unbegun_episode_takes_nothing(last_stone, begun, call):
    unbegun = ChatEnv(last_stone())
    assert unbegun.done
    over = begun()
    over.fail(EndReason.CONTEXT_LIMIT)
    for env in (unbegun, over):
        with pytest.raises(ValueError, match="the episode is over or was never begun"):
            call(env)


@pytest.mark.parametrize("where", ["apply", "returns", "text", "move_name"])
def test_game_that_raises_midway_ends_its_episode_as_a_failure(broken, where):
    env = _begun(broken(where=where))
    for reply in ("[1]", "[1]"):
        if not env.done:
            env.step(reply)
    assert (env.end_reason, env.returns) == (EndReason.ENV_ERROR, (0.0, 0.0))
    assert f"{where} is broken" in env.detail
    assert "test_chat_env.py" in env.detail
    assert "\n" not in env.detail


@pytest.mark.parametrize("where", ["rules", "initial"])
def test_game_that_cannot_start_is_over_at_once(broken, where):
    env = _begun(broken(where=where))
    assert (env.end_reason, env.returns) == (EndReason.ENV_ERROR, (0.0, 0.0))
    with pytest.raises(ValueError, match=f"there is no state: .*{where} is broken"):
        env.messages(0)


def test_forfeit_that_raises_is_a_failure_and_no_loss(broken):
    env = _begun(broken(where="forfeit"))
    env.step("x")
    assert (env.end_reason, env.returns) == (EndReason.ENV_ERROR, (0.0, 0.0))


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32), num_replies=st.integers(0, 8))
def test_clone_has_the_same_past_and_the_same_future(seed, num_replies):
    env = _begun(
        make_game("earl/TicTacToe-v0"), illegal="random_legal", history="last-2", seed=seed
    )
    for _ in range(num_replies):
        if not env.done:
            env.step("so what")
    twins = [env.clone(), copy.deepcopy(env), pickle.loads(pickle.dumps(env))]
    before = _snapshot(env)
    for twin in twins:
        assert _snapshot(twin) == before
        while not twin.done:
            twin.step("so what")
    assert _snapshot(env) == before
    while not env.done:
        env.step("so what")
    for twin in twins:
        assert _snapshot(twin) == _snapshot(env)


def test_reset_forgets_the_last_episode(begun):
    env = begun(illegal="random_legal", seed=3)
    fresh = _snapshot(env)
    while not env.done:
        env.step("x")
    env.reset(seed=3)
    assert _snapshot(env) == fresh


def test_process_wide_randomness_is_neither_read_nor_written(begun):
    state = np.random.get_state()[1].copy()  # noqa: NPY002 - that it stays untouched is the point
    env = begun(illegal="random_legal")
    while not env.done:
        env.step("x")
    assert (np.random.get_state()[1] == state).all()  # noqa: NPY002


def test_record_replays_to_the_same_state():
    env = _begun(make_game("earl/ConnectFour-v0"), seed=5)
    _play_out(env, np.random.default_rng(0))
    positions = env.record("earl/ConnectFour-v0").positions()
    assert (positions[-1].state, positions[-1].returns) == (env.state, env.returns)


@pytest.mark.parametrize("history", ["full", "last-1", "board-only"])
def test_usage_counts_the_prompts_and_replies_that_were_sent(begun, history):
    env = begun(history=history, illegal="retry(1)", count_tokens=len)
    sent: list[tuple[int, int, int, int]] = []
    for reply in ("[1]", "so [2]", "what?", "[3]", "[1]"):
        prompt = sum(len(message.content) for message in env.messages(env.seat))
        sent.append((env.seat, env.num_turns, prompt, len(reply)))
        env.step(reply)
    seen = [(use.seat, use.turn, use.prompt_tokens, use.reply_tokens) for use in env.usage]
    assert seen == sent
    assert not any(use.cut for use in env.usage)


def test_every_text_is_counted_once(begun):
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return len(text)

    env = begun(count_tokens=count)
    env.step("[1]")
    env.step("[2]")
    assert counted == [RULES, "11 stones", "[1]", "10 stones", "[2]"]


def test_remaining_turns_count_spent_ones_and_end_at_the_limit(begun):
    env = begun(illegal="noop", max_turns=20)
    assert env.predicted_remaining_turns(0) == 10
    for _ in range(16):
        env.step("x")
    assert env.predicted_remaining_turns(0) == 2
    past = RemainingTurns(max_moves=11).update(40)
    assert env.predicted_remaining_turns(0, past) == 2
    assert begun(max_turns=4).predicted_remaining_turns(0) == 2
    assert begun(max_turns=40).predicted_remaining_turns(0) == 11 / 2


def test_remaining_turns_fall_from_the_bound_to_none(begun):
    env = begun()
    assert env.predicted_remaining_turns(0) == 11 / 2
    past = RemainingTurns(max_moves=11).update(5).update(5).update(5)
    assert env.predicted_remaining_turns(1, past) == (11 + 3 * 5) / 4 / 2
    for reply in ("[3]", "[3]", "[3]"):
        env.step(reply)
    late = RemainingTurns(max_moves=11)
    for _ in range(50):
        late = late.update(4)
    assert env.predicted_remaining_turns(1, late) == 1.0  # it is to move, so it has one at least
    env.step("[2]")
    assert [env.predicted_remaining_turns(seat) for seat in (0, 1)] == [0.0, 0.0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"history": "fll"}, "did you mean 'full'"),
        ({"illegal": "forfit"}, "did you mean 'forfeit'"),
        ({"max_turns": 0}, "max_turns must be >= 1, got 0"),
    ],
)
def test_wrong_options_are_refused(last_stone, options, message):
    with pytest.raises(ValueError, match=message):
        ChatEnv(last_stone(), **options)


def test_wrong_seeds_and_seats_are_refused(begun):
    env = begun()
    with pytest.raises(ValueError, match="seed must be >= 0, got -1"):
        env.reset(seed=-1)
    with pytest.raises(ValueError, match=r"seat must be in 0\.\.1, got 2"):
        env.messages(2)


@given(st.text(max_size=80), st.sampled_from(["forfeit", "retry(1)", "noop", "random_legal"]))
def test_any_reply_leaves_the_episode_sound(reply, illegal):
    env = _begun(make_game("earl/TicTacToe-v0"), illegal=illegal)
    step = env.step(reply)
    assert step.action is None or step.action == env.moves[-1]
    assert env.done == (env.end_reason is not None) == (env.returns is not None)
