"""What is made of switches of the embedded engine, with one that only pretends."""

from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest
from earl_trainer.rollout.drift import Drift
from earl_trainer.rollout.engine import Completion, FinishReason
from earl_trainer.rollout.switch import Switch

SMALL = Drift(num_tokens=4, mean_difference=1e-6, max_difference=2e-6, token_mult_prob_error=1.0)


@pytest.fixture
def tool(load_tool):
    return load_tool("selector_engine")


@pytest.fixture
def model(tool):
    return tool.make_model()


class PretendedEngine:
    """Replies alike at every degree; holds what fits `memory_bytes` at degree 1, and twice that."""

    def __init__(self, memory, tp):
        self.memory_model = memory
        self.tp = tp
        self.drift = SMALL
        self.first_id = 7
        self.version = self.sent = self.received_bytes = 0

    def load_weights(self, version):
        self.version = version

    def generate(self, requests):
        longest = max(len(each.prompt_ids) + each.max_new_tokens for each in requests)
        if longest > self.memory_model.capacity_tokens(self.tp):
            raise ValueError(f"a context of {longest} tokens")
        ids = [self.first_id, 8]
        return [
            Completion(
                ids=ids, logprobs=[-1.0, -2.0], versions=[0, 0], finish_reason=FinishReason.LENGTH
            )
            for _ in requests
        ]

    def resize(self, tp):
        old, self.tp = self.tp, tp
        with_weights, self.sent = self.sent < self.version, self.version
        moved = 100 if tp < old and not with_weights else 0
        self.received_bytes += moved + 1000 // tp * with_weights
        if tp == old:
            return None
        return Switch(
            from_tp=old,
            to_tp=tp,
            tp=tp,
            switch_s=0.01,
            with_weights=with_weights,
            bytes_moved=moved,
            bytes_lower_bound=moved,
            drift=self.drift,
        )

    def memory(self):
        rank = SimpleNamespace(
            weights_bytes=10, peak_kv_bytes=20, received_bytes=self.received_bytes
        )
        return [rank]


@pytest.fixture
def started(tool, monkeypatch):
    """List the engines that were started."""
    engines = []

    @contextmanager
    def running(model, memory_bytes, *, tp=1):
        engines.append(PretendedEngine(tool.memory_of(model, memory_bytes), tp))
        yield engines[-1]

    monkeypatch.setattr(tool, "running", running)
    return engines


def test_switches_go_there_and_back_and_figures_hold(tool, model, started):
    rows, identical = tool.measure_switches(model, num_rounds=2)
    assert [(row["from_tp"], row["to_tp"]) for row in rows] == [(1, 2), (2, 1)] * 2
    assert identical
    cold_s = tool.measure_cold_start_s(model, num_rounds=2)
    assert [each.tp for each in started] == [1, 2, 2], "one to switch, and two cold starts"
    overflow = tool.measure_overflow(model)
    assert (overflow["truncated"], overflow["contexts"]) == (0, 8)
    assert "at tp 1: a context of 400 tokens" in overflow["note"]
    slow = [100.0 * max(row["first_token_s"] for row in rows)] * len(cold_s)
    figures = tool.make_figures(rows, slow, overflow, identical=identical)
    assert [name for name, each in figures.items() if not each.to_dict()["holds"]] == []
    assert figures["switch_1_to_2"].value < figures["cold_start"].value


def test_a_degree_that_does_not_end_as_it_began_is_seen(tool, model, started, monkeypatch):
    def change(self, tp):
        self.first_id += 1
        return original(self, tp)

    original = PretendedEngine.resize
    monkeypatch.setattr(PretendedEngine, "resize", change)
    rows, identical = tool.measure_switches(model, num_rounds=1)
    assert not identical
    assert sum(row["identical"] for row in rows) == 0


@pytest.mark.parametrize("fault", ["refused", "unprobed"])
def test_a_switch_that_proves_nothing_ends_the_measurement(
    fault, tool, model, started, monkeypatch
):
    def resize(self, tp):
        switch = original(self, tp)
        if fault == "refused":
            return replace(switch, tp=switch.from_tp, problem="no room")
        return replace(switch, drift=None)

    original = PretendedEngine.resize
    monkeypatch.setattr(PretendedEngine, "resize", resize)
    with pytest.raises(RuntimeError, match="tp 1 -> 2"):
        tool.measure_switches(model, num_rounds=1)


def test_new_weights_are_sent_with_and_without_a_switch_to_the_same_degrees(tool, model, started):
    rows = tool.measure_publication(model, num_rounds=2)
    assert [row["to_tp"] for row in rows] == [2, 1, 2, 1]
    assert [row["publication_bytes"] for row in rows] == [500, 1000] * 2
    assert [row["publication_with_switch_bytes"] for row in rows] == [500, 1000] * 2
    figures = tool.make_publication_figures(rows)
    assert [name for name, each in figures.items() if not each.to_dict()["holds"]] == []
    rows[1]["publication_with_switch_bytes"] = 1500
    rows[0]["publication_with_switch_bytes"] = 250
    ratio = tool.make_publication_figures(rows)["publication_with_switch_over_publication"]
    assert (ratio.value, ratio.to_dict()["holds"]) == (1.5, False), "the worst counts"


def test_a_switch_that_did_not_take_the_weights_along_ends_the_measurement(
    tool, model, started, monkeypatch
):
    original = PretendedEngine.resize
    monkeypatch.setattr(
        PretendedEngine,
        "resize",
        lambda self, tp: (original(self, self.tp), original(self, tp))[1],
    )
    with pytest.raises(RuntimeError, match="no switch with new weights"):
        tool.measure_publication(model, num_rounds=1)


def test_goals_that_are_missed_show(tool):
    row = {
        "from_tp": 1,
        "to_tp": 2,
        "first_token_s": 1.0,
        "bytes_moved": 4,
        "bytes_lower_bound": 0,
        "probe_max_difference": 1e-3,
        "replies": 4,
        "identical": 2,
        "tied": 1,
    }
    down = {**row, "from_tp": 2, "to_tp": 1, "first_token_s": 2.0, "bytes_lower_bound": 4}
    overflow = {"truncated": 1, "most_held_bytes": 11, "budget_bytes": 10}
    figures = tool.make_figures([row, down], [8.0, 9.0, 20.0], overflow, identical=False)
    assert figures["cold_start_over_switch"].value == 4.5, "median over the slower of both ways"
    missed = {name for name, each in figures.items() if not each.to_dict()["holds"]}
    assert missed == {
        "same_or_tied_replies",
        "max_logprob_difference",
        "back_at_tp_1_bit_for_bit",
        "moved_over_lower_bound",
        "moved_upward",
        "cold_start_over_switch",
        "truncated_at_tp_2",
        "held_over_budget",
    }
