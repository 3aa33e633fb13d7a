"""What is asked of ranks, which here only write it down."""

import pytest
import torch
from earl_dispatch import Columns
from earl_selector import DeviceSpec, MemoryModel, ModelShape, plan_reshard
from earl_trainer.parallel.blueprint import Blueprint
from earl_trainer.parallel.engine_rank import POLICY, RankSettings
from earl_trainer.parallel.exchange import pack_shards
from earl_trainer.parallel.placement import Placement
from earl_trainer.parallel.rank_group import RankGroup
from earl_trainer.parallel.ray_ranks import LostRankError
from earl_trainer.parallel.tp_plan import list_parameters
from earl_trainer.rollout.engine import Completion, FinishReason, Request
from earl_trainer.rollout.switch import SwitchRules


class WrittenRanks:
    """Replies to a request with its sequence and scores a token with its id."""

    def __init__(self):
        self.calls = []
        self.refused = set()

    def call(self, ranks, method, *args, timeout_s):
        return self.call_each(dict.fromkeys(ranks, args), method, timeout_s=timeout_s)

    def call_each(self, args, method, *, timeout_s):
        self.calls.append((method, dict(args), timeout_s))
        if method in self.refused:
            raise ValueError(f"no {method}")
        return [self._answer(method, own) for own in args.values()]

    def share(self, value):
        return value

    def _answer(self, method, args):
        if method == "generate":
            return [
                Completion(
                    ids=[each.sequence_id],
                    logprobs=[0.0],
                    versions=[0],
                    finish_reason=FinishReason.STOP,
                )
                for each in args[0]
            ]
        if method == "score":
            return args[1].per_token["token_ids"].float()
        return 10 if method == "begin_switch" else None


@pytest.fixture
def ranks():
    return WrittenRanks()


@pytest.fixture
def make_group(ranks, make_model):
    def make(*, tp, shares=True, num_ranks=4):
        model = make_model("tied")
        blueprint, degrees = Blueprint.of(model), (1, 2, 4)
        settings = RankSettings(
            blueprint=blueprint,
            parameters=list_parameters(blueprint, degrees),
            degrees=degrees,
            num_ranks=num_ranks,
            stop_ids=frozenset(),
            memory_bytes=1 << 20,
            kv_bytes_per_token=dict.fromkeys(degrees, 64),
            num_threads=1,
            timeout_s=5.0,
        )
        memory = MemoryModel(
            shape=ModelShape.from_config(model.config.to_dict()),
            device=DeviceSpec.cpu(1 << 20),
            bytes_per_parameter=4,
            bytes_per_kv_value=4,
            utilisation=1.0,
            reserve_bytes=0,
        )
        placement = Placement(num_ranks=num_ranks, degrees=degrees, memory=memory, shares=shares)
        rules = SwitchRules(timeout_s=5.0, generate_timeout_s=50.0)
        return RankGroup(ranks, settings, placement, rules, tp=tp), settings, model

    return make


def ask(sequence_id):
    return Request(
        sequence_id=sequence_id, prompt_ids=[1], max_new_tokens=1, temperature=1.0, seed=0
    )


def asked_of(args):
    return {rank: [each.sequence_id for each in own[0]] for rank, own in args.items()}


def test_conversations_are_spread_over_the_engines_and_stay_with_theirs(ranks, make_group):
    group, _, _ = make_group(tp=2)
    sequences = [5, 0, 1, 2, 3, 4]
    replies = group.generate([ask(each) for each in sequences])
    assert [list(reply.ids) for reply in replies] == [[each] for each in sequences]
    (method, args, timeout_s) = ranks.calls[0]
    assert (method, timeout_s) == ("generate", 50.0)
    # In turn, but the other way round in every other turn, so that each seat of two is spread.
    assert asked_of(args) == {0: [0, 3, 4], 1: [0, 3, 4], 2: [5, 1, 2], 3: [5, 1, 2]}
    group.generate([ask(3)])
    assert asked_of(ranks.calls[1][1]) == {0: [3], 1: [3]}


def test_a_single_engine_has_all_conversations(ranks, make_group):
    group, _, _ = make_group(tp=2, shares=False)
    group.generate([ask(each) for each in (0, 1)])
    assert asked_of(ranks.calls[0][1]) == {0: [0, 1], 1: [0, 1]}


@pytest.mark.parametrize("tp", [1, 2, 4])
@pytest.mark.parametrize("num_rows", [1, 3, 7])
def test_rows_are_divided_by_length_and_come_back_in_their_order(ranks, make_group, tp, num_rows):
    group, _, _ = make_group(tp=tp, shares=False)
    lengths = torch.arange(num_rows) % 3 + 2
    num_tokens = int(lengths.sum())
    columns = Columns(
        lengths=lengths,
        per_token={
            "token_ids": torch.arange(num_tokens, dtype=torch.int32),
            "mask": torch.ones(num_tokens, dtype=torch.bool),
            "other": torch.zeros(num_tokens),
        },
        per_row={},
    )
    scored = group.score(POLICY, columns, temperature=0.7, max_tokens=64)
    assert torch.equal(scored, torch.arange(num_tokens).float())
    (_, args, _) = ranks.calls[0]
    assert len(args) == min(4 // tp, num_rows) * tp, "idle engines are not asked"
    assert {tuple(own[1].per_token) for own in args.values()} == {("token_ids", "mask")}
    nothing = columns.select([])
    assert group.score(POLICY, nothing, temperature=0.7, max_tokens=64).shape == (0,)


@pytest.mark.parametrize(("shares", "engines"), [(True, [[0, 1], [2, 3]]), (False, [[0, 1]])])
def test_a_probe_is_scored_by_every_engine_that_generates(ranks, make_group, shares, engines):
    group, _, _ = make_group(tp=2, shares=shares)
    assert group.score_probe([[7, 8, 9], [3, 4]]) == [[[8.0, 9.0], [4.0]]] * len(engines)
    assert list(ranks.calls[0][1]) == [rank for engine in engines for rank in engine]
    assert group.score_probe([]) == []
    assert len(ranks.calls) == 1


def test_each_rank_gets_what_it_holds(ranks, make_group):
    group, settings, model = make_group(tp=2)
    group.load(POLICY, 3, model)
    (_, args, _) = ranks.calls[0]
    layout, parameters = settings.layout(2), dict(model.named_parameters())
    for rank in range(4):
        role, version, packed = args[rank]
        assert (role, version) == (POLICY, 3)
        expected = pack_shards(parameters, settings.parameters, layout, rank)
        assert [content.tobytes() for content in packed] == [each.tobytes() for each in expected]


def test_a_switch_is_taken_into_use_by_all_or_by_none(ranks, make_group):
    group, settings, _ = make_group(tp=2)
    plan = plan_reshard(settings.layout(2), settings.layout(1), settings.parameters)
    ranks.refused = {"begin_switch"}
    with pytest.raises(ValueError, match="no begin_switch"):
        group.switch(plan, ())
    assert group.tp == 2
    assert [method for method, _, _ in ranks.calls] == [
        "check_switch",
        "begin_switch",
        "abandon_switch",
    ]
    ranks.refused = {"end_switch"}
    with pytest.raises(LostRankError, match="a rank failed: no end_switch"):
        group.switch(plan, ())
    assert group.tp == 2
    ranks.refused, ranks.calls = set(), []
    assert (group.switch(plan, (POLICY,)), group.tp) == (40, 1)
    told = [(method, args[3]) for method, args, _ in ranks.calls]
    assert told == [
        ("check_switch", (plan, (POLICY,))),
        ("begin_switch", (plan, (POLICY,))),
        ("end_switch", ()),
    ]


def test_a_rank_that_does_not_take_its_weights_is_as_good_as_lost(ranks, make_group):
    group, _, model = make_group(tp=2)
    ranks.refused = {"load"}
    with pytest.raises(LostRankError, match="a rank failed: no load"):
        group.load(POLICY, 3, model)
