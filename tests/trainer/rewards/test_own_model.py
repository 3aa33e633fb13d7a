"""The reward model of a run: begun when it is asked for, kept, and found again."""

from dataclasses import replace

import pytest
import torch
from earl_trainer.overrides import resolve
from earl_trainer.phases import RL, TEACHER, WARMUP, plan_phases
from earl_trainer.recipes import RECIPES
from earl_trainer.rewards.own_model import OwnRewardModel


@pytest.fixture
def open_model(tiny_model, tiny_tokenizer, mute_policy):
    def open_(*, num_steps=3, resumed_from=None):
        config = resolve(RECIPES["reward-model"], {"warmup": {"num_steps": 5}})
        rules = replace(config.reward_model, num_steps=num_steps)
        phases = plan_phases(
            replace(config, reward_model=rules), dict.fromkeys((WARMUP, RL, TEACHER), mute_policy)
        )
        return OwnRewardModel(phases, tiny_model, tiny_tokenizer, resumed_from)

    return open_


def test_it_is_learned_in_the_steps_of_its_phase_alone(open_model):
    own = open_model()
    assert [step for step in range(12) if own.is_learned_at(step)] == [5, 6, 7]
    none = open_model(num_steps=0)
    assert not any(none.is_learned_at(step) for step in range(12))


def test_it_begins_with_the_policy_and_goes_on_from_what_was_saved(
    open_model, tiny_model, tmp_path
):
    own = open_model()
    body = own.model.base_model.state_dict()
    assert all(torch.equal(body[n], t) for n, t in tiny_model.base_model.state_dict().items())
    own.save(tmp_path, 5)
    assert not list(tmp_path.iterdir())
    assert torch.equal(
        open_model(resumed_from=tmp_path).model.score.weight,
        torch.zeros_like(own.model.score.weight),
    )
    torch.nn.init.ones_(own.model.score.weight)
    own.save(tmp_path, 6)
    again = open_model(resumed_from=tmp_path).model
    assert torch.equal(again.score.weight, own.model.score.weight)
    assert (tmp_path / "reward-model" / "tokenizer.json").is_file()


def test_without_a_phase_nothing_is_saved(open_model, tmp_path):
    open_model(num_steps=0).save(tmp_path, 100)
    assert not list(tmp_path.iterdir())
