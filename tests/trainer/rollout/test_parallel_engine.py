"""An engine over two ranks, against the same model in this process."""

import os
import signal
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
import ray
import torch
from earl_dispatch import Columns
from earl_selector import DeviceSpec, MemoryModel, ModelShape
from earl_trainer.experience.prepare import score_columns
from earl_trainer.parallel.engine_rank import EngineRank
from earl_trainer.parallel.placement import Placement
from earl_trainer.parallel.ray_ranks import LostRankError
from earl_trainer.rollout.engine import FinishReason, Request
from earl_trainer.rollout.parallel_engine import ParallelEngine
from earl_trainer.rollout.probe import probe_columns
from earl_trainer.rollout.switch import SwitchRules
from earl_trainer.rollout.transformers_engine import TransformersEngine
from earl_trainer.types import RunFailedError
from ray import cloudpickle
from transformers import LlamaConfig, LlamaForCausalLM

pytestmark = pytest.mark.slow

STOP = 2
NO_STOP = frozenset[int]()


def make_model(seed=7):
    config = LlamaConfig(
        vocab_size=40,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
    )
    with torch.random.fork_rng():
        torch.default_generator.manual_seed(seed)
        model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.mul_(8.0)
    return model


def memory_of(model, memory_bytes):
    return MemoryModel(
        shape=ModelShape.from_config(model.config.to_dict()),
        device=DeviceSpec.cpu(memory_bytes),
        bytes_per_parameter=4,
        bytes_per_kv_value=4,
        utilisation=1.0,
        reserve_bytes=0,
    )


def requests_of(num, *, temperature=1.0, prompt_tokens=12, new_tokens=8, first=0):
    return [
        Request(
            sequence_id=first + number,
            prompt_ids=[3 + (7 * number + 5 * place) % 37 for place in range(prompt_tokens)],
            max_new_tokens=new_tokens,
            temperature=temperature,
            seed=number,
        )
        for number in range(num)
    ]


@pytest.fixture(scope="module", autouse=True)
def _cluster():
    """One cluster for all engines here; actors cannot import a module of tests."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    ray.init(
        num_cpus=4,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        object_store_memory=100 * 1024**2,
    )
    yield
    ray.shutdown()
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


@pytest.fixture(scope="module")
def model():
    return make_model()


@pytest.fixture
def start(model):
    """Start engines that end with the test."""
    engines = []

    def make(*, memory_bytes=1 << 26, shares=False, stop_ids=frozenset({STOP}), tp=1, **rules):
        make_rank = rules.pop("make_rank", EngineRank)
        notes = []
        engine = ParallelEngine(
            model,
            Placement(
                num_ranks=2,
                degrees=(1, 2),
                memory=memory_of(model, memory_bytes),
                shares=shares,
            ),
            stop_ids=stop_ids,
            tp=tp,
            rules=SwitchRules(**({"timeout_s": 60.0, "generate_timeout_s": 60.0} | rules)),
            note=notes.append,
            make_rank=make_rank,
        )
        engines.append(engine)
        engine.load_weights(1)
        engine.resize(tp)  # At its own degree: the weights are sent.
        return engine, notes

    yield make
    for engine in engines:
        engine.close()


def in_process(model, requests, stop_ids=frozenset({STOP})):
    engine = TransformersEngine(model, stop_ids=stop_ids, capacity_tokens=1 << 20)
    return engine.generate(requests)


def assert_same(replies, expected):
    assert [list(reply.ids) for reply in replies] == [list(reply.ids) for reply in expected]
    for reply, other in zip(replies, expected, strict=True):
        assert list(reply.logprobs) == pytest.approx(list(other.logprobs), abs=1e-4)
        assert reply.finish_reason == other.finish_reason


def test_replies_are_those_of_one_process_at_every_degree_and_with_new_weights(start, model, renew):
    engine, notes = start()
    sampled, greedy = requests_of(9), requests_of(9, temperature=0.0, first=50)
    expected = in_process(model, sampled), in_process(model, greedy)
    capacity = engine.capacity_tokens
    for tp in (1, 2, 1, 2):
        switch = engine.resize(tp)
        for requests, replies in zip((sampled, greedy), expected, strict=True):
            assert_same(engine.generate(requests), replies)
        if switch is not None:
            assert switch.done
            assert switch.tp == engine.tp == tp
            assert switch.bytes_moved == switch.bytes_lower_bound
            assert (switch.bytes_moved == 0) == (tp == 2), "nothing moves on the way up"
            assert switch.drift is not None
            assert switch.drift.max_difference < 1e-4
    assert engine.capacity_tokens > 2 * capacity, "half the weights leave more for contexts"
    assert engine.resize(2) is None
    with pytest.raises(ValueError, match=r"the engine runs at tp \(1, 2\), got 4"):
        engine.resize(4)
    renew()
    engine.load_weights(2)
    replies = engine.generate(sampled)
    assert_same(replies, in_process(model, sampled))
    assert {version for reply in replies for version in reply.versions} == {2}
    assert notes == []


def test_a_context_too_long_for_one_rank_fits_two_and_no_rank_exceeds_its_memory(start, model):
    weights_bytes = sum(each.nbytes for each in model.parameters())
    # Keys and values of two layers of 32 numbers for 100 tokens.
    memory_bytes = weights_bytes + 100 * 2 * 2 * 32 * 4
    engine, _ = start(memory_bytes=memory_bytes, stop_ids=NO_STOP)
    long = requests_of(3, prompt_tokens=120, new_tokens=6, temperature=0.0)
    message = "context of 126 tokens does not fit the capacity of 100 tokens of a rank at tp 1"
    for kind in (ValueError, RunFailedError):
        with pytest.raises(kind, match=message):
            engine.generate(long)
    switch = engine.resize(2)
    assert switch is not None
    assert switch.done
    replies = engine.generate(long)
    assert_same(replies, in_process(model, long, NO_STOP))
    assert all(reply.finish_reason is FinishReason.LENGTH for reply in replies)
    assert all(len(reply.ids) == 6 for reply in replies)
    for rank in engine.memory():
        assert rank.peak_kv_bytes > 0
        assert rank.weights_bytes + rank.peak_kv_bytes <= rank.budget_bytes == memory_bytes
        assert rank.weights_bytes < 0.6 * weights_bytes


def test_engines_share_the_conversations_at_the_smaller_degree(start, model):
    engine, _ = start(shares=True)
    one = engine.capacity_tokens // 2
    requests = requests_of(7)
    assert_same(engine.generate(requests), in_process(model, requests))
    assert all(rank.kv_bytes > 0 for rank in engine.memory()), "both have conversations"
    of_one_seat = [replace(each, sequence_id=2 * each.sequence_id + 100) for each in requests]
    engine.load_weights(1)
    assert_same(engine.generate(of_one_seat), in_process(model, of_one_seat))
    assert all(rank.kv_bytes > 0 for rank in engine.memory()), "so they have of every seat"
    longer = [
        Request(
            sequence_id=each.sequence_id,
            prompt_ids=[*each.prompt_ids, *reply.ids, 5, 6],
            max_new_tokens=4,
            temperature=1.0,
            seed=9,
        )
        for each, reply in zip(requests, engine.generate(requests), strict=True)
    ]
    assert_same(engine.generate(longer), in_process(model, longer))
    engine.resize(2)
    assert one < engine.capacity_tokens
    assert_same(engine.generate(longer), in_process(model, longer))


def test_an_interrupt_stops_all_ranks_at_the_same_token(start, model):
    engine, _ = start(tp=2, stop_ids=NO_STOP)
    requests = requests_of(4, new_tokens=8000)
    done = threading.Event()

    def interrupt():
        # Again and again: what a rank has not begun with yet cannot be interrupted.
        while not done.wait(0.5):
            engine.interrupt()

    thread = threading.Thread(target=interrupt)
    thread.start()
    replies = engine.generate(requests)
    done.set()
    thread.join()
    lengths = {len(reply.ids) for reply in replies}
    assert len(lengths) == 1
    assert 0 < lengths.pop() < 8000
    assert {reply.finish_reason for reply in replies} == {FinishReason.ABORT}
    again = requests_of(3, first=20)
    assert_same(engine.generate(again), in_process(model, again, NO_STOP))


@pytest.fixture
def renew(model):
    """Change the learner's weights, until the test ends."""
    kept = {name: each.detach().clone() for name, each in model.named_parameters()}

    def make():
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(0.9)

    yield make
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(kept[name])


def received_bytes(engine):
    return sum(rank.received_bytes for rank in engine.memory())


def test_new_weights_go_straight_to_the_degree_that_is_switched_to_and_only_others_move(
    start, model, renew
):
    engine, notes = start()
    whole_bytes = sum(each.nbytes for each in model.parameters())
    requests = requests_of(7)
    engine.generate(requests)
    for version, tp in enumerate((2, 1), start=2):
        renew()
        seen_bytes = received_bytes(engine)
        engine.load_weights(version)
        assert received_bytes(engine) == seen_bytes, "nothing is sent before it is needed"
        switch = engine.resize(tp)
        assert (switch.done, switch.with_weights, switch.problem) == (True, True, "")
        assert (switch.bytes_moved, switch.bytes_lower_bound) == (0, 0)
        folded_bytes = received_bytes(engine) - seen_bytes
        engine.load_weights(version)
        assert engine.resize(tp) is None
        assert received_bytes(engine) - seen_bytes == 2 * folded_bytes, "as without a switch"
        assert folded_bytes / whole_bytes == pytest.approx(2 / tp, rel=0.1)
        assert switch.drift.num_tokens > 0
        assert switch.drift.max_difference < 1e-4, "from the learner with the same weights"
        replies = engine.generate(requests)
        assert_same(replies, in_process(model, requests))
        assert {each for reply in replies for each in reply.versions} == {version}
    switch = engine.resize(2)
    assert (switch.done, switch.with_weights) == (True, False), "there were none"
    reference = make_model(seed=8)
    engine.load_reference(reference)
    renew()
    engine.load_weights(4)
    switch = engine.resize(1)
    assert (switch.done, switch.with_weights) == (True, True)
    sharded_bytes = switch.bytes_lower_bound
    assert switch.bytes_moved == sharded_bytes > 0
    columns = probe_columns([[3 + (5 * place) % 37 for place in range(12)]] * 2)
    for role, whole in (("policy", model), ("reference", reference)):
        scored = engine.score(role, columns, temperature=1.0, max_tokens=64)
        expected = score_columns(whole, columns, temperature=1.0, max_tokens=64)
        torch.testing.assert_close(scored, expected, atol=1e-4, rtol=1e-4)
    apart = engine.resize(2), engine.resize(1)
    assert [each.bytes_moved for each in apart] == [0, 2 * sharded_bytes]
    assert notes == []


def test_weights_that_arrive_wrong_are_seen_as_drift_from_the_learner(start, model, renew):
    engine, notes = start(make_rank=ForgetfulRank, on_drift="refuse", max_token_error=1.05)
    requests = requests_of(5)
    engine.generate(requests)
    renew()
    engine.load_weights(2)
    switch = engine.resize(2)
    assert (switch.done, engine.tp) == (False, 1)
    assert "is above 1.05" in switch.problem
    assert switch.drift.max_difference > 0.1
    assert notes == [], "the way back is new weights once more"
    assert_same(engine.generate(requests), in_process(model, requests))


class RefusingRank(EngineRank):
    """Finds no memory for its new shard."""

    def begin_switch(self, plan, awaited):
        received = super().begin_switch(plan, awaited)
        if self._rank == 1:
            raise ValueError("no memory for another shard")
        return received


class HalfSwitchedRank(EngineRank):
    """Refuses when others may be at the new degree."""

    def end_switch(self):
        if self._rank == 1:
            raise ValueError("no such degree")
        super().end_switch()


class EndingRank(EngineRank):
    """Ends in the middle of a switch."""

    def begin_switch(self, plan, awaited):
        if self._rank == 1:
            os._exit(1)
        return super().begin_switch(plan, awaited)


class UnwillingRank(EngineRank):
    """Refuses weights at another degree."""

    def load(self, role, version, packed):
        if self._rank == 1 and self._layout.tp == 2:
            raise ValueError("no room for these")
        super().load(role, version, packed)


class ForgetfulRank(EngineRank):
    """Loses a part of the weights that come to it at another degree."""

    def load(self, role, version, packed):
        lost = [np.zeros_like(content) for content in packed]
        super().load(role, version, lost if self._layout.tp == 2 else packed)


class DriftingRank(EngineRank):
    """Scores differently at another degree."""

    def score(self, *args):
        return super().score(*args) - 0.2 * (self._layout.tp - 1)


def test_a_switch_that_a_rank_refuses_leaves_the_old_degree_and_loses_nothing(start, model, renew):
    engine, notes = start(make_rank=RefusingRank)
    requests = requests_of(5)
    engine.generate(requests)
    for with_weights in (False, True):
        if with_weights:
            renew()
            engine.load_weights(2)
        switch = engine.resize(2)
        assert switch is not None
        assert not switch.done
        assert (switch.tp, engine.tp) == (1, 1)
        assert switch.problem == "no memory for another shard"
        assert switch.with_weights == with_weights
        assert_same(engine.generate(requests), in_process(model, requests))
    assert notes == []


class ProbedRank(EngineRank):
    """Refuses a probe of more than some tokens."""

    def score(self, role, columns, temperature, max_tokens):
        if columns.num_tokens > 24:
            raise ValueError(f"a probe of {columns.num_tokens} tokens")
        return super().score(role, columns, temperature, max_tokens)


def test_a_switch_whose_shards_do_not_fit_side_by_side_is_refused_and_the_run_goes_on(start, model):
    weights_bytes = sum(each.nbytes for each in model.parameters())
    engine, notes = start(memory_bytes=weights_bytes * 5 // 4, tp=2)
    requests = requests_of(3)
    engine.generate(requests)
    switch = engine.resize(1)
    assert switch is not None
    assert (switch.done, engine.tp) == (False, 2)
    assert f"more than its {weights_bytes * 5 // 4:,}" in switch.problem
    assert_same(engine.generate(requests), in_process(model, requests))
    (note,) = notes
    assert note.startswith(
        f"done only along with new weights, as a rank has {weights_bytes * 5 // 4:,} bytes: a "
        "change from tp 2 to tp 1 takes"
    )
    engine.load_weights(2)
    switch = engine.resize(1)
    assert (switch.done, switch.problem) == (True, "")
    assert_same(engine.generate(requests), in_process(model, requests))


def test_a_probe_is_cut_to_the_memory_that_the_weights_leave(start, model):
    weights_bytes = sum(each.nbytes for each in model.parameters())
    # A pass takes input and residual of 32 numbers and three times 48 of the MLP, or 40 logits.
    pass_bytes = max((2 * 32 + 3 * 48) * 4, 40 * 12)
    engine, _ = start(memory_bytes=weights_bytes + 24 * pass_bytes, make_rank=ProbedRank)
    engine.generate(requests_of(3, prompt_tokens=20))
    switch = engine.resize(2)
    assert switch is not None
    assert switch.problem == ""
    assert switch.drift is not None
    assert 0 < switch.drift.num_tokens < 24


@pytest.mark.parametrize(
    ("make_rank", "with_weights", "problem"),
    [
        (EndingRank, False, "gone"),
        (UnwillingRank, True, "a rank failed: no room for these"),
    ],
)
def test_a_rank_that_ends_during_a_switch_is_started_anew_at_the_old_degree(
    start, model, renew, make_rank, with_weights, problem
):
    engine, notes = start(make_rank=make_rank)
    requests = requests_of(5)
    engine.generate(requests)
    if with_weights:
        renew()
        engine.load_weights(2)
    switch = engine.resize(2)
    assert switch is not None
    assert (switch.done, switch.tp, engine.tp) == (False, 1, 1)
    assert problem in switch.problem
    assert_same(engine.generate(requests), in_process(model, requests))
    assert len(notes) == 1
    assert "starting 2 ranks anew at tp 1" in notes[0]


def test_a_rank_that_stays_behind_at_the_end_of_a_switch_means_a_new_start(start, model):
    engine, notes = start(make_rank=HalfSwitchedRank)
    requests = requests_of(5)
    engine.generate(requests)
    switch = engine.resize(2)
    assert switch is not None
    assert (switch.done, switch.tp, engine.tp) == (False, 1, 1)
    assert_same(engine.generate(requests), in_process(model, requests))
    assert len(notes) == 1
    assert "no such degree; starting 2 ranks anew at tp 1" in notes[0]


def test_nothing_to_score_has_no_logprobs(start):
    engine, _ = start()
    nothing = Columns(
        lengths=torch.zeros(0, dtype=torch.int64),
        per_token={"token_ids": torch.zeros(0, dtype=torch.int32), "mask": torch.zeros(0) > 0},
        per_row={},
    )
    assert engine.score("policy", nothing, temperature=1.0, max_tokens=64).shape == (0,)


@pytest.mark.parametrize("on_drift", ["flag", "refuse"])
def test_a_switch_that_drifts_is_flagged_or_taken_back(start, model, on_drift):
    engine, _ = start(make_rank=DriftingRank, on_drift=on_drift, max_token_error=1.05)
    requests = requests_of(5)
    engine.generate(requests)
    switch = engine.resize(2)
    assert switch is not None
    assert switch.drift is not None
    assert switch.drift.max_difference == pytest.approx(0.2, abs=1e-4)
    assert "token_mult_prob_error 1.2214 is above 1.05" in switch.problem
    assert engine.tp == switch.tp == (2 if on_drift == "flag" else 1)
    assert_same(engine.generate(requests), in_process(model, requests))


def test_ranks_that_have_no_room_for_the_way_back_are_started_anew_at_the_old_degree(start, model):
    weights_bytes = sum(each.nbytes for each in model.parameters())
    engine, notes = start(
        make_rank=DriftingRank,
        on_drift="refuse",
        max_token_error=1.05,
        memory_bytes=weights_bytes * 5 // 4,
    )
    requests = requests_of(5)
    engine.generate(requests)
    switch = engine.resize(2)
    assert switch is not None
    assert (switch.done, engine.tp) == (False, 1)
    assert "token_mult_prob_error" in switch.problem
    assert len(notes) == 2
    assert "old and new weights take" in notes[1]
    assert_same(engine.generate(requests), in_process(model, requests))


def test_a_lost_rank_is_started_anew_and_the_replies_are_the_same(start, model):
    engine, notes = start(tp=2, stop_ids=NO_STOP, max_restarts=1)
    requests = requests_of(4, new_tokens=200)
    victim = engine._ranks._started.pids()[1]
    timer = threading.Timer(0.3, os.kill, (victim, signal.SIGKILL))
    timer.start()
    replies = engine.generate(requests)
    timer.join()
    assert_same(replies, in_process(model, requests, NO_STOP))
    assert len(notes) == 1
    os.kill(engine._ranks._started.pids()[0], signal.SIGKILL)
    started_s = time.monotonic()
    with pytest.raises(LostRankError):
        engine.generate(requests)
    assert time.monotonic() - started_s < 30.0
