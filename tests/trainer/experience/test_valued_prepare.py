from dataclasses import replace

import torch
from earl_trainer.experience.valued_prepare import ValuedPreparer
from earl_trainer.learner.critic import make_critic


class Stage:
    """Adds a column, and has something to tell and to keep."""

    def __init__(self):
        self.figures = {}
        self.restored = None

    def prepare(self, columns):
        self.figures = {"time/inner_s": 1.0}
        ones = torch.ones(columns.num_tokens)
        return replace(columns, per_token={**columns.per_token, "old_logprobs": ones})

    def to_dict(self):
        return {"num_steps": 3}

    def restore(self, values):
        self.restored = values


def test_values_are_added_to_what_the_other_stage_adds(make_llama, make_rows):
    rows, inner = make_rows([4, 6, 2]), Stage()
    critic = make_critic(make_llama())
    torch.nn.init.constant_(critic.get_output_embeddings().weight, 0.3)
    stage = ValuedPreparer(inner, critic, max_tokens=6)
    prepared = stage.prepare(rows)
    mask = rows.per_token["mask"]
    assert prepared.per_token["old_logprobs"].all()
    assert bool((prepared.per_token["values"] != 0.0)[mask].all())
    assert not prepared.per_token["values"][~mask].any()
    assert prepared.per_row["last_values"].all()
    assert stage.figures == {"time/inner_s": 1.0}


def test_a_worker_without_rows_has_the_same_columns(make_llama, make_rows):
    rows = make_rows([4, 6])
    stage = ValuedPreparer(Stage(), make_critic(make_llama()), max_tokens=6)
    assert stage.prepare(rows.select([])).schema() == stage.prepare(rows).schema()


def test_what_the_other_stage_keeps_is_kept(make_llama):
    inner = Stage()
    stage = ValuedPreparer(inner, make_critic(make_llama()), max_tokens=6)
    assert stage.to_dict() == {"num_steps": 3}
    stage.restore({"num_steps": 5})
    assert inner.restored == {"num_steps": 5}
