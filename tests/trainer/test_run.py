"""Where a run stands, and what it keeps."""

import json
from dataclasses import replace

import pytest
import torch
from earl_selector import ContextReport, SelectorState
from earl_trainer.loop import train
from earl_trainer.rollout.switch import Switch
from earl_trainer.types import NonFiniteWeightsError
from transformers import AutoModelForCausalLM, AutoTokenizer


def test_an_engine_that_is_not_asked_gets_no_weights(tmp_path, small_config, open_run):
    run, loads = open_run(small_config(), tmp_path), []
    load = run.engine.load_weights

    def note_and_load(version):
        loads.append(version)
        load(version)

    run.engine.load_weights = note_and_load
    run.begin()
    train(run)
    run.tracker.close()
    # Six steps of warm-up, in which scripts play, then a match and four steps that it plays itself.
    assert loads == [0, 6, 7, 8, 9, 10]
    rows = map(json.loads, (tmp_path / "metrics.jsonl").read_text().splitlines())
    assert {row["staleness/max"] for row in rows if "staleness/max" in row} <= {0.0}


REPORT = ContextReport(
    step=5,
    num_responses=8,
    mean_context_tokens=30.0,
    max_context_tokens=40,
    resident_tokens=240,
)


def test_the_first_step_of_a_phase_is_forecast_with_its_number_of_episodes(
    tmp_path, small_config, open_run
):
    run = open_run(small_config({"warmup": {"num_episodes": 8}}), tmp_path)
    run.tracker.close()
    run.state.selector, run.state.report = SelectorState(tp=1, reports=()), REPORT
    run.state.step = 6
    assert run.decide(16).decision.forecast_tokens == 480
    run.state.step = 7
    assert run.decide(16).decision.forecast_tokens == 240, "later on, as many as in the last step"


class StubbornEngine:
    """Stays at degree 1."""

    version, tp, capacity_tokens = 0, 1, 1000

    def __init__(self, problem):
        self._problem = problem

    def resize(self, tp):
        if tp == self.tp:
            return None
        return Switch(from_tp=1, to_tp=tp, tp=1, switch_s=0.1, problem=self._problem)


def test_a_degree_that_the_engine_did_not_take_is_remembered_and_said_once(
    tmp_path, small_config, open_run
):
    run = open_run(small_config(), tmp_path)
    run.tracker.close()
    run.engine, run.state.step = StubbornEngine("no memory"), 7
    tight = replace(
        run.selector.memory, device=replace(run.selector.memory.device, memory_bytes=400_000)
    )
    run.selector = replace(run.selector, degrees=(1, 2), num_devices=2, memory=tight)
    capacity = run.selector.fleet.capacity_tokens(1)
    run.state.selector = SelectorState(tp=1, reports=())
    run.state.report = replace(REPORT, resident_tokens=capacity + 1, num_responses=100)
    choice = run.decide(16)
    assert [each.tp for each in choice.selector.refusals] == [2]
    assert choice.decision.tp == choice.selector.tp == 1
    assert choice.decision.reason.endswith(
        "no memory; tp 2 is left out while another holds the forecast"
    )
    run.state.selector = choice.selector
    run.state.report = replace(run.state.report, step=6)
    following = run.decide(16)
    assert following.decision.tp == 1
    assert "left out" not in following.decision.reason


def test_a_match_is_played_once_per_step(tmp_path, small_config, open_run, silent_display):
    display = silent_display()
    run = open_run(small_config(), tmp_path, display=display)
    run.evaluate("initial")
    run.evaluate("initial")
    run.evaluate("before")
    assert display.notes[-2:] == [
        "evaluation initial before step 0",
        "evaluation before before step 0",
    ]
    assert run.state.evaluations["initial"] == run.state.evaluations["before"]
    run.tracker.close()
    lines = (tmp_path / "episodes.jsonl").read_text().splitlines()
    assert len(lines) == run.config.evaluation.num_games
    assert {(line["seat"], line["phase"]) for line in map(json.loads, lines)} == {
        (0, "evaluation-initial"),
        (1, "evaluation-initial"),
    }


def test_a_saved_model_folder_gives_the_same_logits_and_template(tmp_path, small_config, open_run):
    run = open_run(small_config(), tmp_path)
    checkpoint = run.save()
    run.tracker.close()
    loaded = AutoModelForCausalLM.from_pretrained(checkpoint / "model").eval()
    ids = torch.tensor([[3, 7, 9, 5]])
    with torch.no_grad():
        assert torch.allclose(loaded(ids).logits, run.model(ids).logits, atol=1e-6)
    tokenizer = AutoTokenizer.from_pretrained(checkpoint / "model")
    assert tokenizer.chat_template == run.tokenizer.chat_template
    assert run.checkpoints.latest() == checkpoint


def test_weights_that_are_not_finite_never_take_the_place_of_good_ones(
    tmp_path, small_config, open_run
):
    run = open_run(small_config(), tmp_path)
    run.state.step = 3
    good = run.save()
    files = sorted(path.relative_to(good) for path in good.rglob("*"))
    with torch.no_grad():
        next(run.model.parameters())[0, 0] = float("nan")
    for step in (3, 4):
        run.state.step = step
        with pytest.raises(NonFiniteWeightsError, match="weights of the policy are not finite"):
            run.save()
    run.tracker.close()
    assert run.checkpoints.complete() == {3: good}
    assert sorted(path.relative_to(good) for path in good.rglob("*")) == files


def test_limits_that_cut_most_episodes_are_remarked_on_once(
    tmp_path, small_config, open_run, silent_display
):
    display = silent_display()
    # Without any experience hardly a reply ends within its four tokens.
    config = small_config({"warmup": {"num_steps": 0}, "learner": {"num_steps": 3}})
    run = open_run(config, tmp_path, display=display)
    run.begin()
    train(run)
    run.tracker.close()
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    shares = [row["context/truncated_share"] for row in rows if "phase" in row]
    assert min(shares) > 0.5
    told = [note for note in display.notes if "of the episodes were cut" in note]
    assert told == [
        f"step 1: {shares[0]:.0%} of the episodes were cut by rollout.max_reply_tokens or "
        "rollout.max_context_tokens: hardly any plays to its end (said once)"
    ]
