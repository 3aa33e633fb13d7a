"""Where a run stands, and what it keeps."""

import json

import torch
from earl_selector import ContextReport, SelectorState
from earl_trainer.evaluation.match import MatchResult
from earl_trainer.run import RunState
from transformers import AutoModelForCausalLM, AutoTokenizer

RESULT = MatchResult(
    games=10,
    win_rate=0.5,
    win_rate_low=0.2,
    win_rate_high=0.8,
    draw_rate=0.1,
    loss_rate=0.4,
    illegal_rate=0.0,
)


def test_a_state_survives_the_trip_through_json():
    report = ContextReport(
        step=6,
        num_responses=3,
        mean_context_tokens=4.5,
        max_context_tokens=7,
        resident_tokens=12,
    )
    state = RunState(
        step=7,
        selector=SelectorState(tp=1, reports=(report,), switch_s=0.5, time_scale=2.0),
        report=report,
        evaluations={"initial": (0, RESULT), "before": (6, RESULT)},
    )
    assert RunState.from_dict(json.loads(json.dumps(state.to_dict()))) == state


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
