"""Games that go on when their own reply is there play what lockstep plays."""

from dataclasses import replace

import pytest
from earl_envs import RandomOpponent, make_game
from earl_trainer.models.tiny import build_tokenizer
from earl_trainer.rollout.chat import ChatFormat
from earl_trainer.rollout.collector import Collector
from earl_trainer.rollout.play import Play
from earl_trainer.rollout.policies import LanguagePolicy
from earl_trainer.rollout.scripted_engine import ScriptedEngine
from earl_trainer.rollout.seating import Seating
from earl_trainer.rollout.starts import grouped_starts, self_play_starts
from earl_trainer.rollout.streaming_collector import StreamingCollector

ID = "earl/TicTacToe-v0"


class Slowly:
    """Answers as another engine does, each reply after a number of steps of its own."""

    def __init__(self, engine, delay):
        self.engine, self.delay = engine, delay
        self.waiting, self.released, self.most_at_once, self.order = {}, [], 0, []

    def submit(self, request):
        assert request.sequence_id not in self.waiting
        self.order.append(request.sequence_id)
        self.waiting[request.sequence_id] = [request, self.delay(request)]

    def advance(self):
        self.most_at_once = max(self.most_at_once, len(self.waiting))
        for entry in self.waiting.values():
            entry[1] -= 1
        ready = [number for number, (_, left) in self.waiting.items() if left <= 0]
        return [
            (number, self.engine.generate([self.waiting.pop(number)[0]])[0]) for number in ready
        ]

    def release(self, sequence_id):
        assert sequence_id not in self.waiting
        self.released.append(sequence_id)


@pytest.fixture(scope="module")
def chat():
    return ChatFormat(build_tokenizer(make_game(ID), seed=0))


def make_parts(chat, *, opponent, delay):
    game = make_game(ID)
    engine = ScriptedEngine(
        lambda prompt_ids: chat.encode_reply(f"[{sum(prompt_ids) % 9}]"), stop_ids=chat.stop_ids
    )
    engine.load_weights(0)
    slowly = Slowly(engine, delay)
    policy = LanguagePolicy(engine, temperature=1.0)
    seating = Seating(game, game_id=ID, opponent=opponent, match_opponent=RandomOpponent())
    play = Play(game, chat=chat, max_context_tokens=256, max_reply_tokens=4)
    streaming = StreamingCollector(seating, play, engine=slowly, policy=policy)
    lockstep = Collector(
        game,
        game_id=ID,
        opponent=opponent,
        match_opponent=RandomOpponent(),
        chat=chat,
        max_context_tokens=256,
        max_reply_tokens=4,
    )
    return streaming, slowly, lockstep, policy


def drain(streaming, limit=10_000):
    ended = {}
    while streaming.is_busy:
        ended |= dict(streaming.advance())
        limit -= 1
        assert limit
    return ended


@pytest.mark.parametrize("self_play", [False, True])
@pytest.mark.parametrize("delay", [lambda request: 1, lambda request: 1 + request.seed % 13])
def test_the_episodes_are_those_of_lockstep_whatever_replies_take(chat, self_play, delay):
    plan = self_play_starts if self_play else grouped_starts
    opponent = None if self_play else RandomOpponent()
    starts = plan(3, step=0, num_episodes=24, group_size=4, num_seats=2, num_games=2)
    streaming, slowly, lockstep, policy = make_parts(chat, opponent=opponent, delay=delay)
    groups = {}
    for start in starts:
        groups.setdefault(start.group, []).append(start)
    for number, group in groups.items():
        streaming.begin(number, group)
    ended = drain(streaming)
    expected = {ep.start: ep for ep in lockstep.collect(policy, starts).episodes}
    assert {ep.start: ep for episodes in ended.values() for ep in episodes} == expected
    for number, episodes in ended.items():
        assert [episode.start for episode in episodes] == groups[number]
    assert sorted(slowly.released) == sorted(start.episode for start in starts)


def test_a_fast_group_ends_while_a_slow_one_runs_and_another_begins(chat):
    starts = grouped_starts(3, step=0, num_episodes=12, group_size=4, num_seats=2)
    slow = {start.episode for start in starts[:4]}
    streaming, _, _, _ = make_parts(
        chat,
        opponent=RandomOpponent(),
        delay=lambda request: 500 if request.sequence_id in slow else 1,
    )
    streaming.begin(0, starts[:4])
    streaming.begin(1, starts[4:8])
    order, begun = [], False
    while streaming.is_busy:
        order += [number for number, _ in streaming.advance()]
        if order == [1] and not begun:
            begun = True
            streaming.begin(2, starts[8:])
    assert order == [1, 2, 0]


def test_told_not_to_ask_it_lets_running_replies_end_and_begins_none(chat):
    starts = grouped_starts(3, step=0, num_episodes=8, group_size=4, num_seats=2)
    streaming, slowly, _, _ = make_parts(
        chat, opponent=RandomOpponent(), delay=lambda request: 1 + request.seed % 5
    )
    streaming.begin(0, starts[:4])
    streaming.advance()
    begun = len(slowly.order)
    while streaming.num_replies_running:
        streaming.advance(ask=False)
    assert len(slowly.order) == begun
    assert streaming.is_busy
    assert set(drain(streaming)) == {0}


def test_groups_of_several_steps_may_run_together(chat):
    streaming, _, _, _ = make_parts(
        chat, opponent=RandomOpponent(), delay=lambda request: 1 + request.seed % 7
    )
    for step in range(3):
        starts = grouped_starts(3, step=step, num_episodes=4, group_size=4, num_seats=2)
        streaming.begin(
            step, [replace(each, episode=each.episode + 4 * step, group=step) for each in starts]
        )
    assert set(drain(streaming)) == {0, 1, 2}


@pytest.mark.parametrize("self_play", [False, True])
def test_an_episode_is_told_of_once_and_before_its_group_ends(chat, self_play):
    plan = self_play_starts if self_play else grouped_starts
    starts = plan(3, step=0, num_episodes=16, group_size=8, num_seats=2)
    streaming, _, _, _ = make_parts(
        chat,
        opponent=None if self_play else RandomOpponent(),
        delay=lambda request: 1 + request.seed % 13,
    )
    told, ended = [], {}
    streaming._on_episode = lambda episode: told.append((len(ended), episode))
    streaming.begin(0, starts)
    while streaming.is_busy:
        ended |= dict(streaming.advance())
    assert sorted((episode for _, episode in told), key=lambda each: each.start.episode) == ended[0]
    assert {groups for groups, _ in told} == {0}
