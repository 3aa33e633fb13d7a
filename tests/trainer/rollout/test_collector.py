"""Many games in lockstep: each ends by its own reason and harms no neighbour."""

import time
from dataclasses import replace

import numpy as np
import pytest
from earl_envs import EndReason, Game, RandomOpponent, TextProtocol
from earl_trainer.models.tiny import build_tokenizer
from earl_trainer.rollout.chat import ChatFormat
from earl_trainer.rollout.collector import Collector
from earl_trainer.rollout.engine import Completion, FinishReason
from earl_trainer.rollout.policies import LanguagePolicy, ScriptedPolicy
from earl_trainer.rollout.scripted_engine import ScriptedEngine
from earl_trainer.rollout.starts import grouped_starts, paired_starts, self_play_starts
from earl_trainer.rollout.transformers_engine import TransformersEngine
from earl_trainer.types import EpisodeStart

ID = "earl/TicTacToe-v0"
FIRST_PROMPT_TOKENS = 11  # <|user|>, nine cells, <|assistant|>
TURN_TOKENS = 13  # ... and a move with the end of the turn


class Answering:
    """Replies with what a function says: text, or ids with a reason."""

    def __init__(self, chat, answer):
        self.chat, self.answer, self.queries = chat, answer, []

    def reply(self, queries):
        self.queries.append(list(queries))
        return [self._complete(query) for query in queries]

    def _complete(self, query):
        ids = self.chat.encode_reply(self.answer(query))[: query.max_new_tokens]
        stopped = ids[-1] in self.chat.stop_ids
        return Completion(
            ids=ids,
            logprobs=(-0.5,) * len(ids),
            versions=(0,) * len(ids),
            finish_reason=FinishReason.STOP if stopped else FinishReason.LENGTH,
        )


class Moody:
    """Random, but does something else for seat 0, that is against learners of seat 1."""

    def __init__(self, deed):
        self.deed = deed

    def move(self, game, state, seat, rng):
        return self.deed(state) if seat == 0 else RandomOpponent().move(game, state, seat, rng)


class Countdown(Game):
    """Seats take turns; the last to count down wins. Half of the games break in one method."""

    num_seats, num_actions, max_moves = 2, 2, 6

    def __init__(self, fault):
        self.fault = fault

    def initial(self, rng):
        return (6, bool(rng.integers(2)))

    def seat(self, state):
        return state[0] % 2

    def _break(self, method, state):
        if state[1] and state[0] == 2 and method == self.fault:
            raise RuntimeError(f"{method}\nbroke")

    def legal(self, state):
        self._break("legal", state)
        return [0, 1]

    def apply(self, state, action):
        self._break("apply", state)
        return (state[0] - 1, state[1])

    def returns(self, state):
        return None if state[0] else (1.0, -1.0)

    def text(self, state, seat):
        self._break("text", state)
        return f"{state[0]}"

    def move_name(self, state, action):
        self._break("move_name", state)
        return f"[{action}]"


def start(episode, *, seat=0, game_seed=None, num_games=1):
    return EpisodeStart(
        episode=episode,
        table=episode,
        group=episode,
        seat=seat,
        game_seed=episode if game_seed is None else game_seed,
        reply_seed=episode,
        num_games=num_games,
    )


def starts(num_pairs=4):
    return paired_starts(0, num_games=2 * num_pairs, num_seats=2)


@pytest.fixture(scope="module")
def make_collector(tic_tac_toe, tiny_chat):
    def make(**changes):
        settings = {
            "game": tic_tac_toe,
            "opponent": RandomOpponent(),
            "chat": tiny_chat,
            "max_context_tokens": 200,
            "max_reply_tokens": 4,
        } | changes
        settings.setdefault("match_opponent", settings["opponent"])
        return Collector(settings.pop("game"), game_id=ID, **settings)

    return make


def first_legal(game):
    return lambda query: game.move_name(query.state, game.legal(query.state)[0])


@pytest.fixture(scope="module")
def legal_policy(tic_tac_toe, tiny_chat):
    return Answering(tiny_chat, first_legal(tic_tac_toe))


def random_policy(game, chat):
    return ScriptedPolicy(RandomOpponent(), game=game, chat=chat)


def test_games_are_played_to_the_end_from_what_the_prompt_says(
    make_collector, tic_tac_toe, tiny_chat, tiny_tokenizer
):
    def take_the_first_number_on_the_last_board(prompt_ids):
        words = tiny_tokenizer.convert_ids_to_tokens(list(prompt_ids))[-10:-1]
        return tiny_chat.encode_reply(f"[{next(word for word in words if word.isdigit())}]")

    engine = ScriptedEngine(take_the_first_number_on_the_last_board, stop_ids=tiny_chat.stop_ids)
    rollout = make_collector().collect(LanguagePolicy(engine, temperature=1.0), starts())

    assert [episode.start for episode in rollout.episodes] == starts()
    assert {episode.summary.outcome for episode in rollout.episodes} >= {1.0, -1.0}
    protocol = TextProtocol(tic_tac_toe)
    for episode in rollout.episodes:
        assert episode.summary.end_reason is EndReason.FINISHED
        assert not episode.summary.truncated
        state, turns, context = (0, 0), iter(episode.turns), ""
        for move in episode.summary.moves:
            if tic_tac_toe.seat(state) == episode.start.seat:
                turn = next(turns)
                context += f"<|user|> {protocol.turn_message(state, episode.start.seat)} "
                context = " ".join(f"{context}<|assistant|>".split())
                # Every prompt holds the whole game so far.
                assert (
                    " ".join(tiny_tokenizer.convert_ids_to_tokens(list(turn.prompt_ids))) == context
                )
                assert turn.action == move == tic_tac_toe.legal(state)[0]
                context += f" {turn.text} <|end|> "
            state = tic_tac_toe.apply(state, move)
        assert next(turns, None) is None
        assert tic_tac_toe.returns(state)[episode.start.seat] == episode.summary.outcome


def test_every_prompt_extends_the_tokens_before_it(make_collector, tic_tac_toe, tiny_chat):
    rollout = make_collector().collect(random_policy(tic_tac_toe, tiny_chat), starts())

    for episode in rollout.episodes:
        for before, after in zip(episode.turns, episode.turns[1:], strict=False):
            held = [*before.prompt_ids, *before.reply_ids]
            assert list(after.prompt_ids[: len(held)]) == held
    assert max(len(episode.turns) for episode in rollout.episodes) >= 4


@pytest.mark.parametrize(
    ("reply", "reason", "detail"),
    [
        ("[{taken}]", EndReason.ILLEGAL_MOVE, "is not legal now"),
        ("X X", EndReason.UNPARSABLE, "no complete [move] in the reply"),
        ("", EndReason.UNPARSABLE, "no complete [move] in the reply"),
    ],
)
def test_a_reply_that_is_no_legal_move_forfeits(
    make_collector, legal_policy, tic_tac_toe, tiny_chat, reply, reason, detail
):
    def answer(query):
        if query.turn and query.start.episode % 2:
            board = query.state[0] | query.state[1]
            return reply.format(taken=(board & -board).bit_length())
        return first_legal(tic_tac_toe)(query)

    plan = [start(i, seat=i // 2 % 2) for i in range(8)]
    played = make_collector().collect(Answering(tiny_chat, answer), plan).episodes
    unharmed = make_collector().collect(legal_policy, plan).episodes

    assert played[::2] == unharmed[::2]
    for episode in played[1::2]:
        assert episode.summary.end_reason is reason
        assert detail in episode.summary.detail
        assert episode.summary.outcome == -1.0
        assert episode.summary.num_forfeits == 1
        assert not episode.summary.failed
        assert [turn.action is None for turn in episode.turns] == [False, True]


@pytest.mark.parametrize(
    ("limit", "num_turns"), [(10, 0), (11, 0), (23, 1), (24, 1), (36, 2), (37, 2)]
)
def test_an_episode_whose_next_turn_does_not_fit_is_cut_not_lost(
    make_collector, legal_policy, limit, num_turns
):
    # Prompts of 11, 24 and 37 tokens, each with two for a reply.
    collector = make_collector(max_context_tokens=limit)
    (episode,) = collector.collect(legal_policy, [start(0)]).episodes

    assert episode.summary.end_reason is EndReason.CONTEXT_LIMIT
    assert episode.summary.truncated
    assert episode.summary.num_forfeits == 0
    assert episode.summary.outcome == 0.0
    assert len(episode.turns) == num_turns
    prompt_tokens = FIRST_PROMPT_TOKENS + num_turns * TURN_TOKENS
    assert f"the prompt of {prompt_tokens} tokens leaves no room" in episode.summary.detail
    assert f"under the limit of {limit}" in episode.summary.detail


def test_a_share_below_the_limit_cuts_and_one_above_it_does_not(make_collector, legal_policy):
    def cut_at(limit, share):
        collector = make_collector(max_context_tokens=limit)
        (episode,) = collector.collect(legal_policy, [start(0)], share_tokens=share).episodes
        assert episode.summary.end_reason is EndReason.CONTEXT_LIMIT
        assert f"under the limit of {min(limit, share)}" in episode.summary.detail
        return len(episode.turns)

    assert cut_at(200, 36) == cut_at(36, 200) == 2
    assert cut_at(200, 23) == 1


def test_with_shares_resident_is_what_would_cut_no_context(make_collector, tiny_chat, tic_tac_toe):
    def answer(query):
        return first_legal(tic_tac_toe)(query) if query.start.episode == 0 else "X"

    def collect(share):
        policy, plan = Answering(tiny_chat, answer), [start(i) for i in range(7)]
        rollout = make_collector().collect(policy, plan, share_tokens=share)
        return rollout.peak_resident_tokens, rollout.episodes[0].summary.truncated

    wanted, truncated = collect(100)
    num_turns = wanted // 7 // TURN_TOKENS
    # Seven times the longest prompt and a reply of four tokens.
    assert wanted == 7 * (FIRST_PROMPT_TOKENS + (num_turns - 1) * TURN_TOKENS + 4)
    assert num_turns >= 3
    assert not truncated
    assert collect(wanted // 7) == (wanted, False)
    # A turn that was not begun is wanted all the same.
    first_cut = FIRST_PROMPT_TOKENS + TURN_TOKENS
    assert collect(first_cut) == (7 * (first_cut + 4), True)


def test_the_last_token_of_room_still_gets_a_reply(make_collector, legal_policy):
    collector = make_collector(max_context_tokens=25)
    (episode,) = collector.collect(legal_policy, [start(0)]).episodes

    assert [len(turn.reply_ids) for turn in episode.turns] == [2, 1]
    assert [turn.cut for turn in episode.turns] == [False, True]
    assert episode.summary.context_tokens == 25
    assert episode.summary.end_reason is EndReason.CONTEXT_LIMIT


def test_replies_that_are_cut_are_flagged_and_their_turns_ended_once(
    make_collector, legal_policy, tiny_chat
):
    rollout = make_collector(max_reply_tokens=1).collect(legal_policy, starts())
    (end,) = tiny_chat.stop_ids

    for episode in rollout.episodes:
        assert episode.summary.end_reason is EndReason.FINISHED
        assert episode.summary.truncated
        for number, turn in enumerate(episode.turns):
            assert turn.cut
            assert end not in turn.reply_ids
            assert list(turn.prompt_ids).count(end) == number


def explode(state):
    raise RuntimeError("no idea\nat all")


@pytest.mark.parametrize(
    ("deed", "detail"),
    [
        (explode, "RuntimeError: no idea at all"),
        (lambda state: 99, "the opponent's action 99 is not legal"),
        (lambda state: -1, "the opponent's action -1 is not legal"),
        (lambda state: 1.0, "TypeError"),
        (lambda state: None, "TypeError"),
    ],
)
def test_an_opponent_that_fails_ends_its_own_games_only(make_collector, legal_policy, deed, detail):
    played = make_collector(opponent=Moody(deed)).collect(legal_policy, starts()).episodes
    unharmed = make_collector().collect(legal_policy, starts()).episodes

    assert played[::2] == unharmed[::2]
    for episode in played[1::2]:
        assert episode.summary.end_reason is EndReason.OPPONENT_ERROR
        assert detail in episode.summary.detail
        assert "\n" not in episode.summary.detail
        assert episode.summary.failed
        assert episode.summary.outcome == 0.0


def test_an_opponents_numpy_integer_is_a_move(make_collector, legal_policy, tic_tac_toe):
    opponent = Moody(lambda state: np.int64(tic_tac_toe.legal(state)[0]))
    played = make_collector(opponent=opponent).collect(legal_policy, starts()).episodes

    assert {episode.summary.end_reason for episode in played} == {EndReason.FINISHED}


@pytest.mark.parametrize("fault", ["apply", "text", "legal", "move_name"])
def test_a_game_that_raises_ends_alone(make_collector, fault):
    game, sound = Countdown(fault), Countdown("")
    chat = ChatFormat(build_tokenizer(sound, seed=0))
    policy = Answering(chat, lambda query: "[1]")
    plan = [start(i) for i in range(10)]
    broken = {i for i in range(10) if np.random.default_rng(i).integers(2)}
    assert 2 < len(broken) < 8
    played = make_collector(game=game, chat=chat).collect(policy, plan).episodes
    unharmed = make_collector(game=sound, chat=chat).collect(policy, plan).episodes

    for i, episode in enumerate(played):
        if i not in broken:
            assert episode == unharmed[i]
            assert episode.summary.outcome == 1.0
            continue
        assert episode.summary.end_reason is EndReason.ENV_ERROR
        assert f"RuntimeError: {fault} broke" in episode.summary.detail
        assert episode.summary.failed
        assert episode.summary.outcome == 0.0


def test_resident_tokens_are_those_of_all_games_in_flight(make_collector, tic_tac_toe, tiny_chat):
    def answer(query):
        return first_legal(tic_tac_toe)(query) if query.start.episode == 0 else "X"

    plan = [start(i) for i in range(7)]
    alone = make_collector().collect(Answering(tiny_chat, answer), plan[:1])
    together = make_collector().collect(Answering(tiny_chat, answer), plan)

    num_turns = len(alone.episodes[0].turns)
    assert num_turns >= 3
    assert alone.peak_resident_tokens == num_turns * TURN_TOKENS
    # At first seven contexts of one turn; from the second turn on only that of episode 0.
    assert together.peak_resident_tokens == 7 * TURN_TOKENS


def test_the_watcher_hears_how_many_games_are_running(make_collector, tic_tac_toe, tiny_chat):
    def answer(query):
        return first_legal(tic_tac_toe)(query) if query.start.episode == 0 else "X"

    heard = []
    policy = Answering(tiny_chat, answer)
    make_collector().collect(policy, [start(i) for i in range(3)], on_turn=heard.append)

    assert heard == [len(queries) for queries in policy.queries]
    assert heard[:2] == [3, 1]


def test_in_self_play_the_contexts_of_all_seats_are_resident(make_collector, legal_policy):
    rollout = make_collector().collect(legal_policy, self_play(3))
    num_turns = [len(episode.turns) for episode in rollout.episodes]

    assert num_turns == [4, 3] * 3
    # When the last reply is in, every table holds both of its contexts.
    assert rollout.peak_resident_tokens == sum(num_turns) * TURN_TOKENS


def test_a_collection_of_nothing_brings_nothing(make_collector, legal_policy):
    rollout = make_collector().collect(legal_policy, [])
    assert (list(rollout.episodes), rollout.peak_resident_tokens) == ([], 0)


def test_episodes_of_a_group_meet_the_same_opponent(make_collector, legal_policy):
    plan = grouped_starts(0, step=0, num_episodes=12, group_size=3, num_seats=2)
    episodes = make_collector().collect(legal_policy, plan).episodes
    moves = [episode.summary.moves for episode in episodes]

    # A policy without chance of its own: equal starts are equal games.
    assert all(len(set(moves[first : first + 3])) == 1 for first in range(0, 12, 3))
    assert len(set(moves)) == 4


def test_one_by_one_is_the_same_as_all_at_once(make_collector, tic_tac_toe, tiny_chat):
    policy = random_policy(tic_tac_toe, tiny_chat)
    together = make_collector().collect(policy, starts(6)).episodes

    assert [make_collector().collect(policy, [one]).episodes[0] for one in starts(6)] == together


def test_a_model_plays_the_same_games_alone_and_in_a_batch(make_collector, tiny_model, tiny_chat):
    def play(plan):
        engine = TransformersEngine(
            tiny_model, stop_ids=tiny_chat.stop_ids, capacity_tokens=1 << 20
        )
        return make_collector().collect(LanguagePolicy(engine, temperature=3.0), plan).episodes

    together = play(starts(20))
    assert max(len(episode.turns) for episode in together) > 1
    alone = [play([one])[0] for one in starts(20)]
    for batched, single in zip(together, alone, strict=True):
        assert batched.summary.moves == single.summary.moves
        assert batched.summary.end_reason == single.summary.end_reason
        for a, b in zip(batched.turns, single.turns, strict=True):
            assert list(a.reply_ids) == list(b.reply_ids)
            np.testing.assert_allclose(a.logprobs, b.logprobs, atol=1e-5)


def test_matches_have_an_opponent_of_their_own(make_collector, legal_policy, tic_tac_toe):
    first, last = Moody(lambda state: tic_tac_toe.legal(state)[0]), Moody(explode)
    collector = make_collector(opponent=first, match_opponent=last)
    plan = [replace(start(i, seat=1), match=i == 1) for i in range(3)]
    reasons = [
        episode.summary.end_reason for episode in collector.collect(legal_policy, plan).episodes
    ]

    assert reasons == [EndReason.FINISHED, EndReason.OPPONENT_ERROR, EndReason.FINISHED]


def self_play(num_tables=4, *, num_games=1):
    return self_play_starts(
        0, step=0, num_episodes=2 * num_tables, group_size=1, num_seats=2, num_games=num_games
    )


def test_in_self_play_each_seat_is_an_episode_that_holds_its_own_replies_only(
    make_collector, tic_tac_toe, tiny_chat, tiny_tokenizer
):
    policy = Answering(tiny_chat, lambda query: replies(tic_tac_toe)(query))
    episodes = make_collector(opponent=Moody(explode)).collect(policy, self_play()).episodes
    protocol = TextProtocol(tic_tac_toe)

    assert [episode.start for episode in episodes] == self_play()
    for first, second in zip(episodes[::2], episodes[1::2], strict=True):
        assert first.summary.moves == second.summary.moves
        assert first.summary.outcome == -second.summary.outcome
        assert first.summary.end_reason is second.summary.end_reason is EndReason.FINISHED
        turns = (iter(first.turns), iter(second.turns))
        contexts, state = ["", ""], (0, 0)
        for move in first.summary.moves:
            seat = tic_tac_toe.seat(state)
            turn = next(turns[seat])
            contexts[seat] += f"<|user|> {protocol.turn_message(state, seat)} <|assistant|> "
            expected = " ".join(contexts[seat].split())
            said = " ".join(tiny_tokenizer.convert_ids_to_tokens(list(turn.prompt_ids)))
            # Boards and this seat's replies: no token of the other seat's.
            assert said == expected
            assert turn.action == move
            contexts[seat] += f"{turn.text} <|end|> "
            state = tic_tac_toe.apply(state, move)
        assert [next(rest, None) for rest in turns] == [None, None]


def replies(game):
    """Seats that talk apart: one picks the first legal move, the other the last."""

    def answer(query):
        legal = game.legal(query.state)
        return game.move_name(query.state, legal[-1 if query.start.seat else 0])

    return answer


def test_in_self_play_all_tables_are_asked_at_once(make_collector, legal_policy):
    heard = []
    make_collector().collect(legal_policy, self_play(5), on_turn=heard.append)

    # The first legal cells in turn: X wins with the seventh stone.
    assert heard == [5] * 7


def test_seats_of_a_table_sample_apart(make_collector, tic_tac_toe, tiny_chat):
    episodes = (
        make_collector().collect(random_policy(tic_tac_toe, tiny_chat), self_play(6)).episodes
    )

    assert len({episode.start.reply_seed for episode in episodes}) == 12
    assert len({tuple(episode.summary.moves) for episode in episodes}) == 6


def test_in_self_play_a_forfeit_is_lost_by_its_seat_and_won_by_the_other(
    make_collector, tic_tac_toe, tiny_chat
):
    def answer(query):
        return "nonsense" if query.turn and query.start.seat else replies(tic_tac_toe)(query)

    policy = Answering(tiny_chat, answer)
    winner, loser = make_collector().collect(policy, self_play(1)).episodes

    assert (winner.summary.outcome, loser.summary.outcome) == (1.0, -1.0)
    assert (winner.summary.num_forfeits, loser.summary.num_forfeits) == (0, 1)
    assert (winner.summary.end_reason, loser.summary.end_reason) == (
        EndReason.FINISHED,
        EndReason.UNPARSABLE,
    )
    assert winner.summary.detail == f"seat 1 forfeited, unparsable: {loser.summary.detail}"
    assert not winner.summary.truncated


def test_a_forfeit_costs_what_the_game_says(make_collector, tiny_chat, tic_tac_toe):
    class Costly(Game):
        num_seats, num_actions, max_moves = 2, 9, 9
        initial, seat, legal = tic_tac_toe.initial, tic_tac_toe.seat, tic_tac_toe.legal
        apply, returns = tic_tac_toe.apply, tic_tac_toe.returns
        text, move_name = tic_tac_toe.text, tic_tac_toe.move_name

        def __init__(self):
            for name in ("initial", "seat", "legal", "apply", "returns", "text", "move_name"):
                setattr(self, name, getattr(tic_tac_toe, name))

        def forfeit(self, seat):
            return (-3.0, 2.0) if seat == 0 else (0.25, -5.0)

    policy = Answering(tiny_chat, lambda query: "nonsense")
    plan = [start(0, seat=0), start(1, seat=1)]
    episodes = make_collector(game=Costly()).collect(policy, plan).episodes

    assert [episode.summary.outcome for episode in episodes] == [-3.0, -5.0]


def test_a_cut_in_self_play_cuts_the_game_for_every_seat(make_collector, legal_policy):
    collector = make_collector(max_context_tokens=24)
    first, second = collector.collect(legal_policy, self_play(1)).episodes

    assert first.summary.end_reason is second.summary.end_reason is EndReason.CONTEXT_LIMIT
    assert (first.summary.outcome, second.summary.outcome) == (0.0, 0.0)
    assert first.summary.moves == second.summary.moves == (0, 1)


def test_several_games_share_a_context_and_an_opponent(
    make_collector, tic_tac_toe, tiny_chat, tiny_tokenizer
):
    policy = random_policy(tic_tac_toe, tiny_chat)
    plan = [start(i, seat=i % 2, num_games=3) for i in range(8)]
    episodes = make_collector(max_context_tokens=300).collect(policy, plan).episodes

    for episode in episodes:
        assert [game.end_reason for game in episode.games] == [EndReason.FINISHED] * 3
        assert episode.summary.outcome == pytest.approx(
            sum(game.outcome for game in episode.games) / 3
        )
        assert len({game.moves for game in episode.games}) > 1
        assert len({game.game_seed for game in episode.games}) == 3
        for before, after in zip(episode.turns, episode.turns[1:], strict=False):
            held = [*before.prompt_ids, *before.reply_ids]
            assert list(after.prompt_ids[: len(held)]) == held
        bounds = [game.first_turn for game in episode.games] + [len(episode.turns)]
        for game, first, last in zip(episode.games, bounds, bounds[1:], strict=False):
            own = game.moves[episode.start.seat :: 2]
            assert [turn.action for turn in episode.turns[first:last]] == list(own)
        # The first prompt of a later game shows how the one before it ended.
        later = episode.turns[bounds[1]]
        words = tiny_tokenizer.convert_ids_to_tokens(list(later.prompt_ids))
        assert words.count("<|user|>") == bounds[1] + 1
        assert len(words) - len(episode.turns[bounds[1] - 1].prompt_ids) > 2 * TURN_TOKENS - 2


def test_the_message_of_a_next_game_begins_with_the_last_position_and_the_score(
    tic_tac_toe, tiny_chat
):
    heard = []

    class Listening:
        stop_ids, decode, encode_reply = (
            tiny_chat.stop_ids,
            tiny_chat.decode,
            tiny_chat.encode_reply,
        )

        def start(self, system, user):
            heard.append(user)
            return tiny_chat.start(system, user)

        def extend(self, dialogue, reply_ids, user):
            heard.append(user)
            return tiny_chat.extend(dialogue, reply_ids, user)

    def answer(query):
        # Wins the first game in the first column, forfeits the second, draws nothing.
        if query.turn == 3:
            return "nonsense"
        own = query.state[0].bit_count() % 3
        return tic_tac_toe.move_name(query.state, 3 * own)

    second_column = Moody(None)
    second_column.move = lambda game, state, seat, rng: 3 * state[1].bit_count() + 1
    collector = Collector(
        tic_tac_toe,
        game_id=ID,
        opponent=second_column,
        match_opponent=second_column,
        chat=ChatFormat(tiny_chat._tokenizer),
        max_context_tokens=300,
        max_reply_tokens=4,
    )
    collector._play._chat = Listening()
    (episode,) = collector.collect(Answering(tiny_chat, answer), [start(0, num_games=3)]).episodes

    empty = "1 2 3\n4 5 6\n7 8 9"
    assert heard[3] == f"X O 3\nX O 6\nX 8 9\nScore 1. Next game:\n{empty}"
    assert heard[4] == f"Score -1. Next game:\n{empty}"
    assert [game.outcome for game in episode.games] == [1.0, -1.0, 1.0]
    assert episode.summary.outcome == pytest.approx(1 / 3)
    assert episode.summary.num_forfeits == 1
    assert [game.first_turn for game in episode.games] == [0, 3, 4]
    assert "game 2: unparsable -1" in episode.summary.detail


def test_a_context_that_is_full_ends_the_episode_and_later_games_count_as_lost(
    make_collector, legal_policy
):
    collector = make_collector(max_context_tokens=80)
    (episode,) = collector.collect(legal_policy, [start(3, num_games=4)]).episodes

    assert [game.end_reason for game in episode.games] == [
        EndReason.FINISHED,
        EndReason.CONTEXT_LIMIT,
    ]
    assert episode.summary.truncated
    began = len(episode.turns) > episode.games[1].first_turn
    assert episode.summary.outcome == (episode.games[0].outcome - 2 - (not began)) / 4


def test_an_opponent_that_fails_in_a_later_game_fails_the_episode(make_collector, legal_policy):
    class Tiring:
        """Random, until it has moved five times."""

        num_moves = 0

        def move(self, game, state, seat, rng):
            self.num_moves += 1
            return 1 / 0 if self.num_moves > 5 else RandomOpponent().move(game, state, seat, rng)

    collector = make_collector(opponent=Tiring(), max_context_tokens=300)
    (episode,) = collector.collect(legal_policy, [start(0, num_games=9)]).episodes

    assert episode.summary.failed
    assert len(episode.games) > 1
    assert episode.games[0].end_reason is EndReason.FINISHED


def test_several_games_one_by_one_are_the_same_as_all_at_once(
    make_collector, tic_tac_toe, tiny_chat
):
    policy = random_policy(tic_tac_toe, tiny_chat)
    plan = self_play(4, num_games=2)
    together = make_collector().collect(policy, plan).episodes
    alone = [
        episode
        for first in range(0, 8, 2)
        for episode in make_collector().collect(policy, plan[first : first + 2]).episodes
    ]

    assert alone == together


def test_a_group_meets_the_same_opponent_in_every_game(make_collector, legal_policy):
    plan = grouped_starts(0, step=0, num_episodes=6, group_size=3, num_seats=2, num_games=2)
    episodes = make_collector().collect(legal_policy, plan).episodes
    moves = [tuple(game.moves for game in episode.games) for episode in episodes]

    assert len(set(moves[:3])) == len(set(moves[3:])) == 1
    assert moves[0] != moves[3]
    assert moves[0][0] != moves[0][1]


def test_opponents_that_wait_for_an_answer_are_asked_together(make_collector, legal_policy):
    class Slow(RandomOpponent):
        max_concurrent_moves = 8

        def move(self, game, state, seat, rng):
            time.sleep(0.05)
            return super().move(game, state, seat, rng)

    plan = paired_starts(0, num_games=8, num_seats=2)
    start_s = time.perf_counter()
    slow = make_collector(match_opponent=Slow()).collect(legal_policy, plan)
    wall_s = time.perf_counter() - start_s
    quick = make_collector(match_opponent=RandomOpponent()).collect(legal_policy, plan)

    assert slow == quick
    num_moves = sum(len(e.summary.moves[1 - e.start.seat :: 2]) for e in slow.episodes)
    assert wall_s < 0.5 * 0.05 * num_moves


def test_an_episode_is_told_of_when_it_ends_and_once(make_collector, tic_tac_toe, tiny_chat):
    def answer(query):
        is_hasty = query.start.episode < 3
        return "X" if is_hasty else first_legal(tic_tac_toe)(query)

    policy, told = Answering(tiny_chat, answer), []
    plan = [start(i) for i in range(6)]
    rollout = make_collector().collect(
        policy, plan, on_episode=lambda episode: told.append((len(policy.queries), episode))
    )
    episodes = {episode.start.episode: episode for _, episode in told}
    assert len(told) == len(episodes) == 6
    assert [episodes[number] for number in range(6)] == rollout.episodes
    # Forfeits are told of before the others' second replies are asked for.
    assert {episode.start.episode for asked, episode in told if asked == 1} == {0, 1, 2}
