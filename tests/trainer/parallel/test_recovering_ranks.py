"""When ranks get weights, and what follows where one is lost; the processes are only pretended."""

import pytest
from earl_selector import DeviceSpec, MemoryModel, ModelShape, plan_reshard
from earl_trainer.parallel import recovering_ranks
from earl_trainer.parallel.blueprint import Blueprint
from earl_trainer.parallel.engine_rank import (
    POLICY,
    REFERENCE,
    EngineRank,
    RankMemory,
    RankSettings,
)
from earl_trainer.parallel.placement import Placement
from earl_trainer.parallel.ray_ranks import LostRankError
from earl_trainer.parallel.recovering_ranks import RecoveringRanks
from earl_trainer.parallel.tp_plan import list_parameters
from earl_trainer.rollout.switch import SwitchRules

DEGREES = (1, 2)
NOTHING = RankMemory(weights_bytes=0, kv_bytes=0, peak_kv_bytes=0, budget_bytes=0, received_bytes=0)


class PretendedRanks:
    """Writes down what it is called for, and is lost at methods that it is told."""

    # Made anew for each test.
    log = losses = ()

    def __init__(self, num_ranks, make_rank, *, address, shared_bytes):
        self.log.append(("start", make_rank.keywords["tp"]))

    def call(self, ranks, method, *args, timeout_s):
        return self.call_each(dict.fromkeys(ranks, args), method, timeout_s=timeout_s)

    def call_each(self, args, method, *, timeout_s):
        if method in self.losses:
            self.losses.remove(method)
            raise LostRankError(f"lost in {method}")
        if method == "load":
            role, version, packed = args[0]
            self.log.append((method, role, version, sum(each.nbytes for each in packed)))
        else:
            self.log.append((method,))
        return [NOTHING if method == "memory" else 0 for _ in args]

    def share(self, value):
        return value

    def interrupt(self):
        self.log.append(("interrupt",))

    def close(self):
        self.log.append(("close",))


@pytest.fixture
def settings(make_model):
    blueprint = Blueprint.of(make_model("tied"))
    return RankSettings(
        blueprint=blueprint,
        parameters=list_parameters(blueprint, DEGREES),
        degrees=DEGREES,
        num_ranks=2,
        stop_ids=frozenset(),
        memory_bytes=1 << 20,
        kv_bytes_per_token=dict.fromkeys(DEGREES, 64),
        num_threads=1,
        timeout_s=5.0,
    )


@pytest.fixture
def bytes_at(settings):
    """Degree -> bytes of what one rank holds."""
    return {
        tp: sum(
            spec.num_bytes // (1 if spec.sharded_dim is None else tp)
            for spec in settings.parameters
        )
        for tp in DEGREES
    }


@pytest.fixture
def make(monkeypatch, settings, make_model):
    """Make ranks; also give the notes that they write."""
    monkeypatch.setattr(recovering_ranks, "RayRanks", PretendedRanks)
    for name in ("log", "losses"):
        monkeypatch.setattr(PretendedRanks, name, [])
    model, notes = make_model("tied"), []

    def make_one(*, max_restarts=3, memory_bytes=1 << 20):
        memory = MemoryModel(
            shape=ModelShape.from_config(model.config.to_dict()),
            device=DeviceSpec.cpu(memory_bytes),
            bytes_per_parameter=4,
            bytes_per_kv_value=4,
            utilisation=1.0,
            reserve_bytes=0,
        )
        ranks = RecoveringRanks(
            model,
            settings,
            Placement(num_ranks=2, degrees=DEGREES, memory=memory),
            SwitchRules(max_restarts=max_restarts),
            tp=1,
            note=notes.append,
            make_rank=EngineRank,
        )
        return ranks, notes

    return make_one


def take_log():
    written = list(PretendedRanks.log)
    PretendedRanks.log.clear()
    return written


def ask(group):
    group.memory()
    return group.tp


def test_weights_are_sent_when_ranks_are_asked_for_something_and_once(make, bytes_at):
    ranks, _ = make()
    with pytest.raises(RuntimeError, match="load_weights starts the ranks"):
        ranks.use(ask)
    ranks.interrupt()
    ranks.publish(3)
    assert (take_log(), ranks.awaited, ranks.tp) == ([("start", 1)], (POLICY,), 1)
    assert ranks.use(ask) == 1
    assert ranks.use(ask) == 1
    assert take_log() == [("load", POLICY, 3, bytes_at[1]), ("memory",), ("memory",)]
    assert ranks.awaited == ()
    ranks.publish(4)
    ranks.publish(5)
    assert (take_log(), ranks.version) == ([], 5)
    ranks.send()
    assert take_log() == [("load", POLICY, 5, bytes_at[1])], "what was replaced is never sent"


def test_a_switch_that_comes_first_has_them_sent_to_its_own_layout(make, bytes_at, settings):
    ranks, _ = make()
    ranks.publish(3)
    plan = plan_reshard(settings.layout(1), settings.layout(2), settings.parameters)
    ranks.group.switch(plan, ranks.awaited)
    assert ranks.use(ask) == ranks.tp == 2
    loads = [each for each in take_log() if each[0] == "load"]
    assert loads == [("load", POLICY, 3, bytes_at[2])]


def test_lost_ranks_are_started_anew_with_all_weights_and_the_work_is_done_again(
    make, bytes_at, make_model
):
    ranks, notes = make(max_restarts=2)
    ranks.publish(3)
    ranks.load_reference(make_model("tied"))
    take_log()
    PretendedRanks.losses += ["load", "memory"]
    assert ranks.use(ask) == 1
    again = [
        ("close",),
        ("start", 1),
        ("load", POLICY, 3, bytes_at[1]),
        ("load", REFERENCE, 3, bytes_at[1]),
    ]
    assert take_log() == [*again, *again, ("memory",)]
    assert notes == [
        f"lost in {method}; starting 2 ranks anew at tp 1" for method in ("load", "memory")
    ]
    assert ranks.num_models == 2
    PretendedRanks.losses.append("memory")
    with pytest.raises(LostRankError, match="lost in memory"):
        ranks.use(ask)
    assert len(notes) == 2


def test_a_new_start_that_fails_counts_as_one(make):
    ranks, notes = make(max_restarts=2)
    ranks.publish(3)
    PretendedRanks.losses += ["load", "load", "load"]
    with pytest.raises(LostRankError, match="lost in load"):
        ranks.use(ask)
    assert len(notes) == 2


def test_a_new_start_may_be_at_another_degree(make, bytes_at):
    ranks, _ = make()
    ranks.publish(3)
    take_log()
    ranks.restart(LostRankError("a rank is gone"), tp=2)
    assert take_log() == [("close",), ("start", 2), ("load", POLICY, 3, bytes_at[2])]
    assert (ranks.tp, ranks.awaited) == (2, ())
    ranks.interrupt()
    ranks.close()
    assert (take_log(), ranks.tp) == ([("interrupt",), ("close",)], 2)
    ranks.close()
    assert take_log() == []
