import copy
import math
from dataclasses import replace

import pytest
import torch
import torch.distributed as dist
from earl_dispatch import Columns
from earl_dispatch.testing import run_ranks
from earl_trainer.algorithms.aggregation import AGGREGATIONS, find_aggregation
from earl_trainer.algorithms.importance import LEVELS, WeightRules
from earl_trainer.algorithms.losses import (
    LossOutputs,
    LossSettings,
    clipped_policy_loss,
    negative_log_likelihood,
    sequence_policy_loss,
)
from earl_trainer.algorithms.off_policy import CORRECTIONS
from earl_trainer.experience.minibatches import shuffle_minibatches
from earl_trainer.experience.packing import PACKINGS, pack_fewest_first
from earl_trainer.experience.prepare import Preparer
from earl_trainer.learner.learner import Learner, UpdateSettings
from earl_trainer.learner.objective import PolicyObjective
from earl_trainer.learner.optimizer import MasterAdamW
from earl_trainer.models.load import load_folder
from earl_trainer.types import RunFailedError
from earl_trainer.workers.group import ALONE, Group
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedTokenizerFast

LENGTHS = [5, 9, 3, 7, 9, 4]
LONGEST = 9
SETTINGS = LossSettings(clip_low=0.2, clip_high=0.2, kl_coefficient=0.1)


def make_learner(
    model,
    *,
    loss=clipped_policy_loss,
    settings=SETTINGS,
    aggregation="token-mean",
    temperature=1.0,
    max_microbatch_tokens=1000,
    packing=pack_fewest_first,
    max_kl=math.inf,
    workers=ALONE,
):
    return Learner(
        model,
        MasterAdamW(model, betas=(0.9, 0.95), weight_decay=0.1),
        PolicyObjective(
            function=loss,
            settings=settings,
            aggregation=find_aggregation(aggregation, max_tokens=LONGEST),
            temperature=temperature,
        ),
        UpdateSettings(
            max_microbatch_tokens=max_microbatch_tokens,
            max_grad_norm=1.0,
            max_kl=max_kl,
            packing=packing,
        ),
        workers,
    )


def minibatches_of(rows, *, num_minibatches=1, num_epochs=1, seed=0):
    passes = shuffle_minibatches(
        rows.num_rows, num_minibatches=num_minibatches, num_epochs=num_epochs, seed=seed
    )
    return [minibatch for shuffled in passes for minibatch in shuffled]


def gradient_of(model, rows, **options):
    """The metrics and the gradient of one mini-batch, as one vector."""
    model.zero_grad()
    metrics = make_learner(model, **options).accumulate(rows)
    gradient = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
    return metrics, gradient


def close(left, right, tolerance=1e-6):
    """Whether two results agree, the gradients relative to their norm."""
    metrics, gradient = left
    other_metrics, other_gradient = right
    distance = (gradient - other_gradient).norm() / gradient.norm()
    return distance < tolerance and metrics == pytest.approx(other_metrics, abs=1e-5)


def with_column(rows, name, values):
    return replace(rows, per_token={**rows.per_token, name: values})


def snapshot(model, learner):
    """Weights and optimizer state as a flat list of tensors and numbers."""
    adamw = learner.state_dict()["optimizer"]["adamw"]["state"]
    moments = [value.clone() for state in adamw.values() for value in state.values()]
    return [parameter.detach().clone() for parameter in model.parameters()] + moments


def same(left, right):
    return len(left) == len(right) and all(map(torch.equal, left, right))


def test_loss_and_metrics_of_a_minibatch_equal_the_sum_over_rows_done_by_hand(
    make_llama, make_rows
):
    model, rows = make_llama(), make_rows(LENGTHS)
    scored = Preparer({"new": model}, temperature=1.0, max_tokens=1000).prepare(rows).per_token
    mask = scored["mask"]
    advantages = rows.per_token["advantages"]
    new, old, reference = scored["new"], scored["old_logprobs"], scored["reference_logprobs"]
    ratio = (new - old).exp()
    surrogate = torch.minimum(advantages * ratio, advantages * ratio.clamp(0.8, 1.2))
    divergence = (reference - new).exp() - 1 - (reference - new)
    loss = -surrogate + 0.1 * divergence
    metrics, _ = gradient_of(model, rows)
    assert metrics["loss"] == pytest.approx(loss[mask].mean().item(), rel=1e-4)
    assert metrics["ratio"] == pytest.approx(ratio[mask].mean().item(), rel=1e-4)
    assert metrics["reference_kl"] == pytest.approx(divergence[mask].mean().item(), rel=1e-4)
    per_row = [
        loss[mask & (rows.per_row["episode"].repeat_interleave(rows.lengths) == row)].mean()
        for row in range(len(LENGTHS))
    ]
    by_row, _ = gradient_of(model, rows, aggregation="sequence-mean")
    assert by_row["loss"] == pytest.approx(torch.stack(per_row).mean().item(), rel=1e-4)


def padded_gradient(model, rows, aggregation):
    """The likelihood's gradient from one plain pass over padded rows."""
    lengths = rows.lengths.tolist()
    ids, mask, advantages = (
        pad_sequence(rows.per_token[name].split(lengths), batch_first=True)
        for name in ("token_ids", "mask", "advantages")
    )
    logprobs = model(input_ids=ids.long()).logits[:, :-1].log_softmax(-1)
    logprobs = logprobs.gather(-1, ids[:, 1:, None].long())[..., 0]
    losses = -advantages[:, 1:] * logprobs * mask[:, 1:]
    sums = losses.sum(1)
    loss = {
        "token-mean": losses.sum() / mask.sum(),
        "sequence-mean": (sums / mask.sum(1)).mean(),
        "sequence-sum": sums.mean(),
        "sequence-sum-constant": sums.mean() / LONGEST,
        # Two rows each are a group.
        "prompt-mean": (sums.reshape(-1, 2).sum(1) / mask.sum(1).reshape(-1, 2).sum(1)).mean(),
    }[aggregation]
    model.zero_grad()
    loss.backward()
    gradient = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
    return {"loss": loss.item()}, gradient


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_gradient_of_packed_rows_is_that_of_padded_ones(make_llama, make_rows, aggregation):
    model, rows = make_llama(), make_rows(LENGTHS)
    padded = padded_gradient(model, rows, aggregation)
    for max_tokens in (9, 14, 1000):
        metrics, gradient = gradient_of(
            model,
            rows,
            loss=negative_log_likelihood,
            aggregation=aggregation,
            max_microbatch_tokens=max_tokens,
        )
        assert close(padded, ({"loss": metrics["loss"]}, gradient))


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_gradient_does_not_depend_on_the_split_or_the_order(
    make_llama, make_rows, aggregation, packing
):
    model, rows = make_llama(), make_rows(LENGTHS)
    whole = gradient_of(model, rows, aggregation=aggregation)
    for max_tokens in (9, 13, 18, 28):
        split = gradient_of(
            model,
            rows,
            aggregation=aggregation,
            max_microbatch_tokens=max_tokens,
            packing=PACKINGS[packing],
        )
        assert close(whole, split)
    for order in ([5, 4, 3, 2, 1, 0], [2, 0, 5, 1, 4, 3]):
        shuffled = gradient_of(
            model, rows.select(order), aggregation=aggregation, max_microbatch_tokens=18
        )
        assert close(whole, shuffled)


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_metrics_are_means_over_tokens_however_losses_are_summed(
    make_llama, make_rows, aggregation
):
    # Rows of one length with as many trained tokens each: every mean is that over tokens.
    rows = make_rows([5] * 6)
    mask = torch.tensor([False, True, False, True, True] * 6)
    rows = with_column(rows, "mask", mask)
    rows = replace(rows, per_row={**rows.per_row, "group_tokens": torch.full((6,), 6.0)})
    minibatches = [torch.arange(6)]
    expected = make_learner(make_llama()).update(rows, minibatches, lr=0.0)
    summed = make_learner(make_llama(), aggregation=aggregation)
    found = summed.update(rows, minibatches, lr=0.0)
    for name in ("kl", "ratio", "clip_fraction", "entropy", "reference_kl"):
        assert found[name] == pytest.approx(expected[name], rel=1e-4), name
    factor = {"sequence-sum": 3.0, "sequence-sum-constant": 3.0 / LONGEST}.get(aggregation, 1.0)
    assert found["loss"] == pytest.approx(factor * expected["loss"], rel=1e-4)


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_a_fully_masked_row_changes_neither_loss_nor_gradient(make_llama, make_rows, aggregation):
    model, rows, masked = make_llama(), make_rows(LENGTHS), make_rows([30], seed=1)
    masked = with_column(masked, "mask", torch.zeros(30, dtype=torch.bool))
    alone = gradient_of(model, rows, aggregation=aggregation)
    for max_tokens in (30, 1000):
        joined = gradient_of(
            model,
            Columns.concat([masked, rows]),
            aggregation=aggregation,
            max_microbatch_tokens=max_tokens,
        )
        assert close(alone, joined)


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_a_batch_without_a_trained_token_has_loss_zero_and_gradient_zero(
    make_llama, make_rows, aggregation
):
    rows = make_rows(LENGTHS)
    rows = with_column(rows, "mask", torch.zeros(rows.num_tokens, dtype=torch.bool))
    metrics, gradient = gradient_of(make_llama(), rows, aggregation=aggregation)
    assert set(metrics.values()) == {0.0}
    assert not gradient.any()


def poisoned(rows, poison):
    """The same rows with `poison` in every column wherever no token is trained."""
    mask = rows.per_token["mask"]
    per_token = dict(rows.per_token)
    for name in ("old_logprobs", "reference_logprobs", "rollout_logprobs", "advantages"):
        per_token[name] = torch.where(mask, rows.per_token[name], poison)
    return replace(rows, per_token=per_token)


@pytest.fixture
def half_masked_rows(make_rows):
    """Rows of which the first has no trained token."""
    rows = make_rows(LENGTHS)
    mask = rows.per_token["mask"].clone()
    mask[: LENGTHS[0]] = False
    return with_column(rows, "mask", mask)


@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf, 7.0])
@pytest.mark.parametrize("aggregation", ["token-mean", "sequence-mean"])
@pytest.mark.parametrize("level", [None, *LEVELS])
@pytest.mark.parametrize("loss", [clipped_policy_loss, sequence_policy_loss])
def test_poison_at_masked_tokens_changes_neither_loss_nor_gradient(
    make_llama, half_masked_rows, loss, level, aggregation, poison
):
    settings = SETTINGS
    if level is not None:
        # Random log-probs are far apart: a weight of a whole row must not always be the bound.
        rules = WeightRules(level=level, max_weight=1e6)
        settings = replace(SETTINGS, correction=CORRECTIONS["decoupled"], weights=rules)
    options = {"loss": loss, "settings": settings, "aggregation": aggregation}
    model = make_llama()
    metrics, gradient = gradient_of(model, half_masked_rows, **options)
    poisoned_metrics, poisoned_gradient = gradient_of(
        model, poisoned(half_masked_rows, poison), **options
    )
    assert metrics == poisoned_metrics
    assert torch.equal(gradient, poisoned_gradient)
    assert gradient.isfinite().all()


def test_a_loss_sees_zeros_at_masked_tokens_whatever_stands_there(make_llama, half_masked_rows):
    seen = []

    def spy(inputs, settings):
        seen.append(inputs)
        return clipped_policy_loss(inputs, settings)

    rows = poisoned(half_masked_rows, math.nan)
    rows = with_column(rows, "staleness", torch.full((rows.num_tokens,), 2, dtype=torch.int32))
    gradient_of(make_llama(), rows, loss=spy)
    (inputs,) = seen
    for values in (
        inputs.logprobs,
        inputs.old_logprobs,
        inputs.behaviour_logprobs,
        inputs.staleness,
        inputs.reference_logprobs,
        inputs.advantages,
    ):
        assert not values[~inputs.mask].any()
        assert values[inputs.mask].all()


def test_what_a_loss_returns_at_masked_tokens_is_void(make_llama, half_masked_rows):
    def careless(inputs, settings):
        outputs = clipped_policy_loss(inputs, settings)
        return LossOutputs(
            loss=torch.where(inputs.mask, outputs.loss, math.nan),
            metrics={
                name: torch.where(inputs.mask, values, math.nan)
                for name, values in outputs.metrics.items()
            },
        )

    model = make_llama()
    metrics, gradient = gradient_of(model, half_masked_rows)
    careless_metrics, careless_gradient = gradient_of(model, half_masked_rows, loss=careless)
    assert metrics == careless_metrics
    assert torch.equal(gradient, careless_gradient)


def test_likelihood_loss_needs_no_other_column_than_the_tokens(make_llama, make_rows):
    model, rows = make_llama(), make_rows(LENGTHS)
    names = ("token_ids", "mask", "advantages")
    bare = replace(rows, per_token={name: rows.per_token[name] for name in names})
    full = gradient_of(model, rows, loss=negative_log_likelihood)
    assert close(full, gradient_of(model, bare, loss=negative_log_likelihood))


@pytest.fixture(scope="module")
def dropout_folder(make_gpt2, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "dropout"
    make_gpt2(dropout=0.5).save_pretrained(folder)
    PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(WordLevel({"a": 0}, unk_token="a"))
    ).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("kind", ["float32", "bfloat16", "dropout"])
def test_at_a_learning_rate_of_zero_the_ratio_is_one_and_no_weight_moves(
    make_llama, make_rows, dropout_folder, kind, temperature
):
    if kind == "dropout":
        model = load_folder(dropout_folder, device="cpu").model
        assert model.config.resid_pdrop == 0.5
    else:
        model = make_llama(dtype={"float32": torch.float32, "bfloat16": torch.bfloat16}[kind])
    # Rows meet in other batches here than there. In bfloat16 the shape of a batch may move a
    # rounding, so there every row fills one.
    lengths, max_tokens = ([9] * 6, 9) if kind == "bfloat16" else (LENGTHS, 1000)
    rows = Preparer(
        {"old_logprobs": model, "reference_logprobs": copy.deepcopy(model)},
        temperature=temperature,
        max_tokens=max_tokens,
    ).prepare(make_rows(lengths))
    before = [parameter.detach().clone() for parameter in model.parameters()]
    learner = make_learner(
        model,
        temperature=temperature,
        max_microbatch_tokens=min(max_tokens, 18),
    )
    minibatches = minibatches_of(rows, num_minibatches=3, num_epochs=2)
    metrics = learner.update(rows, minibatches, lr=0.0)
    assert metrics["ratio"] == pytest.approx(1.0, abs=1e-5)
    assert metrics["clip_fraction"] == 0.0
    assert metrics["kl"] == pytest.approx(0.0, abs=1e-9)
    assert metrics["reference_kl"] == pytest.approx(0.0, abs=1e-9)
    assert metrics["grad_norm"] > 0.0
    assert same(before, [parameter.detach() for parameter in model.parameters()])


def test_an_update_takes_as_many_steps_as_minibatches_and_epochs_and_sees_every_token(
    make_llama, make_rows
):
    model, rows, seen = make_llama(), make_rows(LENGTHS), []
    learner = make_learner(model)
    learner.update(
        rows,
        minibatches_of(rows, num_minibatches=3, num_epochs=2),
        lr=1e-3,
        on_minibatch=lambda done, total: seen.append((done, total)),
    )
    steps = [
        state["step"] for state in learner.state_dict()["optimizer"]["adamw"]["state"].values()
    ]
    assert {int(step) for step in steps} == {6}
    assert len(seen) == 6
    assert seen[2][0] == rows.num_tokens
    assert seen[-1] == (2 * rows.num_tokens, 2 * rows.num_tokens)


def test_an_update_raises_the_likelihood_of_rewarded_tokens(make_llama, make_rows):
    model, rows = make_llama(), make_rows(LENGTHS)
    rows = with_column(rows, "advantages", torch.ones(rows.num_tokens))
    preparer = Preparer({"scored": model}, temperature=1.0, max_tokens=1000)
    before = preparer.prepare(rows).per_token["scored"].sum()
    learner = make_learner(model, loss=negative_log_likelihood)
    learner.update(rows, minibatches_of(rows, num_minibatches=2), lr=1e-2)
    assert preparer.prepare(rows).per_token["scored"].sum() > before + 0.5


def test_one_nan_gradient_leaves_weights_and_optimizer_bit_identical(make_llama, make_rows):
    model, rows = make_llama(), make_rows(LENGTHS)
    learner = make_learner(model)
    assert learner.update(rows, minibatches_of(rows), lr=1e-3)["skipped_updates"] == 0.0
    before = snapshot(model, learner)
    norm_weight = next(p for p in model.parameters() if p.ndim == 1)
    hook = norm_weight.register_hook(lambda grad: torch.full_like(grad, math.nan))
    metrics = learner.update(rows, minibatches_of(rows), lr=1e-3)
    assert metrics["skipped_updates"] == 1.0
    assert same(snapshot(model, learner), before)
    hook.remove()
    assert learner.update(rows, minibatches_of(rows), lr=1e-3)["skipped_updates"] == 0.0
    after = snapshot(model, learner)
    assert not same(after, before)
    assert all(value.isfinite().all() for value in after)


def test_skipped_updates_are_counted_over_a_whole_step(make_llama, make_rows):
    model, rows = make_llama(), make_rows(LENGTHS)
    model.lm_head.weight.register_hook(lambda grad: torch.full_like(grad, math.inf))
    minibatches = minibatches_of(rows, num_minibatches=3)
    assert make_learner(model).update(rows, minibatches, lr=1e-3)["skipped_updates"] == 3.0


def test_five_bad_updates_in_a_row_end_the_run_and_a_good_one_starts_the_count_again(
    make_llama, make_rows
):
    model, rows = make_llama(), make_rows(LENGTHS)
    learner = make_learner(model)

    def bad_updates(number):
        hook = model.lm_head.weight.register_hook(lambda grad: torch.full_like(grad, math.nan))
        for _ in range(number):
            learner.update(rows, minibatches_of(rows), lr=1e-3)
        hook.remove()

    bad_updates(4)
    learner.update(rows, minibatches_of(rows), lr=1e-3)
    bad_updates(4)
    resumed = make_learner(model)
    resumed.load_state_dict(learner.state_dict())
    learner = resumed
    with pytest.raises(RunFailedError, match="5 updates in a row"):
        bad_updates(1)


def test_a_learner_restored_from_its_state_continues_exactly(make_llama, make_rows):
    model, rows = make_llama(), make_rows(LENGTHS)
    learner = make_learner(model)
    learner.update(rows, minibatches_of(rows, num_minibatches=2), lr=1e-2)
    twin = copy.deepcopy(model)
    resumed = make_learner(twin)
    resumed.load_state_dict(copy.deepcopy(learner.state_dict()))
    fresh_model = copy.deepcopy(model)
    fresh = make_learner(fresh_model)
    for owner in (learner, resumed, fresh):
        owner.update(rows, minibatches_of(rows, num_minibatches=2, seed=1), lr=1e-2)
    assert same(snapshot(model, learner), snapshot(twin, resumed))
    assert not same(snapshot(model, learner), snapshot(fresh_model, fresh))


# Rows of each of three workers, of which the last has none of the second mini-batch and more than
# one pass holds of the first.
SHARES = ((0, 3), (2, 5), (1, 4))
PARTS = (((0,), (3,)), ((5,), (2,)), ((4, 1), ()))


def learn_on_every_rank(model, rows):
    """By aggregation, the metrics of each rank, its weights after two updates and its passes."""
    torch.set_num_threads(1)
    rank = dist.get_rank()
    workers = Group(rank=rank, size=dist.get_world_size(), process_group=dist.group.WORLD)
    own = rows.select(SHARES[rank])
    minibatches = [
        torch.tensor([SHARES[rank].index(row) for row in part], dtype=torch.int64)
        for part in PARTS[rank]
    ]
    return {
        aggregation: updated(copy.deepcopy(model), own, minibatches, aggregation, workers)
        for aggregation in AGGREGATIONS
    }


def updated(model, rows, minibatches, aggregation, workers):
    passes = []
    model.base_model.register_forward_pre_hook(lambda _module, _inputs: passes.append(1))
    learner = make_learner(model, aggregation=aggregation, max_microbatch_tokens=9, workers=workers)
    metrics = learner.update(rows, minibatches, lr=1e-2)
    return metrics, [parameter.detach() for parameter in model.parameters()], len(passes)


@pytest.mark.slow
def test_workers_that_share_the_rows_learn_what_one_of_them_would(make_llama, make_rows):
    rows = make_rows(LENGTHS)
    minibatches = [
        torch.tensor([row for rank in range(3) for row in PARTS[rank][number]])
        for number in range(2)
    ]
    together = run_ranks(3, learn_on_every_rank, make_llama(), rows, timeout_s=180.0)
    for aggregation in AGGREGATIONS:
        metrics, alone, num_passes = updated(make_llama(), rows, minibatches, aggregation, ALONE)
        assert num_passes == 5, "9, 9 and 5 with 4; then 7 and 3"
        first = together[0][aggregation][1]
        for shared_metrics, weights, num_own_passes in (each[aggregation] for each in together):
            assert num_own_passes == 3, "two of the first, as for 9 and 9, and one of the second"
            assert shared_metrics == pytest.approx(metrics, rel=1e-4, abs=1e-6)
            assert same(weights, first), "copies stay the same, bit for bit"
            # Adam divides by the gradient's size: where that is tiny, rounding shows.
            assert all(
                torch.allclose(mine, theirs, atol=2e-4)
                for mine, theirs in zip(weights, alone, strict=True)
            )


def test_updates_from_the_one_whose_policy_has_moved_too_far_are_left_out(make_llama, make_rows):
    rows = make_rows(LENGTHS)
    scored = make_llama()
    prepared = Preparer({"old_logprobs": scored}, temperature=1.0, max_tokens=1000).prepare(rows)
    minibatches = [torch.arange(6)] * 4

    def divergences(num_updates):
        model = make_llama()
        learner = make_learner(model)
        return [learner.update(prepared, [rows], lr=1e-2)["kl"] for rows in minibatches]

    kl = divergences(4)
    assert kl[0] < 1e-6 < kl[1] < kl[2] < kl[3]
    model, same = make_llama(), make_llama()
    metrics = make_learner(model, max_kl=(kl[1] + kl[2]) / 2).update(prepared, minibatches, lr=1e-2)
    assert (metrics["left_out_updates"], metrics["skipped_updates"]) == (2.0, 0.0)
    assert metrics["kl"] == pytest.approx((kl[0] + kl[1]) / 2, rel=1e-4, abs=1e-9)
    make_learner(same).update(prepared, minibatches[:2], lr=1e-2)
    for weights, others in zip(model.parameters(), same.parameters(), strict=True):
        assert torch.equal(weights, others)


def test_what_is_left_out_leaves_no_gradient_behind(make_llama, make_rows):
    rows = make_rows(LENGTHS)
    model, fresh = make_llama(), make_llama()
    stopping, going_on = make_learner(model, max_kl=0.0), make_learner(fresh)
    far = stopping.update(rows, [torch.arange(6)], lr=1e-2)
    assert far["left_out_updates"] == 1.0, "these old log-probs are nobody's"
    assert "loss" not in far
    near = Preparer({"old_logprobs": fresh}, temperature=1.0, max_tokens=1000).prepare(rows)
    stopping._settings = going_on._settings
    for learner in (stopping, going_on):
        learner.update(near, [torch.arange(6)], lr=1e-2)
    for weights, others in zip(model.parameters(), fresh.parameters(), strict=True):
        assert torch.equal(weights, others)


def test_updates_whose_gradient_was_scaled_down_are_counted(make_llama, make_rows):
    rows, minibatches = make_rows(LENGTHS), [torch.arange(3), torch.arange(3, 6)]
    for scale, clipped in ((1e4, 2.0), (0.0, 0.0)):
        own = rows.per_token
        changed = {
            "reference_logprobs": own["old_logprobs"],
            "advantages": scale * own["advantages"],
        }
        scaled = replace(rows, per_token={**own, **changed})
        loss = clipped_policy_loss if scale else negative_log_likelihood
        metrics = make_learner(make_llama(), loss=loss).update(scaled, minibatches, lr=1e-4)
        assert metrics["clipped_updates"] == clipped
