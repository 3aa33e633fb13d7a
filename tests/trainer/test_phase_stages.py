"""What a phase's stages are made of."""

from dataclasses import replace

import pytest
import torch
from earl_trainer.algorithms.config import AlgorithmConfig
from earl_trainer.config import RunConfig
from earl_trainer.experience.packing import pack_karmarkar_karp
from earl_trainer.learner.critic import make_critic
from earl_trainer.learner.objective import PolicyObjective
from earl_trainer.overrides import resolve
from earl_trainer.phase_stages import add_values, freeze_copy, make_learner, make_preparer
from earl_trainer.phases import PREFERENCE, RL, TEACHER, WARMUP, plan_phases
from earl_trainer.preference.lines import Line, judged_columns
from earl_trainer.preference.objective import JudgedObjective, PairObjective


class Player:
    def reply(self, queries):
        return []


def planned(**tree):
    config = resolve(RunConfig(), {"warmup": {"num_steps": 20}, "learner": {"num_steps": 30}}, tree)
    policies = {WARMUP: Player(), RL: Player(), TEACHER: Player()}
    return plan_phases(config, policies), policies, config


def test_preparation_scores_with_what_the_loss_looks_at(tiny_model, make_rows):
    (warmup, reinforcement), _, config = planned(algorithm={"kl_coefficient": 0.1})
    rows = make_rows([4, 3])
    rows = replace(rows, per_token={
        name: rows.per_token[name] for name in ("token_ids", "mask", "rollout_logprobs", "versions")
    })  # fmt: skip

    def added(phase, reference):
        prepared = make_preparer(phase, config, tiny_model, reference).prepare(rows)
        return set(prepared.per_token) - set(rows.per_token)

    assert added(warmup, None) == set()
    assert added(reinforcement, None) == {"old_logprobs"}
    assert added(reinforcement, tiny_model) == {"old_logprobs", "reference_logprobs"}


def test_a_phases_learner_takes_clipping_from_the_config(tiny_model):
    (_, reinforcement), _, _ = planned()
    config = RunConfig(algorithm=AlgorithmConfig(clip_low=0.1, clip_high=0.3))
    learner = make_learner(reinforcement, config, tiny_model)

    settings = learner._objective.settings
    assert (settings.clip_low, settings.clip_high) == (0.1, 0.3)


def test_a_phases_learner_packs_as_the_config_says(tiny_model):
    (_, reinforcement), _, config = planned(
        learner={"packing": "karmarkar-karp", "max_microbatch_tokens": 777}
    )
    settings = make_learner(reinforcement, config, tiny_model)._settings

    assert settings.packing is pack_karmarkar_karp
    assert settings.max_microbatch_tokens == 777


def test_a_frozen_copy_stays_as_it_was(make_llama):
    model = make_llama()
    frozen = freeze_copy(model)
    before = frozen.get_input_embeddings().weight.clone()
    with torch.no_grad():
        model.get_input_embeddings().weight.add_(1.0)

    assert torch.equal(frozen.get_input_embeddings().weight, before)
    assert not any(parameter.requires_grad for parameter in frozen.parameters())
    assert all(parameter.requires_grad for parameter in model.parameters())


@pytest.mark.parametrize(
    ("name", "scored", "objective"),
    [
        ("sft", set(), PolicyObjective),
        ("simpo", set(), PairObjective),
        ("spin", {"reference_logprobs"}, PairObjective),
        ("dpo", {"reference_logprobs"}, PairObjective),
        ("kto", {"reference_logprobs"}, JudgedObjective),
    ],
)
def test_a_method_takes_the_place_of_rewards(tiny_model, name, scored, objective):
    (_, phase), policies, config = planned(preference={"name": name, "beta": 0.3})
    assert phase.name == PREFERENCE
    assert (phase.first_step, phase.end_step, phase.evaluation) == (20, 50, "before")
    assert phase.policy is policies[TEACHER if name in {"sft", "spin"} else RL]
    assert phase.needs_reference == (name in {"dpo", "kto"})
    answers = [(Line(token_ids=(1, 2), trained=(False, True), num_prompt=1), True)] * 2
    rows = judged_columns(answers, [answers[0][0]])
    reference = tiny_model if phase.needs_reference or name == "spin" else None
    prepared = make_preparer(phase, config, tiny_model, reference).prepare(rows)
    assert set(prepared.per_token) - set(rows.per_token) == scored
    assert ("baseline" in prepared.per_row) == (name == "kto")
    learner = make_learner(phase, config, tiny_model)
    assert isinstance(learner._objective, objective)


def test_the_temperature_is_the_policys_and_the_critic_knows_nothing_of_it(make_llama, make_rows):
    model, rows = make_llama(), make_rows([5, 9])
    critic = make_critic(model)
    torch.nn.init.constant_(critic.get_output_embeddings().weight, 0.3)
    cold, hot = (
        add_values(config, make_preparer(phase, config, model, None), critic).prepare(rows)
        for (_, phase), _, config in (
            planned(algorithm={"name": "ppo"}, rollout={"temperature": temperature})
            for temperature in (0.5, 2.0)
        )
    )
    assert torch.equal(cold.per_token["values"], hot.per_token["values"])
    assert torch.equal(cold.per_row["last_values"], hot.per_row["last_values"])
    mask = rows.per_token["mask"]
    assert cold.per_token["values"][mask].all()
    apart = cold.per_token["old_logprobs"] - hot.per_token["old_logprobs"]
    assert apart[mask].abs().max() > 0.1
