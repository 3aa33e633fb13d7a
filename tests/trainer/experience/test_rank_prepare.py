"""Experience preparation on ranks, with ranks that only count and a clock that only they move."""

import json

import pytest
import torch
from earl_dispatch import Columns
from earl_selector import (
    Deployment,
    DeviceSpec,
    ModelShape,
    ProfileSubject,
    ScoringMemory,
    SelectorPolicy,
)
from earl_trainer.experience.rank_prepare import RankPreparer
from earl_trainer.experience.scoring_profile import measure_scoring, with_table
from earl_trainer.rollout.switch import Switch

SUBJECT = ProfileSubject(model="tiny", device="cpu", engine="fake")


class FakeRanks:
    """Two ranks that score at given speeds; a log-prob is minus the token, and the role's."""

    def __init__(self, tokens_per_s, *, switch_s=0.01, refused_tp=None):
        self.tp = 1
        self.now_s = 0.0
        self.calls = []
        self.wanted = []
        self._tokens_per_s = tokens_per_s
        self._switch_s = switch_s
        self._refused_tp = refused_tp

    def clock(self):
        return self.now_s

    def resize(self, tp):
        if tp == self.tp:
            return None
        self.wanted.append(tp)
        old, self.tp = self.tp, self.tp if tp == self._refused_tp else tp
        return Switch(from_tp=old, to_tp=tp, tp=self.tp, switch_s=self._switch_s)

    def score(self, role, columns, *, temperature, max_tokens):
        longest = int(columns.lengths.max())
        self.calls.append((role, self.tp, temperature, max_tokens))
        self.now_s += columns.num_tokens / self._tokens_per_s(self.tp, longest)
        sign = 1.0 if role == "policy" else 2.0
        return -sign * columns.per_token["token_ids"].float() * columns.per_token["mask"]


@pytest.fixture
def policy():
    shape = ModelShape.from_config({
        "model_type": "llama",
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "vocab_size": 40,
        "tie_word_embeddings": True,
    })
    memory = ScoringMemory(
        shape=shape, device=DeviceSpec.cpu(4 << 20), bytes_per_parameter=4, utilisation=1.0
    )
    return SelectorPolicy(
        memory=memory,
        degrees=(1, 2),
        num_devices=2,
        max_context_tokens=64,
        num_responses=4,
        deployment=Deployment.SHARING,
        returns=True,
    )


def columns_of(length, rows=4):
    num_tokens = length * rows
    return Columns(
        lengths=torch.full((rows,), length),
        per_token={
            "token_ids": torch.arange(num_tokens, dtype=torch.int32),
            "mask": torch.arange(num_tokens) % 2 == 0,
        },
        per_row={"reward": torch.zeros(rows)},
    )


def prefer_short(tp, longest):
    """Degree 1 is the faster one for short rows, degree 2 for long ones."""
    return {1: 1000.0 if longest <= 16 else 50.0, 2: 400.0}[tp]


def test_every_model_gives_its_column_and_others_stay(policy):
    ranks = FakeRanks(prefer_short)
    preparer = RankPreparer(
        ranks,
        {"old_logprobs": "policy", "reference_logprobs": "reference"},
        policy,
        temperature=0.7,
        max_tokens=100,
        clock=ranks.clock,
    )
    columns = columns_of(8)
    prepared = preparer.prepare(columns)
    mask, ids = columns.per_token["mask"], columns.per_token["token_ids"]
    assert torch.equal(prepared.per_token["old_logprobs"], -ids.float() * mask)
    assert torch.equal(prepared.per_token["reference_logprobs"], -2.0 * ids * mask)
    assert torch.equal(prepared.per_token["token_ids"], ids)
    assert torch.equal(prepared.per_row["reward"], columns.per_row["reward"])
    assert [call[0] for call in ranks.calls] == ["policy", "reference"]
    assert {call[2:] for call in ranks.calls} == {(0.7, 100)}
    assert (
        RankPreparer(ranks, {}, policy, temperature=1.0, max_tokens=9).prepare(columns) is columns
    )


@pytest.mark.parametrize(
    ("speeds", "best"), [({1: 1000.0, 2: 400.0}, 1), ({1: 200.0, 2: 400.0}, 2)]
)
def test_the_degree_is_that_which_the_table_says_is_fastest(policy, speeds, best):
    ranks, notes = FakeRanks(lambda tp, longest: speeds[tp] / (2.0 if longest > 16 else 1.0)), []
    table = measure_scoring(
        ranks,
        policy,
        SUBJECT,
        role="policy",
        context_tokens=(8, 16, 32, 64),
        max_tokens=256,
        clock=ranks.clock,
    )
    # Two engines at degree 1, one at degree 2: of two devices either way.
    rates = {point.key: point.tokens_per_s_per_device for point in table.points}
    assert rates[1, 4, 16] == pytest.approx(speeds[1] / 2)
    assert rates[1, 4, 64] == pytest.approx(speeds[1] / 4)
    assert rates[2, 4, 8] == pytest.approx(speeds[2] / 2)
    ranks.resize(3 - best)
    preparer = RankPreparer(
        ranks,
        {"old_logprobs": "policy"},
        with_table(policy, table),
        temperature=1.0,
        max_tokens=256,
        note=notes.append,
        clock=ranks.clock,
    )
    for length in (8, 16, 64):
        preparer.prepare(columns_of(length))
    assert ranks.tp == best
    assert len(notes) == 1
    assert notes[0].startswith(f"preparation: tp {3 - best} -> {best}")
    assert preparer.figures["selector/prepare_tp"] == best
    assert preparer.figures["time/prepare_score_s"] == pytest.approx(256 / (speeds[best] / 2))
    assert preparer.figures["time/prepare_predicted_s"] > 0.0


def test_a_pass_holds_no_more_tokens_than_fit_the_ranks(policy):
    ranks = FakeRanks(prefer_short)
    preparer = RankPreparer(
        ranks,
        {"old_logprobs": "policy"},
        policy,
        temperature=1.0,
        max_tokens=10**9,
        clock=ranks.clock,
    )
    preparer.prepare(columns_of(8))
    (_, tp, _, max_tokens) = ranks.calls[0]
    assert max_tokens == policy.memory.capacity_tokens(tp)


def test_a_row_that_does_not_fit_a_pass_is_one_all_the_same(policy):
    ranks = FakeRanks(prefer_short)
    preparer = RankPreparer(
        ranks,
        {"old_logprobs": "policy"},
        policy,
        temperature=1.0,
        max_tokens=9,
        clock=ranks.clock,
    )
    preparer.prepare(columns_of(12))
    assert [call[3] for call in ranks.calls] == [12]


def measured(ranks, policy):
    return measure_scoring(
        ranks,
        policy,
        SUBJECT,
        role="policy",
        context_tokens=(8, 16, 32, 64),
        max_tokens=256,
        clock=ranks.clock,
    )


def prepare_after_rollouts(ranks, policy, *, rollout_tp, num_steps):
    """Prepare some steps, each after a rollout at a degree of its own; return what each took."""
    preparer = RankPreparer(
        ranks,
        {"old_logprobs": "policy"},
        policy,
        temperature=1.0,
        max_tokens=256,
        clock=ranks.clock,
    )
    degrees = []
    for _ in range(num_steps):
        ranks.resize(rollout_tp)
        preparer.prepare(columns_of(64))
        degrees.append(ranks.tp)
    return degrees


@pytest.mark.parametrize(("switch_s", "prepare_tp"), [(0.4, 1), (0.3, 2)])
def test_every_step_pays_for_the_way_there_and_back(policy, switch_s, prepare_tp):
    # 256 tokens take 1.28 s at tp 1 and 0.64 s at tp 2.
    ranks = FakeRanks(lambda tp, longest: 200.0 * tp, switch_s=switch_s)
    table = measured(ranks, policy)
    assert table.switch_s == pytest.approx(switch_s)
    assert ranks.wanted == [2, 1], "there and back"
    degrees = prepare_after_rollouts(ranks, with_table(policy, table), rollout_tp=1, num_steps=12)
    assert set(degrees) == {prepare_tp}


def test_the_speed_is_calibrated_at_the_degree_that_the_step_was_prepared_at(policy):
    # Counted at the other degree, scoring would seem twice as fast, and not worth the way.
    ranks = FakeRanks(lambda tp, longest: 200.0 * tp, switch_s=0.2)
    degrees = prepare_after_rollouts(
        ranks, with_table(policy, measured(ranks, policy)), rollout_tp=1, num_steps=12
    )
    assert degrees == [2] * 12


def test_a_degree_that_the_ranks_do_not_take_is_not_asked_for_again(policy):
    ranks = FakeRanks(lambda tp, longest: 200.0 * tp)
    table = measured(ranks, policy)
    ranks.wanted.clear()
    ranks._refused_tp = 2
    prepare_after_rollouts(ranks, with_table(policy, table), rollout_tp=1, num_steps=12)
    assert ranks.wanted == [2]


def test_more_rows_than_were_measured_are_expected_to_take_as_long_each(policy):
    table = measured(FakeRanks(lambda tp, longest: 200.0), policy)
    (rows,), speed = table.grid.num_responses, with_table(policy, table).throughput
    few, many = (speed.tokens_per_s_per_device(1, rows * times, 64) for times in (1, 1000))
    assert few / 2 < many < 2 * few


def test_a_stage_that_goes_on_decides_as_if_it_had_never_stopped(policy):
    def make(ranks):
        return RankPreparer(
            ranks,
            {"old_logprobs": "policy"},
            with_table(policy, measured(FakeRanks(lambda tp, longest: 200.0 * tp), policy)),
            temperature=1.0,
            max_tokens=256,
            clock=ranks.clock,
        )

    # Far slower at degree 2 than its table says, which is learned at the first step.
    ranks = FakeRanks(lambda tp, longest: 200.0 if tp == 1 else 100.0, refused_tp=2)
    first = make(ranks)
    first.prepare(columns_of(64))
    assert ranks.wanted == [2]
    resumed = make(ranks)
    resumed.restore(json.loads(json.dumps(first.to_dict())))
    resumed.prepare(columns_of(64))
    assert ranks.wanted == [2], "what was refused is remembered"
    assert resumed.to_dict()["num_steps"] == 2
    anew = make(ranks)
    anew.restore({})
    anew.prepare(columns_of(64))
    assert ranks.wanted == [2, 2]
