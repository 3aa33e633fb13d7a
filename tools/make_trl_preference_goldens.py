"""Write what trl computes of preferences, for the tests of their losses to compare with.

`uv run --no-project --with trl python tools/make_trl_preference_goldens.py` writes
tests/trainer/preference/golden/trl.json and tests/trainer/rewards/golden/trl.json. trl is needed
for that alone. Every number comes out of a method of one of its trainers.
"""

import os
import random
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from trl_trainers import (
    SEED,
    TESTS,
    GivenModel,
    Inputs,
    Outputs,
    always,
    make_arguments,
    make_trainer,
    pad_rows,
    write_golden,
)

GOLDEN = TESTS / "preference" / "golden" / "trl.json"
REWARD_GOLDEN = TESTS / "rewards" / "golden" / "trl.json"
NUM_PAIRS = 8
SIDES = ("chosen", "rejected")
CONSTANTS = {
    "beta": 0.7,
    "margin": 0.4,
    "label_smoothing": 0.15,
    "desirable_weight": 1.3,
    "undesirable_weight": 0.6,
}
REWARD_CONSTANTS = {"margin": 0.3, "centring": 0.05}

Loss = Callable[[Tensor, int], Tensor]
"""From log-probs of the chosen and the rejected answer, and their number, to the loss of a pair."""


def draw_inputs(rng: random.Random) -> Inputs:
    """Draw answers by the sums of their log-probs, and KTO's mismatched ones by log-ratios."""

    def drawn(spread: float, centre: Sequence[float]) -> list[float]:
        return [round(value + rng.gauss(0.0, spread), 4) for value in centre]

    inputs: dict[str, list[Any]] = {"mismatched": drawn(0.5, [0.2] * NUM_PAIRS)}
    for side in SIDES:
        num_tokens = [rng.randint(1, 6) for _ in range(NUM_PAIRS)]
        sums = [
            round((-abs(mean) - 0.02) * count, 4)
            for mean, count in zip(drawn(1.0, [0.0] * NUM_PAIRS), num_tokens, strict=True)
        ]
        inputs |= {
            f"{side}_tokens": num_tokens,
            f"{side}_logprobs": sums,
            f"{side}_reference": [min(total, -0.01) for total in drawn(1.0, sums)],
        }
    return inputs


def draw_rewards(rng: random.Random) -> Inputs:
    """Draw rewards of answers."""
    return {side: [round(rng.gauss(0.0, 1.5), 4) for _ in range(NUM_PAIRS)] for side in SIDES}


def compute(inputs: Inputs) -> Outputs:
    """Return losses and gradients by the sums of log-probs, per pair, and those of KTO per answer.

    The conservative DPO loss is CPO's, of log-ratios: DPOTrainer has none of that name.
    """
    smoothing = CONSTANTS["label_smoothing"]
    return {
        "dpo": _of_pairs(inputs, _dpo(inputs, "sigmoid")),
        "ipo": _of_pairs(inputs, _dpo(inputs, "ipo")),
        "cdpo": _of_pairs(inputs, _cpo(inputs, "sigmoid", smoothing)),
        "simpo": _of_pairs(inputs, _cpo(inputs, "simpo", 0.0)),
        "odds_ratio": _of_pairs(inputs, _odds_ratio(inputs)),
        "orpo": _of_pairs(inputs, _orpo(inputs)),
        "kto": kto(inputs),
    }


def kto(inputs: Inputs) -> Outputs:
    """Return KTOTrainer's loss of all answers, good ones first, its baseline and its gradient."""
    sums, reference, counts = (
        [each for side in SIDES for each in inputs[f"{side}_{name}"]]
        for name in ("logprobs", "reference", "tokens")
    )
    leaf = torch.tensor(sums, requires_grad=True)
    zeros = torch.zeros(len(sums))
    trainer = make_trainer(
        "trl.trainer.kto_trainer",
        "KTOTrainer",
        model=(model := _spread(leaf, counts)),
        loss_type="kto",
        calculate_KL=True,
        precompute_ref_logps=True,
        beta=CONSTANTS["beta"],
        desirable_weight=CONSTANTS["desirable_weight"],
        undesirable_weight=CONSTANTS["undesirable_weight"],
        _compute_kl_logps=always(torch.tensor(inputs["mismatched"])),
    )
    batch = _batch(counts) | {
        "label": torch.tensor([True] * NUM_PAIRS + [False] * NUM_PAIRS),
        "ref_logps": torch.tensor(reference),
        "ref_KL_logps": zeros[:NUM_PAIRS],
    }
    loss = trainer.compute_loss(model, batch)
    (gradient,) = torch.autograd.grad(loss, leaf)
    (baseline,) = trainer._metrics["train"]["kl"]
    return {"loss": loss.item(), "baseline": baseline, "gradient": gradient.tolist()}


def reward_losses(inputs: Inputs) -> Outputs:
    """Return RewardTrainer's loss of every pair, and its gradients by both rewards."""
    trainer = make_trainer(
        "trl.trainer.reward_trainer",
        "RewardTrainer",
        model=SimpleNamespace(training=False),
        args=make_arguments(center_rewards_coefficient=REWARD_CONSTANTS["centring"]),
    )

    def loss(rewards: Tensor, _: int) -> Tensor:
        margin = torch.tensor([REWARD_CONSTANTS["margin"]])
        model = always(SimpleNamespace(logits=rewards[:, None]))
        return trainer.compute_loss(model, {"margin": margin})

    return _losses_and_gradients(inputs["chosen"], inputs["rejected"], loss)


def _dpo(inputs: Inputs, loss_type: str) -> Loss:
    def loss(sums: Tensor, pair: int) -> Tensor:
        counts = [inputs[f"{side}_tokens"][pair] for side in SIDES]
        trainer = make_trainer(
            "trl.trainer.dpo_trainer",
            "DPOTrainer",
            model=(model := _spread(sums, counts)),
            loss_types=[loss_type],
            loss_weights=[1.0],
            beta=CONSTANTS["beta"],
            f_divergence_type="reverse_kl",
            ld_alpha=None,
            use_weighting=False,
            precompute_ref_logps=True,
        )
        batch = _batch(counts) | {
            f"ref_{side}_logps": torch.tensor([inputs[f"{side}_reference"][pair]]) for side in SIDES
        }
        return trainer.compute_loss(model, batch)

    return loss


def _cpo(inputs: Inputs, loss_type: str, label_smoothing: float) -> Loss:
    trainer = make_trainer(
        "trl.experimental.cpo",
        "CPOTrainer",
        alpha=0.0,
        loss_type=loss_type,
        beta=CONSTANTS["beta"],
        simpo_gamma=CONSTANTS["margin"],
        label_smoothing=label_smoothing,
    )
    means = loss_type == "simpo"  # Of log-probs; else the sums of log-ratios.

    def loss(sums: Tensor, pair: int) -> Tensor:
        counts, reference = (
            torch.tensor([float(inputs[f"{side}_{name}"][pair]) for side in SIDES])
            for name in ("tokens", "reference")
        )
        chosen, rejected = sums / counts if means else sums - reference
        return trainer.cpo_loss(chosen, rejected)[0]

    return loss


def _odds_ratio(inputs: Inputs) -> Loss:
    trainer = make_trainer("trl.experimental.orpo", "ORPOTrainer", beta=CONSTANTS["beta"])

    def loss(sums: Tensor, pair: int) -> Tensor:
        counts = torch.tensor([float(inputs[f"{side}_tokens"][pair]) for side in SIDES])
        chosen, rejected = sums / counts
        return trainer.odds_ratio_loss(chosen, rejected)[0]

    return loss


def _orpo(inputs: Inputs) -> Loss:
    """Return ORPO's whole loss, a pair a batch, behind a prompt of one token.

    Its likelihood is the mean over all tokens that follow another one: of these prompts none does.
    """
    trainer = make_trainer(
        "trl.experimental.orpo",
        "ORPOTrainer",
        beta=CONSTANTS["beta"],
        is_encoder_decoder=False,
        padding_value=0,
    )

    def loss(sums: Tensor, pair: int) -> Tensor:
        counts = [inputs[f"{side}_tokens"][pair] for side in SIDES]
        # Of two words, with logits 0 and z: log p of the other one is log sigma(z).
        means = pad_rows(
            (sums / torch.tensor(counts)).repeat_interleave(torch.tensor(counts)), counts
        )
        scores = means - torch.log(-torch.expm1(means.clamp(max=-1e-9)))
        logits = torch.stack([torch.zeros_like(scores), scores], dim=-1)
        behind = torch.cat([logits, torch.zeros_like(logits[:, :1])], dim=1)

        def model(ids: Tensor, **_: object) -> SimpleNamespace:
            return SimpleNamespace(logits=behind[:, : ids.shape[1]])

        batch: dict[str, Tensor] = {}
        for side, count in zip(SIDES, counts, strict=True):
            ones = torch.ones(1, count + 1, dtype=torch.int64)
            batch[f"{side}_input_ids"] = batch[f"{side}_attention_mask"] = ones
            batch[f"{side}_labels"] = torch.cat([ones[:, :1] * -100, ones[:, 1:]], dim=1)
        return trainer.get_batch_loss_metrics(model, batch)[0]

    return loss


def _of_pairs(inputs: Inputs, loss: Loss) -> Outputs:
    return _losses_and_gradients(inputs["chosen_logprobs"], inputs["rejected_logprobs"], loss)


def _losses_and_gradients(chosen: list[float], rejected: list[float], loss: Loss) -> Outputs:
    found: Outputs = {"loss": [], "chosen_gradient": [], "rejected_gradient": []}
    for pair, sides in enumerate(zip(chosen, rejected, strict=True)):
        leaf = torch.tensor(sides, requires_grad=True)
        value = loss(leaf, pair)
        (gradient,) = torch.autograd.grad(value, leaf)
        for name, each in zip(found, (value.item(), *gradient.tolist()), strict=True):
            found[name].append(each)
    return found


def _spread(sums: Tensor, counts: list[int]) -> GivenModel:
    """Return a model that gives every token of an answer the same share of its sum."""
    per_token = (sums / torch.tensor(counts)).repeat_interleave(torch.tensor(counts))
    logprobs = pad_rows(per_token, counts)
    return GivenModel(log_probs=logprobs, entropy=torch.zeros_like(logprobs.detach()))


def _batch(counts: list[int]) -> dict[str, Tensor]:
    """Return answers behind a prompt of one token."""
    answers = pad_rows(torch.ones(sum(counts), dtype=torch.int64), counts)
    prompts = torch.ones(len(counts), 1, dtype=torch.int64)
    tokens = torch.cat([prompts, answers], dim=1)
    return {
        "input_ids": tokens,
        "attention_mask": tokens,
        "completion_mask": torch.cat([prompts * 0, answers], dim=1),
    }


def main() -> None:
    """Draw inputs, ask trl, write its answers."""
    os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
    inputs, rewards = draw_inputs(random.Random(SEED)), draw_rewards(random.Random(SEED))
    write_golden(GOLDEN, constants=CONSTANTS, inputs=inputs, outputs=compute(inputs))
    write_golden(
        REWARD_GOLDEN, constants=REWARD_CONSTANTS, inputs=rewards, outputs=reward_losses(rewards)
    )


if __name__ == "__main__":
    main()
