"""The real vLLM against the embedded engine, at two degrees. One engine serves all tests in order:
the switch comes late, the killed process last."""

import os
import signal
import threading
import time

import pytest
import torch
from earl_selector import DeviceSpec, MemoryModel, ModelShape
from earl_trainer.rollout import vllm_engine
from earl_trainer.rollout.engine import Completion, Engine, FinishReason, Request
from earl_trainer.rollout.switch import SwitchRules
from earl_trainer.rollout.transformers_engine import TransformersEngine
from earl_trainer.rollout.vllm_configuration import CacheSize, LostVllmError
from earl_trainer.rollout.vllm_engine import VllmEngine
from earl_trainer.types import RunFailedError
from transformers import LlamaConfig, LlamaForCausalLM

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

NUM_VOCAB = 64
STOP_IDS = frozenset({2, 3, 4})
KV_BYTES_PER_TOKEN = 2 * 2 * 2 * 32 * 4
CACHE_BYTES = 512 * KV_BYTES_PER_TOKEN
MAX_CONTEXT_TOKENS = 700
MAX_DIFFERENCE = 1e-4
"""Of log-probs in float32, whose sums the two engines and the degrees take in other orders."""


@pytest.fixture(scope="module")
def model():
    """Small, but of a shape that vLLM's CPU kernels take, with shared heads and a tied output."""
    config = LlamaConfig(
        vocab_size=NUM_VOCAB, hidden_size=128, intermediate_size=256, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=1024,
        tie_word_embeddings=True, initializer_range=0.15,
        bos_token_id=None, eos_token_id=4, pad_token_id=0,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        return LlamaForCausalLM(config).eval()


@pytest.fixture(scope="module")
def make_memory(model):
    def make(**changes):
        fields = {
            "shape": ModelShape.from_config(model.config.to_dict()),
            "bytes_per_parameter": 4,
            "bytes_per_kv_value": 4,
            "utilisation": 1.0,
            "reserve_bytes": 0,
        } | changes
        weights_bytes = MemoryModel(device=DeviceSpec.cpu(1), **fields).weights_bytes(1)
        return MemoryModel(device=DeviceSpec.cpu(weights_bytes + CACHE_BYTES), **fields)

    return make


@pytest.fixture(scope="module")
def embedded(model):
    return TransformersEngine(model, stop_ids=STOP_IDS, capacity_tokens=1 << 20)


@pytest.fixture(scope="module")
def notes():
    return []


@pytest.fixture(scope="module")
def engine(model, make_memory, notes):
    engine = VllmEngine(
        model, stop_ids=STOP_IDS, memory=make_memory(), max_context_tokens=MAX_CONTEXT_TOKENS,
        rules=SwitchRules(max_restarts=1), note=notes.append,
    )  # fmt: skip
    engine.load_weights(5)
    yield engine
    engine.close()


class FrailConfiguration:
    """Replies with its degree, and is lost as often as it is told to be."""

    # Made anew for each test.
    log = losses = no_start = ()

    def __init__(self, settings, loop, *, tp, folder):
        self.log.append(("start", tp))
        if tp in self.no_start:
            raise RunFailedError(f"vLLM did not start at tp {tp}")
        self.tp, self.sleeping_bytes, self.pids = tp, 1, []
        self.size = CacheSize(capacity_tokens=100, max_context_tokens=100)

    def held_bytes(self):
        return 0

    def sleep(self):
        raise AssertionError("it cannot")

    def wake(self, folder):
        raise AssertionError("it does not sleep")

    def close(self):
        self.log.append(("close", self.tp))

    def _do(self, name):
        self.log.append((name, self.tp))
        if name in self.losses:
            self.losses.remove(name)
            raise LostVllmError(f"lost at tp {self.tp}")

    def load(self, folder):
        self._do("load")

    def score(self, contexts):
        self._do("score")
        return [[0.0] * (len(context) - 1) for context in contexts]

    def generate(self, requests, *, version, interrupted):
        self._do("generate")
        return [
            Completion(
                ids=[self.tp], logprobs=[0.0], versions=[version], finish_reason=FinishReason.STOP
            )
            for _ in requests
        ]


@pytest.fixture
def frail(monkeypatch, model, make_memory):
    """Make engines of configurations that are lost; also give what they say and what they do."""
    monkeypatch.setattr(vllm_engine, "VllmConfiguration", FrailConfiguration)
    monkeypatch.setattr(vllm_engine, "can_sleep", lambda: False)
    for name in ("log", "losses", "no_start"):
        monkeypatch.setattr(FrailConfiguration, name, [])
    made = []

    def make(*losses, max_restarts):
        said = []
        engine = VllmEngine(
            model, stop_ids=STOP_IDS, memory=make_memory(), max_context_tokens=100,
            rules=SwitchRules(max_restarts=max_restarts), note=said.append,
        )  # fmt: skip
        made.append(engine)
        engine.load_weights(5)
        FrailConfiguration.losses.extend(losses)
        return engine, said

    yield make
    for engine in made:
        engine.close()


def one_request():
    return make_requests(1, temperature=0.0)


def test_lost_processes_are_started_anew_as_often_as_is_allowed_and_the_work_is_done_again(frail):
    engine, said = frail("generate", "generate", max_restarts=2)
    (reply,) = engine.generate(one_request())
    assert (reply.ids, reply.versions) == ([1], [5])
    assert said == ["lost at tp 1; starting vLLM anew at tp 1"] * 2
    FrailConfiguration.losses.append("load")
    engine.load_weights(6)
    with pytest.raises(RunFailedError, match="lost at tp 1"):
        engine.generate(one_request())
    assert len(said) == 2


def test_new_weights_are_read_by_the_degree_that_is_switched_to_and_no_other(frail):
    engine, _ = frail(max_restarts=0)
    engine.generate(one_request())
    engine.load_weights(6)
    FrailConfiguration.log.clear()
    switch = engine.resize(2)
    assert (switch.done, switch.with_weights) == (True, True)
    assert FrailConfiguration.log == [("close", 1), ("start", 2), ("score", 2)]
    assert "token_mult_prob_error" in switch.problem, "from the learner, which is less certain"
    assert engine.generate(one_request())[0].versions == [6]
    engine.load_weights(7)
    assert engine.resize(2) is None
    assert FrailConfiguration.log[-2:] == [("generate", 2), ("load", 2)]


def test_where_the_new_degree_does_not_start_the_old_one_does_with_new_weights(frail):
    engine, _ = frail(max_restarts=0)
    engine.load_weights(6)
    FrailConfiguration.no_start = [2]
    FrailConfiguration.log.clear()
    switch = engine.resize(2)
    assert (switch.done, engine.tp) == (False, 1)
    assert engine.generate(one_request())[0].versions == [6]
    assert FrailConfiguration.log == [("close", 1), ("start", 2), ("start", 1), ("generate", 1)]


def test_no_restart_is_allowed_where_there_are_to_be_none(frail):
    engine, said = frail("generate", max_restarts=0)
    with pytest.raises(RunFailedError, match="lost at tp 1"):
        engine.generate(one_request())
    assert said == []


def test_a_new_start_that_fails_counts_as_well(frail):
    engine, said = frail("generate", max_restarts=2)
    FrailConfiguration.no_start = [1]
    with pytest.raises(RunFailedError, match="did not start at tp 1"):
        engine.generate(one_request())
    assert len(said) == 2


def test_a_switch_on_which_both_degrees_are_lost_is_followed_by_a_new_start_at_the_old_one(
    frail, monkeypatch
):
    engine, said = frail(max_restarts=1)
    engine.generate(one_request())
    starts = []

    def start(self, settings, loop, *, tp, folder):
        starts.append(tp)
        if len(starts) < 3:
            raise RunFailedError(f"vLLM did not start at tp {tp}")
        original(self, settings, loop, tp=tp, folder=folder)

    original = FrailConfiguration.__init__
    monkeypatch.setattr(FrailConfiguration, "__init__", start)
    switch = engine.resize(2)
    assert (switch.done, engine.tp, starts) == (False, 1, [2, 1, 1])
    assert said == ["vLLM did not start at tp 1; starting vLLM anew at tp 1"]
    assert engine.generate(one_request())[0].ids == [1]


def test_a_probe_whose_processes_are_lost_is_scored_again(frail):
    engine, said = frail(max_restarts=1)
    engine.generate(one_request())
    FrailConfiguration.losses.append("score")
    switch = engine.resize(2)
    assert (switch.done, switch.problem, len(said)) == (True, "", 1)


def make_requests(num, *, temperature, max_new_tokens=24, seed=0):
    rng = torch.Generator().manual_seed(seed)
    return [
        Request(
            sequence_id=place,
            prompt_ids=torch.randint(5, NUM_VOCAB, (4 + place % 9,), generator=rng).tolist(),
            max_new_tokens=max_new_tokens,
            temperature=temperature,
            seed=2**63 + 1000 * seed + place,
        )
        for place in range(num)
    ]


@torch.no_grad()
def whole_logprobs(model, request, reply_ids):
    """[R, V] log-probs at each token of the reply, from one forward pass."""
    logits = model(torch.tensor([[*request.prompt_ids, *reply_ids]])).logits[0]
    first = len(request.prompt_ids) - 1
    return (logits[first:-1] / (request.temperature or 1.0)).log_softmax(-1)


def assert_greedy_replies_agree(model, requests, left, right):
    """Ids are equal up to a place where two tokens are as good; so are log-probs, nearly."""
    num_ties = 0
    for request, one, other in zip(requests, left, right, strict=True):
        same = [a == b for a, b in zip(one.ids, other.ids, strict=False)]
        length = same.index(False) if False in same else len(same)
        if length < max(len(one.ids), len(other.ids)):
            places = whole_logprobs(model, request, [*one.ids[:length], 0])
            best, second = places[-1].topk(2).values.tolist()
            assert best - second < MAX_DIFFERENCE, f"place {length} of {request}"
            num_ties += 1
        assert list(one.logprobs[:length]) == pytest.approx(
            list(other.logprobs[:length]), abs=MAX_DIFFERENCE
        )
    assert num_ties <= len(requests) // 8


def change_weights(model, *, seed):
    rng = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=rng))


def exists(pid):
    return os.path.exists(f"/proc/{pid}")


def test_it_is_an_engine(engine):
    assert isinstance(engine, Engine)
    assert (engine.version, engine.tp) == (5, 1)


def test_greedy_replies_are_those_of_the_embedded_engine(engine, embedded, model):
    requests = make_requests(24, temperature=0.0)
    replies = engine.generate(requests)
    assert_greedy_replies_agree(model, requests, replies, embedded.generate(requests))
    assert {FinishReason.STOP, FinishReason.LENGTH} == {each.finish_reason for each in replies}
    for reply in replies:
        assert (reply.ids[-1] in STOP_IDS) == (reply.finish_reason is FinishReason.STOP)
        assert list(reply.versions) == [5] * len(reply.ids)


@pytest.mark.parametrize("temperature", [0.7, 1.0, 1.5])
def test_logprobs_are_those_of_the_law_that_was_sampled(engine, model, temperature):
    requests = make_requests(8, temperature=temperature, seed=1)
    for request, reply in zip(requests, engine.generate(requests), strict=True):
        places = whole_logprobs(model, request, list(reply.ids))
        expected = places.gather(1, torch.tensor(reply.ids)[:, None])[:, 0].tolist()
        assert list(reply.logprobs) == pytest.approx(expected, abs=MAX_DIFFERENCE)


def test_a_seed_fixes_the_reply_whatever_is_asked_for_beside_it(engine):
    requests = make_requests(12, temperature=1.0, seed=2)
    together = [each.ids for each in engine.generate(requests)]
    assert [each.ids for each in engine.generate(requests[::-1])] == together[::-1]
    assert engine.generate([requests[3]])[0].ids == together[3]
    others = make_requests(12, temperature=1.0, seed=3)
    renewed = [
        Request(
            sequence_id=request.sequence_id, prompt_ids=request.prompt_ids, seed=other.seed,
            max_new_tokens=24, temperature=1.0,
        )
        for request, other in zip(requests, others, strict=True)
    ]  # fmt: skip
    assert sum(a != b.ids for a, b in zip(together, engine.generate(renewed), strict=True)) >= 11


def test_new_weights_speak_at_once_and_old_caches_are_forgotten(engine, embedded, model):
    # Prompts longer than a block of the cache, which would be found again.
    requests = [
        Request(
            sequence_id=request.sequence_id, prompt_ids=[*request.prompt_ids, *range(5, 60)],
            max_new_tokens=12, temperature=0.0, seed=0,
        )
        for request in make_requests(8, temperature=0.0, seed=4)
    ]  # fmt: skip
    before = engine.generate(requests)
    change_weights(model, seed=5)
    engine.load_weights(6)
    embedded.load_weights(6)
    after = engine.generate(requests)
    assert_greedy_replies_agree(model, requests, after, embedded.generate(requests))
    assert sum(a.ids != b.ids for a, b in zip(before, after, strict=True)) >= 6
    assert {version for each in after for version in each.versions} == {6}
    assert engine.version == 6


def test_an_interrupt_ends_all_replies_with_what_there_is(engine, model):
    # Many more than the cache holds at once, so that a fast machine is not done before the timer.
    requests = make_requests(512, temperature=1.0, max_new_tokens=400, seed=6)
    # A slow machine has said nothing yet when a fast one is in the middle.
    for delay_s in (0.3, 0.9, 2.7, 8.1):
        timer = threading.Timer(delay_s, engine.interrupt)
        timer.start()
        replies = engine.generate(requests)
        timer.join()
        aborted = [each for each in replies if each.finish_reason is FinishReason.ABORT]
        if any(reply.ids for reply in aborted):
            break
    assert any(reply.ids for reply in aborted)
    for reply in aborted:
        assert len(reply.ids) == len(reply.logprobs) < 400
    # The next batch is not touched by it.
    again = engine.generate(make_requests(4, temperature=0.0))
    assert FinishReason.ABORT not in {each.finish_reason for each in again}


def test_a_context_fills_the_cache_to_the_last_token_and_no_longer_one_is_taken(engine):
    assert engine.capacity_tokens == 480  # Of 16 blocks of 32 tokens vLLM keeps one.

    def ask(max_new_tokens):
        return Request(
            sequence_id=0, prompt_ids=[7] * 440, max_new_tokens=max_new_tokens, temperature=1.0,
            seed=0,
        )  # fmt: skip

    (reply,) = engine.generate([ask(40)])
    assert len(reply.ids) == 40 or reply.finish_reason is FinishReason.STOP
    with pytest.raises(ValueError, match="481 tokens does not fit the capacity of 480 tokens"):
        engine.generate([ask(41)])


def test_more_requests_than_the_cache_holds_wait_for_one_another(engine, model, embedded):
    requests = [
        Request(
            sequence_id=place, prompt_ids=[5 + place] * 150, max_new_tokens=8, temperature=0.0,
            seed=0,
        )
        for place in range(10)
    ]  # fmt: skip
    replies = engine.generate(requests)
    assert_greedy_replies_agree(model, requests, replies, embedded.generate(requests))


def test_no_requests_are_no_work(engine):
    assert engine.generate([]) == []


def test_a_degree_that_does_not_divide_the_heads_is_refused(engine):
    with pytest.raises(ValueError, match="3"):
        engine.resize(3)
    assert engine.tp == 1
    assert engine.resize(1) is None


def test_switching_there_and_back_keeps_the_replies_and_leaves_nothing_behind(
    engine, embedded, model
):
    requests = make_requests(24, temperature=0.0, seed=7)
    at_first = engine.generate(requests)
    old_pids = engine.pids
    up = engine.resize(2)
    assert (up.from_tp, up.tp, up.done, up.problem) == (1, 2, True, "")
    assert up.switch_s > 0.1
    assert up.drift.num_tokens > 0
    assert up.drift.max_difference < MAX_DIFFERENCE
    assert not any(map(exists, old_pids))
    memory = engine.switch_memory
    assert memory.released_bytes == memory.before_bytes > CACHE_BYTES
    # The whole engine is one process for each rank and one that schedules, at least.
    assert len(engine.pids) > len(old_pids)
    assert_greedy_replies_agree(model, requests, at_first, engine.generate(requests))

    # What was too long at tp 1 is not cut at tp 2.
    assert engine.capacity_tokens > 2 * 480
    long = Request(sequence_id=0, prompt_ids=[7] * 600, max_new_tokens=100, temperature=0.0, seed=0)
    assert_greedy_replies_agree(
        model, [long] * 8, engine.generate([long] * 8), embedded.generate([long] * 8)
    )

    # What both degrees have room for, as a probe of the switch.
    engine.generate(requests)
    change_weights(model, seed=8)
    engine.load_weights(7)
    embedded.load_weights(7)
    down = engine.resize(1)
    assert (down.from_tp, down.tp, down.with_weights, down.problem) == (2, 1, True, "")
    assert down.drift.max_difference < MAX_DIFFERENCE, "from the learner"
    assert engine.capacity_tokens == 480
    requests = make_requests(24, temperature=0.0, seed=9)
    back = engine.generate(requests)
    assert_greedy_replies_agree(model, requests, back, embedded.generate(requests))
    assert {version for each in back for version in each.versions} == {7}


def test_a_killed_process_is_started_anew_once_and_then_ends_the_run_in_one_line_and_soon(
    engine, notes
):
    requests = make_requests(16, temperature=1.0, max_new_tokens=400, seed=10)
    expected = [each.ids for each in engine.generate(requests)]

    def generate_while_one_is_killed():
        timer = threading.Timer(0.3, os.kill, (engine.pids[-1], signal.SIGKILL))
        timer.start()
        end_s = time.monotonic() + 240
        while not notes and time.monotonic() < end_s:
            assert [each.ids for each in engine.generate(requests)] == expected
        timer.join()

    generate_while_one_is_killed()
    assert notes == ["vLLM's processes at tp 1 are gone; starting vLLM anew at tp 1"]
    end_s = time.monotonic() + 60
    os.kill(engine.pids[-1], signal.SIGKILL)
    with pytest.raises(RunFailedError, match="vLLM's processes at tp 1 are gone"):
        engine.generate(requests)
    assert time.monotonic() < end_s
    engine.load_weights(8)
    with pytest.raises(RunFailedError):
        engine.generate(requests)
    pids = engine.pids
    engine.close()
    assert not any(map(exists, pids))
