"""Who answers for the learner's seat."""

import pytest
from earl_envs import RandomOpponent, TextProtocol
from earl_trainer.rollout.engine import FinishReason
from earl_trainer.rollout.policies import LanguagePolicy, Query, ScriptedPolicy
from earl_trainer.rollout.scripted_engine import ScriptedEngine
from earl_trainer.types import EpisodeStart


class RecordingEngine:
    """Remembers what it was asked and leaves the answers to a script."""

    def __init__(self):
        self.requests = []
        self._engine = ScriptedEngine(lambda prompt: [prompt[0], 0], stop_ids={0})
        self.version, self.tp, self.capacity_tokens = 0, 1, 1
        self.interrupt = self._engine.interrupt
        self.load_weights = self._engine.load_weights
        self.resize = self._engine.resize
        self.close = self._engine.close

    def generate(self, requests):
        self.requests.extend(requests)
        return self._engine.generate(requests)


def query(*, episode=0, reply_seed=0, turn=0, state=(0, 0), max_new_tokens=4, greedy=False):
    start = EpisodeStart(
        episode=episode,
        table=episode,
        group=0,
        seat=0,
        game_seed=0,
        reply_seed=reply_seed,
        greedy=greedy,
    )
    return Query(
        start=start, turn=turn, state=state, prompt_ids=(5, 6), max_new_tokens=max_new_tokens
    )


@pytest.fixture(scope="module")
def script(tic_tac_toe, tiny_chat):
    return ScriptedPolicy(RandomOpponent(), game=tic_tac_toe, chat=tiny_chat)


def test_a_reply_of_the_model_is_seeded_by_episode_and_turn_alone():
    engine = RecordingEngine()
    policy = LanguagePolicy(engine, temperature=0.5)
    policy.reply([query(episode=3, reply_seed=8), query(episode=4, reply_seed=9)])
    policy.reply([query(episode=4, reply_seed=9, turn=1), query(episode=4, reply_seed=9)])
    a, b, b_later, b_again = engine.requests

    assert len({a.seed, b.seed, b_later.seed}) == 3
    assert b_again.seed == b.seed
    assert [request.sequence_id for request in engine.requests] == [3, 4, 4, 4]
    assert {request.temperature for request in engine.requests} == {0.5}
    assert (a.prompt_ids, a.max_new_tokens) == ((5, 6), 4)


def test_a_greedy_episode_is_decoded_greedily_beside_sampled_ones():
    engine = RecordingEngine()
    LanguagePolicy(engine, temperature=0.5).reply([query(), query(episode=1, greedy=True)])
    assert [request.temperature for request in engine.requests] == [0.5, 0.0]


def test_scripted_replies_are_legal_moves_that_end_like_a_models(script, tic_tac_toe, tiny_chat):
    protocol, state = TextProtocol(tic_tac_toe), (0b000_010_001, 0b100_000_010)
    replies = script.reply([query(state=state, reply_seed=seed) for seed in range(40)])
    actions = set()
    for reply in replies:
        assert reply.finish_reason is FinishReason.STOP
        assert reply.ids[-1] in tiny_chat.stop_ids
        assert tiny_chat.stop_ids.isdisjoint(reply.ids[:-1])
        assert len(reply.ids) == len(reply.logprobs) == len(reply.versions) == 2
        assert set(reply.versions) == {-1}
        actions.add(protocol.parse(tiny_chat.decode(reply.ids), state).action)

    assert actions == set(tic_tac_toe.legal(state))


def test_a_scripted_reply_depends_on_its_episode_and_turn_alone(script):
    queries = [query(reply_seed=seed, turn=turn) for seed in range(6) for turn in range(3)]
    together = script.reply(queries)

    assert [script.reply([asked])[0] for asked in queries[::-1]] == together[::-1]
    assert len({reply.ids for reply in together}) > 3


def test_a_scripted_reply_without_room_is_cut(script):
    (reply,) = script.reply([query(max_new_tokens=1)])

    assert len(reply.ids) == len(reply.logprobs) == len(reply.versions) == 1
    assert reply.finish_reason is FinishReason.LENGTH
