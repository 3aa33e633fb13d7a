"""What stands for the parts of trl that a method does not read."""

import json

import torch


def test_rows_are_padded_at_their_end(load_tool):
    pad_rows = load_tool("trl_trainers").pad_rows
    padded = pad_rows(torch.tensor([1.0, 2.0, 3.0]), (1, 2))
    assert padded.tolist() == [[1.0, 0.0], [2.0, 3.0]]


def test_a_given_model_answers_with_what_it_was_given(load_tool):
    logprobs = torch.tensor([[-1.0, -2.0]], requires_grad=True)
    model = load_tool("trl_trainers").GivenModel(log_probs=logprobs, entropy=torch.ones(1, 2))
    answer = model(input_ids=None, fused_lm_head=True)
    assert answer.log_probs is logprobs
    assert answer.entropy.tolist() == [[1.0, 1.0]]
    assert not answer.mean_logits.any()
    assert not answer.mean_logits.requires_grad


def test_a_method_answers_alike_whatever_it_is_asked(load_tool):
    method = load_tool("trl_trainers").always(3)
    assert method() == method(1, mode="train") == 3


def test_a_golden_says_which_versions_it_is_of(load_tool, monkeypatch, tmp_path):
    tool = load_tool("trl_trainers")
    monkeypatch.setattr(tool, "version", lambda name: f"{len(name)}.0")
    tool.write_golden(tmp_path / "new" / "trl.json", constants={}, inputs={}, outputs={"a": [1.0]})
    stored = json.loads((tmp_path / "new" / "trl.json").read_text())
    assert stored["library"].startswith("trl 3.0 (torch 5.0, ")
    assert stored["outputs"] == {"a": [1.0]}
