"""A critic expects what comes of each state, and learns it beside the policy."""

import copy
import math
from dataclasses import replace

import pytest
import torch
import torch.distributed as dist
from earl_dispatch.testing import run_ranks
from earl_trainer.algorithms.aggregation import token_mean
from earl_trainer.algorithms.losses import LossSettings, clipped_policy_loss
from earl_trainer.experience.valued_prepare import value_columns
from earl_trainer.learner.critic import ActorCritic, ValueObjective, expect, make_critic
from earl_trainer.learner.learner import Learner, UpdateSettings
from earl_trainer.learner.objective import PolicyObjective
from earl_trainer.learner.optimizer import MasterAdamW
from earl_trainer.workers.group import ALONE, Group

LENGTHS = [5, 9, 3, 7]


@pytest.fixture
def critic(make_llama):
    """One whose head is no longer 0."""
    made = make_critic(make_llama())
    torch.nn.init.constant_(made.get_output_embeddings().weight, 0.3)
    return made


def with_targets(rows, critic, *, seed=0):
    values = value_columns(critic, rows, max_tokens=1000).per_token["values"]
    rng = torch.Generator().manual_seed(seed)
    returns = values + torch.randn(rows.num_tokens, generator=rng)
    return replace(rows, per_token={**rows.per_token, "values": values, "returns": returns})


def learner_of(model, objective, *, workers=ALONE, max_tokens=1000):
    return Learner(
        model,
        MasterAdamW(model, betas=(0.9, 0.95), weight_decay=0.0),
        objective,
        UpdateSettings(max_microbatch_tokens=max_tokens, max_grad_norm=1.0),
        workers,
    )


def test_an_untrained_critic_expects_nothing_and_leaves_the_policy_as_it_was(make_llama, make_rows):
    model, rows = make_llama(), make_rows(LENGTHS)
    before = model.get_output_embeddings().weight.clone()
    critic = make_critic(model)
    valued = value_columns(critic, rows, max_tokens=1000)
    assert not valued.per_token["values"].any()
    assert not valued.per_row["last_values"].any()
    assert torch.equal(model.get_output_embeddings().weight, before)
    assert model.get_input_embeddings().weight.shape[0] == before.shape[0]


def test_a_value_is_said_in_front_of_its_token_and_the_last_one_behind_the_row(critic, make_rows):
    rows = make_rows([6])
    ids, mask = rows.per_token["token_ids"].long(), rows.per_token["mask"]
    said = critic(input_ids=ids[None]).logits[0, :, 0]
    values, last_values = expect(critic, ids, mask, rows.lengths)
    assert torch.allclose(values[1:], torch.where(mask[1:], said[:-1], 0.0), atol=1e-6)
    assert torch.allclose(last_values, said[-1:], atol=1e-6)


def test_values_do_not_depend_on_how_rows_are_packed(critic, make_rows):
    rows = make_rows(LENGTHS)
    whole = value_columns(critic, rows, max_tokens=1000)
    for max_tokens in (9, 14):
        split = value_columns(critic, rows, max_tokens=max_tokens)
        for left, right in zip(
            (whole.per_token["values"], whole.per_row["last_values"]),
            (split.per_token["values"], split.per_row["last_values"]),
            strict=True,
        ):
            assert torch.allclose(left, right, atol=1e-6)


def test_the_loss_is_half_the_mean_squared_error_and_blind_to_masked_tokens(critic, make_rows):
    rows = with_targets(make_rows(LENGTHS), critic)
    mask = rows.per_token["mask"]
    poisoned = torch.where(mask, rows.per_token["returns"], math.nan)
    rows = replace(rows, per_token={**rows.per_token, "returns": poisoned})
    metrics = learner_of(critic, ValueObjective(clip=0.0)).accumulate(rows)
    error = (poisoned - rows.per_token["values"])[mask].square().mean() / 2
    assert metrics["loss"] == pytest.approx(error.item(), rel=1e-5)
    assert all(p.grad is None or p.grad.isfinite().all() for p in critic.parameters())


def test_a_critic_learns_what_it_should_expect(critic, make_rows):
    rows = with_targets(make_rows(LENGTHS), critic)
    learner = learner_of(critic, ValueObjective(clip=0.0))
    losses = [
        learner.update(rows, [torch.arange(len(LENGTHS))], lr=1e-2)["loss"] for _ in range(30)
    ]
    assert losses[-1] < 0.2 * losses[0]


def actor_critic(model, critic):
    policy = PolicyObjective(
        function=clipped_policy_loss,
        settings=LossSettings(clip_low=0.2, clip_high=0.2),
        aggregation=token_mean,
        temperature=1.0,
    )
    return ActorCritic(
        learner_of(model, policy),
        learner_of(critic, ValueObjective(clip=0.2)),
        model=critic,
        lr_ratio=2.0,
    )


def flat(model):
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def test_policy_and_critic_both_move_and_report_apart(make_llama, critic, make_rows):
    model, rows = make_llama(), with_targets(make_rows(LENGTHS), critic)
    policy_before, critic_before = flat(model), flat(critic)
    metrics = actor_critic(model, critic).update(rows, [torch.arange(len(LENGTHS))], lr=1e-3)
    assert (flat(model) - policy_before).abs().max().item() == pytest.approx(1e-3, rel=0.05)
    assert (flat(critic) - critic_before).abs().max().item() == pytest.approx(2e-3, rel=0.05)
    assert {"loss", "value_loss", "value_grad_norm", "value_mean_return"} <= metrics.keys()


def test_a_saved_pair_goes_on_bit_for_bit(make_llama, critic, make_rows):
    rows, minibatches = with_targets(make_rows(LENGTHS), critic), [torch.arange(len(LENGTHS))]
    model, straight = make_llama(), copy.deepcopy(critic)
    learner = actor_critic(model, straight)
    learner.update(rows, minibatches, lr=1e-3)
    saved = copy.deepcopy(learner.state_dict())
    twin, other = copy.deepcopy(model), make_critic(make_llama())
    learner.update(rows, minibatches, lr=1e-3)
    resumed = actor_critic(twin, other)
    resumed.load_state_dict(saved)
    resumed.update(rows, minibatches, lr=1e-3)
    assert torch.equal(flat(other), flat(straight))
    assert torch.equal(flat(twin), flat(model))


def learn_on_every_rank(critic, rows, shares):
    torch.set_num_threads(1)
    rank = dist.get_rank()
    workers = Group(rank=rank, size=dist.get_world_size(), process_group=dist.group.WORLD)
    learner = learner_of(critic, ValueObjective(clip=0.2), workers=workers, max_tokens=9)
    own = rows.select(list(shares[rank]))
    metrics = learner.update(own, [torch.arange(len(shares[rank]))], lr=1e-2)
    return metrics, flat(critic)


@pytest.mark.slow
def test_workers_that_share_the_rows_teach_the_critic_what_one_of_them_would(critic, make_rows):
    rows = with_targets(make_rows(LENGTHS), critic)
    told = run_ranks(2, learn_on_every_rank, critic, rows, ((1,), (0, 3, 2)), timeout_s=180.0)
    alone = learner_of(critic, ValueObjective(clip=0.2))
    metrics = alone.update(rows, [torch.arange(len(LENGTHS))], lr=1e-2)
    assert torch.equal(told[0][1], told[1][1])
    assert torch.allclose(told[0][1], flat(critic), atol=2e-4)
    assert told[0][0] == pytest.approx(metrics, rel=1e-4, abs=1e-6)
