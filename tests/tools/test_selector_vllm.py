"""What is made of vLLM's switches, with an engine that only pretends."""

import pytest
import torch
from earl_trainer.rollout.engine import Completion, FinishReason
from earl_trainer.rollout.switch import Switch
from earl_trainer.rollout.vllm_pool import SwitchMemory


@pytest.fixture
def tool(load_tool):
    return load_tool("selector_vllm")


@pytest.fixture
def model(tool):
    return tool.make_model()


def completion(ids, logprobs):
    return Completion(
        ids=ids, logprobs=logprobs, versions=[0] * len(ids), finish_reason=FinishReason.LENGTH
    )


class PretendedEngine:
    """Says the same at every degree, apart from the log-probs."""

    def __init__(self):
        self.tp = 1
        self.switch_memory = None

    def generate(self, requests):
        return [completion([7, 8], [-1.0, -2.0 - 1e-6 * self.tp]) for _ in requests]

    def resize(self, tp):
        old, self.tp = self.tp, tp
        self.switch_memory = SwitchMemory(
            before_bytes=10, released_bytes=10, after_bytes=20, required_bytes=10
        )
        return Switch(from_tp=old, to_tp=tp, tp=tp, switch_s=float(tp))


def test_every_round_goes_there_and_back(tool, model):
    rows = tool.measure_switches(PretendedEngine(), model, num_rounds=2)
    assert [(row["from_tp"], row["to_tp"]) for row in rows] == [(1, 2), (2, 1), (1, 2), (2, 1)]
    figures = tool.make_figures(rows, start_s=5.0)
    assert all(figure.to_dict()["holds"] for figure in figures.values())
    assert (figures["switch_1_to_2"].value, figures["switch_2_to_1"].value) == (2.0, 1.0)
    assert figures["max_logprob_difference"].value == pytest.approx(1e-6)


def test_a_reply_that_differs_without_a_tie_is_neither_identical_nor_tied(tool, model):
    (request,) = tool.make_requests(1)
    prompt = list(request.prompt_ids)
    best, other = model(torch.tensor([prompt])).logits[0, -1].topk(2).indices.tolist()
    before, after = completion([best, 9], [-1.0, -1.0]), completion([other, 9], [-2.0, -1.0])
    row = tool.compare(model, [request], [before], [after])
    assert (row["identical"], row["tied"], row["max_difference"]) == (0, 0, 0.0)
    with torch.no_grad():
        # An output that gives every token the same logit ties everywhere.
        model.get_output_embeddings().weight.fill_(0.0)
    assert tool.compare(model, [request], [before], [after])["tied"] == 1


def test_memory_that_stays_and_replies_that_change_miss_their_goals(tool, model):
    rows = tool.measure_switches(PretendedEngine(), model, num_rounds=1)
    rows = [{**row, "released_bytes": 9, "identical": 63} for row in rows]
    figures = tool.make_figures(rows, start_s=5.0)
    missed = {name for name, figure in figures.items() if not figure.to_dict()["holds"]}
    assert missed == {"same_or_tied_replies", "memory_given_back"}
