"""What holds for a pipeline, event by event and over a run."""

from dataclasses import replace
from itertools import pairwise
from math import inf

import pytest
from earl_trainer.planning.lengths import EmpiricalLengths, LogNormalLengths
from earl_trainer.planning.model import PipelineModel
from earl_trainer.planning.pipeline import Pipeline, simulate
from hypothesis import given, settings
from hypothesis import strategies as st

ALIKE = LogNormalLengths(median_tokens=100, tail_ratio=1, max_tokens=100)
LONG_TAIL = LogNormalLengths(median_tokens=100, tail_ratio=8, max_tokens=1000)
STRAGGLERS = EmpiricalLengths(groups=((100, 100),) * 49 + ((6000, 100),))
"""A group of 50 takes 60 times as long."""
MODEL = PipelineModel(
    lengths=ALIKE,
    batch_groups=4,
    group_size=2,
    num_rollout_devices=2,
    num_training_devices=1,
    slots_per_device=400,
    decode_s=0.1,
    decode_s_per_sequence=0.0,
    training_s_per_token=0.0025,
)
"""A batch of 800 tokens takes 10 s to generate, however many are in flight, and 2 s to train."""


@settings(max_examples=30, deadline=None)
@given(
    num_tokens=st.integers(1, 500),
    batch_groups=st.integers(1, 6),
    group_size=st.integers(1, 5),
    num_rollout_devices=st.integers(1, 4),
    num_training_devices=st.integers(1, 4),
    decode_s_per_sequence=st.floats(0.0, 0.1),
    publication_s=st.floats(0.0, 5.0),
)
def test_eta_zero_is_generation_training_and_publication_in_turn(
    num_tokens, decode_s_per_sequence, publication_s, **counts
):
    model = replace(
        MODEL,
        lengths=replace(ALIKE, median_tokens=num_tokens, max_tokens=num_tokens),
        decode_s_per_sequence=decode_s_per_sequence,
        publication_s=publication_s,
        **counts,
    )
    num_sequences = counts["batch_groups"] * counts["group_size"]
    per_device = num_sequences / counts["num_rollout_devices"]
    generation_s = num_tokens * (0.1 + decode_s_per_sequence * per_device)
    training_s = num_tokens * num_sequences * 0.0025 / counts["num_training_devices"]
    step_s = generation_s + training_s + publication_s
    figures = simulate(model, 0, 4, 0)

    assert figures.trained_tokens_per_s == pytest.approx(num_tokens * num_sequences / step_s)
    assert figures.generated_tokens_per_s == pytest.approx(figures.trained_tokens_per_s)
    assert figures.training_idle_share == pytest.approx(1 - training_s / step_s)
    idle_devices = max(0, 1 - per_device)
    rollout_idle = (step_s - generation_s) / step_s + idle_devices * generation_s / step_s
    assert figures.rollout_idle_share == pytest.approx(rollout_idle)
    assert set(figures.staleness) == {0}


def test_without_enough_slots_a_batch_comes_in_waves():
    # 8 sequences on 4 slots: two waves of 100 tokens, 2 sequences on each device.
    model = replace(MODEL, slots_per_device=2, decode_s_per_sequence=0.01)
    assert simulate(model, 0, 4, 0).trained_tokens_per_s == pytest.approx(800 / (2 * 12 + 2))


@pytest.mark.parametrize("eta", [0, 1, 2, 4, 8])
def test_eta_plus_one_batches_share_the_time_of_one_until_training_is_the_limit(eta):
    # With lengths all alike, generation of 10 s and training of 2 s: 12 s for eta + 1 batches.
    figures = simulate(MODEL, eta, 8 * (eta + 1), 0)
    assert 800 / figures.trained_tokens_per_s == pytest.approx(max(2, 12 / (eta + 1)))


def test_unbounded_training_never_waits_and_staleness_grows_with_the_queue():
    model = replace(MODEL, publication_s=0.5)
    figures = simulate(model, inf, 40, 0)
    assert 800 / figures.trained_tokens_per_s == pytest.approx(2.5)
    assert figures.training_idle_share == pytest.approx(0.2)
    assert figures.mean_staleness > simulate(model, inf, 20, 0).mean_staleness > 2


def test_the_oldest_groups_are_trained_first():
    # All lengths alike and training the limit: a batch waits until the three before it are done.
    assert set(simulate(replace(MODEL, decode_s=0.001), 3, 20, 0).staleness) == {3}


@settings(max_examples=20, deadline=None)
@given(
    eta=st.sampled_from([0, 1, 3, inf]),
    batch_groups=st.integers(1, 5),
    slots_per_device=st.integers(2, 20),
    strict=st.booleans(),
    interruption=st.booleans(),
    publication_s=st.sampled_from([0.0, 3.0]),
    seed=st.integers(0, 2**31),
)
def test_nothing_is_lost_or_made_and_admission_holds_at_every_event(eta, seed, **changes):
    pipeline = Pipeline(replace(MODEL, lengths=LONG_TAIL, **changes), eta, seed)
    size = changes["batch_groups"]
    for _ in range(300):
        pipeline.step()
        held = pipeline.consumed + pipeline.queued + pipeline.running
        assert pipeline.submitted == held
        assert (pipeline.submitted - 1) // size <= pipeline.version + eta
        assert pipeline.consumed in (pipeline.version * size, (pipeline.version + 1) * size)
        assert pipeline.running <= 2 * changes["slots_per_device"]
    assert pipeline.submitted > 0


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**31))
def test_throughput_rises_with_eta(seed):
    model = replace(
        MODEL, lengths=LONG_TAIL, batch_groups=16, decode_s_per_sequence=0.0005, publication_s=1.0
    )
    rates = [simulate(model, eta, 40, seed).trained_tokens_per_s for eta in (0, 1, 2, 4, 8, inf)]
    for low, high in pairwise(rates):
        assert high > 0.98 * low
    assert rates[1] > 1.3 * rates[0]


@pytest.mark.parametrize("eta", [1, 2, 4])
def test_only_the_strict_policy_bounds_staleness_where_some_groups_are_slow(eta):
    model = replace(MODEL, lengths=STRAGGLERS, batch_groups=8)
    assert simulate(replace(model, strict=True), eta, 200, 0).max_staleness == eta
    assert simulate(model, eta, 200, 0).max_staleness > 2 * eta


def test_the_strict_policy_pays_with_throughput():
    model = replace(MODEL, lengths=STRAGGLERS, batch_groups=8)
    strict, oldest = (
        simulate(replace(model, strict=strict), 4, 200, 0).trained_tokens_per_s
        for strict in (True, False)
    )
    assert oldest > 1.5 * strict


def test_at_eta_zero_all_policies_are_one():
    model = replace(MODEL, lengths=LONG_TAIL, publication_s=1.0)
    plain = simulate(model, 0, 20, 0)
    assert simulate(replace(model, strict=True), 0, 20, 0) == plain
    assert simulate(replace(model, interruption=False), 0, 20, 0) == plain


def test_interruption_gains_where_tails_are_long():
    model = replace(MODEL, lengths=LONG_TAIL, batch_groups=16)
    gains = [
        simulate(each, 4, 60, 0).trained_tokens_per_s
        / simulate(replace(each, interruption=False), 4, 60, 0).trained_tokens_per_s
        for each in (replace(model, lengths=replace(LONG_TAIL, tail_ratio=1.5)), model)
    ]
    assert gains[0] > 1.1
    assert gains[1] > 1.5 * gains[0]


def test_contexts_in_flight_are_read_again_after_an_interruption():
    model = replace(MODEL, lengths=LONG_TAIL)
    free, dear = (
        simulate(replace(model, prefill_s_per_token=each), 1, 40, 0).trained_tokens_per_s
        for each in (0.0, 0.01)
    )
    assert dear < 0.97 * free
    assert simulate(replace(model, prefill_s_per_token=0.01), 0, 20, 0) == simulate(model, 0, 20, 0)


def test_reading_again_takes_the_tokens_in_flight_of_a_device():
    lengths = EmpiricalLengths(groups=((100, 1000),))
    model = replace(
        MODEL, lengths=lengths, batch_groups=1, training_s_per_token=0.001, prefill_s_per_token=0.05
    )
    pipeline = Pipeline(model, 1, 0)
    while pipeline.version < 1:
        pipeline.step()
    # Two groups began together; both end after 100 s; 1.1 s of training, nothing in flight.
    assert pipeline.totals.elapsed_s == pytest.approx(101.1)
    while pipeline.version < 2:
        pipeline.step()
    # The third began at 101.1 s; at 102.2 s its two sequences have 11 tokens each, 11 a device.
    assert pipeline.totals.elapsed_s == pytest.approx(102.2)
    while pipeline.version < 3:
        pipeline.step()
    # It ends 100 s after it began, later by 11 tokens of 0.05 s, and is trained in 1.1 s.
    assert pipeline.totals.elapsed_s == pytest.approx(101.1 + 100 + 0.55 + 1.1)


@pytest.mark.parametrize("eta", [2, inf])
def test_without_interruption_nothing_is_in_flight_when_weights_change(eta):
    model = replace(MODEL, lengths=LONG_TAIL, interruption=False, slots_per_device=20)
    pipeline = Pipeline(model, eta, 0)
    for _ in range(2000):
        before = pipeline.version
        pipeline.step()
        assert pipeline.version == before or pipeline.running == 0
    assert pipeline.version > 5


def test_a_seed_fixes_everything():
    model = replace(MODEL, lengths=LONG_TAIL)
    assert simulate(model, 2, 20, 7) == simulate(model, 2, 20, 7)
    assert simulate(model, 2, 20, 7) != simulate(model, 2, 20, 8)


@pytest.mark.parametrize(
    ("eta", "num_steps", "message"),
    [
        (-1, 4, "eta must be a whole number >= 0 or inf, got -1"),
        (1.5, 4, "eta must be a whole number >= 0 or inf, got 1.5"),
        (float("nan"), 4, "eta must be a whole number >= 0 or inf, got nan"),
        (1, 1, "num_steps must be >= 2, got 1"),
    ],
)
def test_what_means_nothing_is_refused(eta, num_steps, message):
    with pytest.raises(ValueError, match=message):
        simulate(MODEL, eta, num_steps, 0)
