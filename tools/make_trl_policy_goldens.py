"""Write what trl computes of policies, for the tests of losses and advantages to compare with.

`uv run --no-project --with trl python tools/make_trl_policy_goldens.py` writes
tests/trainer/algorithms/golden/trl.json. trl is needed for that alone. Every number comes out of a
method of one of its trainers.
"""

import random
from collections.abc import Sequence
from importlib import import_module
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

GOLDEN = TESTS / "algorithms" / "golden" / "trl.json"
GROUP_SIZE = 4
CONTEXTS = (1, 10, 11, 12, 13, 15, 16, 17, 30)
"""Tokens of contexts, some of which come close to the longest, or go beyond it."""
LENGTHS = (3, 5, 1, 4, 2, 4, 3, 2, 5, 1, 3, 4)
UNTRAINED_ROW = 6
CONSTANTS = {
    "clip": 0.2,
    "clip_high": 0.28,
    "gspo_clip": 0.1,
    "max_weight": 1.3,
    "min_weight": 0.8,
    "dual_clip": 1.25,
    "max_tokens": 16,
    "overlong_tokens": 4,
    "kl_coefficient": 0.3,
    "entropy_coefficient": 0.2,
}


def draw_inputs(rng: random.Random) -> Inputs:
    """Draw groups of rows, their tokens one after the other.

    One reward is missing, as its reward function failed; those of the last group are equal.
    """

    def drawn(spread: float, centre: Sequence[float]) -> list[float]:
        return [round(value + rng.gauss(0.0, spread), 4) for value in centre]

    rows = [row for row, length in enumerate(LENGTHS) for _ in range(length)]
    logprobs = [round(-abs(value) - 1.0, 4) for value in drawn(1.0, [0.0] * len(rows))]
    old_logprobs = drawn(0.3, logprobs)
    rewards: list[float | None] = [*drawn(1.0, [0.0] * 8), 0.5, 0.5, 0.5, 0.5]
    rewards[5] = None
    return {
        "lengths": list(LENGTHS),
        "mask": [int(row != UNTRAINED_ROW and rng.random() < 0.8) for row in rows],
        "logprobs": logprobs,
        "old_logprobs": old_logprobs,
        "behaviour_logprobs": drawn(0.2, old_logprobs),
        "reference_logprobs": drawn(0.5, logprobs),
        "entropies": [abs(value) for value in drawn(1.0, [0.0] * len(rows))],
        "advantages": drawn(1.0, [0.0] * len(LENGTHS)),
        "rewards": rewards,
        "contexts": list(CONTEXTS),
    }


def compute(inputs: Inputs) -> Outputs:
    """Return what trl makes of groups of rows."""
    clip, limit = CONSTANTS["clip"], CONSTANTS["max_weight"]
    cases: dict[str, dict[str, Any]] = {
        "grpo": {"loss_type": "grpo"},
        "bnpo": {"loss_type": "bnpo"},
        "dr_grpo": {"loss_type": "dr_grpo"},
        "dapo": {"loss_type": "dapo", "epsilon_high": CONSTANTS["clip_high"]},
        "cispo": {"loss_type": "cispo", "epsilon_high": limit},
        "gspo": {
            "loss_type": "grpo",
            "importance_sampling_level": "sequence",
            "epsilon_low": CONSTANTS["gspo_clip"],
            "epsilon_high": CONSTANTS["gspo_clip"],
        },
        "two_sided": {"loss_type": "dapo", "delta": CONSTANTS["dual_clip"]},
        "kl": {"loss_type": "dapo", "beta": CONSTANTS["kl_coefficient"]},
        "entropy": {
            "loss_type": "dapo",
            "_entropy_bonus_enabled": True,
            "entropy_coef": CONSTANTS["entropy_coefficient"],
        },
        "engine": {"loss_type": "dapo", "use_vllm": True},
    }
    modes = [f"{level}_{what}" for level in ("token", "sequence") for what in ("truncate", "mask")]
    scales = ("group", "batch", "none")
    first = {"beta": 0.0, "normalize_advantages": False}
    return {
        "losses": {name: grpo_loss(inputs, clip, **case) for name, case in cases.items()},
        "weights": {mode: grpo_scores(inputs, mode=mode)[1] for mode in modes},
        "advantages": {scale: grpo_scores(inputs, scale=scale)[0] for scale in scales},
        "rloo_advantages": rloo_advantages(inputs, **first),
        "rloo_whitened": rloo_advantages(inputs, **first | {"normalize_advantages": True}),
        "rloo_penalised": rloo_advantages(inputs, **first | {"beta": CONSTANTS["kl_coefficient"]}),
        "rloo_loss": rloo_loss(inputs, clip),
        "rloo_moved": rloo_moved_loss(inputs, clip),
        "overlong": soft_overlong(),
    }


def grpo_loss(inputs: Inputs, clip: float, **case: Any) -> Outputs:  # noqa: ANN401 - settings of trl
    """Return GRPOTrainer's loss and its gradient by the log-probs."""
    leaf = torch.tensor(inputs["logprobs"], requires_grad=True)
    model = GivenModel(log_probs=pad_rows(leaf, LENGTHS), entropy=_padded(inputs, "entropies"))
    defaults = {
        "importance_sampling_level": "token",
        "epsilon_low": clip,
        "epsilon_high": clip,
        "beta": 0.0,
        "use_vllm": False,
        "_entropy_bonus_enabled": False,
    }
    trainer = make_trainer(
        "trl.trainer.grpo_trainer",
        "GRPOTrainer",
        model=model,
        args=make_arguments(delta=case.pop("delta", None), use_bias_correction_kl=False),
        top_entropy_quantile=1.0,
        off_policy_mask_threshold=None,
        use_adaptive_entropy=False,
        vllm_importance_sampling_correction=True,
        current_gradient_accumulation_steps=1,
        max_completion_length=CONSTANTS["max_tokens"],
        **defaults | case,
    )
    batch = _batch() | {
        "tool_mask": _padded(inputs, "mask").long(),
        "advantages": torch.tensor(inputs["advantages"]),
        "old_per_token_logps": _padded(inputs, "old_logprobs"),
        "ref_per_token_logps": _padded(inputs, "reference_logprobs"),
        "num_items_in_batch": torch.tensor(sum(inputs["mask"])),
    }
    if trainer.use_vllm:
        weights = grpo_scores(inputs, mode="token_truncate")[1]
        batch["importance_sampling_ratio"] = pad_rows(torch.tensor(weights), LENGTHS)
    return _loss_and_gradient(trainer.compute_loss(model, batch), leaf)


def grpo_scores(
    inputs: Inputs, *, scale: str = "none", mode: str = "token_truncate"
) -> tuple[list[float], list[float]]:
    """Return GRPOTrainer's advantages of rows, and its weights of tokens or of rows."""
    old = GivenModel(
        log_probs=_padded(inputs, "old_logprobs"), entropy=_padded(inputs, "entropies")
    )
    masks = [row.tolist() for row in torch.tensor(inputs["mask"]).split(list(LENGTHS))]
    emitted = torch.tensor(inputs["behaviour_logprobs"]).split(list(LENGTHS))
    ids = [[1] * length for length in LENGTHS]
    generated = ([[1]] * len(LENGTHS), ids, masks, ids, emitted, {}, None, None)
    trainer = make_trainer(
        "trl.trainer.grpo_trainer",
        "GRPOTrainer",
        _generate=always(generated),
        num_iterations=1,
        scale_rewards=scale,
        multi_objective_aggregation="sum_then_normalize",
        use_vllm=True,
        vllm_importance_sampling_correction=True,
        vllm_importance_sampling_mode=mode,
        vllm_importance_sampling_clip_min=(
            CONSTANTS["min_weight"] if mode.endswith("mask") else None
        ),
        vllm_importance_sampling_clip_max=CONSTANTS["max_weight"],
        beta=0.0,
        tools=None,
        environments=None,
        environment_factories=None,
        **_scoring(inputs, old),
    )
    scored = trainer._generate_and_score_completions([{"prompt": ""}] * len(LENGTHS))
    weights = scored["importance_sampling_ratio"]
    by_token = weights.shape[1] > 1
    kept = [row[:length] for row, length in zip(weights, LENGTHS, strict=True)]
    return scored["advantages"].tolist(), (torch.cat(kept) if by_token else weights[:, 0]).tolist()


def rloo_advantages(inputs: Inputs, **settings: Any) -> list[float]:  # noqa: ANN401 - of trl
    """Return RLOOTrainer's advantages of rows."""
    models = {
        name: GivenModel(log_probs=_padded(inputs, name), entropy=_padded(inputs, "entropies"))
        for name in ("old_logprobs", "reference_logprobs")
    }
    ids = [[1] * length for length in LENGTHS]
    trainer = make_trainer(
        "trl.trainer.rloo_trainer",
        "RLOOTrainer",
        _generate=always(([[1]] * len(LENGTHS), ids, ids)),
        ref_model=models["reference_logprobs"],
        reward_clip_range=None,
        **_scoring(inputs, models["old_logprobs"]),
        **settings,
    )
    scored = trainer._generate_and_score_completions([{"prompt": ""}] * len(LENGTHS))
    return scored["advantages"].tolist()


def rloo_loss(inputs: Inputs, clip: float) -> Outputs:
    """Return RLOOTrainer's loss of a step's first update, all tokens trained, and its gradient."""
    leaf = torch.tensor(inputs["logprobs"], requires_grad=True)
    model = GivenModel(log_probs=pad_rows(leaf, LENGTHS), entropy=_padded(inputs, "entropies"))
    trainer = make_trainer(
        "trl.trainer.rloo_trainer",
        "RLOOTrainer",
        model=model,
        args=make_arguments(),
        epsilon_low=clip,
        epsilon_high=clip,
    )
    batch = _batch() | {
        "advantages": torch.tensor(inputs["advantages"]),
        "old_logps": _padded(inputs, "logprobs").sum(1),
    }
    return _loss_and_gradient(trainer.compute_loss(model, batch), leaf)


def rloo_moved_loss(inputs: Inputs, clip: float) -> Outputs:
    """Return RLOOTrainer's loss of rows of one token that have moved away, and its gradient.

    Its ratio is that of a row: with one token each that is the token's.
    """
    num_rows = len(LENGTHS)
    leaf = torch.tensor(inputs["logprobs"][:num_rows], requires_grad=True)
    model = GivenModel(log_probs=leaf[:, None], entropy=torch.zeros(num_rows, 1))
    trainer = make_trainer(
        "trl.trainer.rloo_trainer",
        "RLOOTrainer",
        model=model,
        args=make_arguments(),
        epsilon_low=clip,
        epsilon_high=clip,
    )
    ones = torch.ones(num_rows, 1, dtype=torch.int64)
    batch = dict.fromkeys(("prompt_ids", "prompt_mask", "completion_ids", "completion_mask"), ones)
    moved = {
        "advantages": torch.tensor(inputs["advantages"]),
        "old_logps": torch.tensor(inputs["old_logprobs"][:num_rows]),
    }
    return _loss_and_gradient(trainer.compute_loss(model, batch | moved), leaf)


def soft_overlong() -> list[float]:
    """Return trl's punishment of long completions."""
    function = import_module("trl.rewards").get_soft_overlong_punishment(
        max_completion_len=CONSTANTS["max_tokens"], soft_punish_cache=CONSTANTS["overlong_tokens"]
    )
    return function([[1] * tokens for tokens in CONTEXTS])


def _scoring(inputs: Inputs, model: GivenModel) -> dict[str, Any]:
    """Return what both trainers read when they score what was generated."""
    rewards = [float("nan") if each is None else each for each in inputs["rewards"]]
    logs = {"prompt": [], "completion": [], "rewards": {"given": []}, "advantages": []}
    return {
        "model": model,
        "args": make_arguments(per_device_train_batch_size=len(LENGTHS)),
        "_calculate_rewards": always(torch.tensor(rewards)[:, None]),
        "reward_weights": torch.ones(1),
        "reward_func_names": ["given"],
        "num_generations": GROUP_SIZE,
        "mask_truncated_completions": False,
        "pad_to_multiple_of": None,
        "_tokenizer": SimpleNamespace(pad_token_id=0),
        "_logs": logs,
        "_pending_extra_logs": {},
        "_pending_metrics": {},
    }


def _batch() -> dict[str, Tensor]:
    ones = torch.ones(len(LENGTHS), 1, dtype=torch.int64)
    completions = pad_rows(torch.ones(sum(LENGTHS), dtype=torch.int64), LENGTHS)
    return {
        "prompt_ids": ones,
        "prompt_mask": ones,
        "completion_ids": completions,
        "completion_mask": completions,
    }


def _padded(inputs: Inputs, name: str) -> Tensor:
    return pad_rows(torch.tensor(inputs[name]), LENGTHS)


def _loss_and_gradient(loss: Tensor, leaf: Tensor) -> Outputs:
    (gradient,) = torch.autograd.grad(loss, leaf)
    return {"loss": loss.item(), "gradient": gradient.tolist()}


def main() -> None:
    """Draw inputs, ask trl, write its answers."""
    inputs = draw_inputs(random.Random(SEED))
    write_golden(GOLDEN, constants=CONSTANTS, inputs=inputs, outputs=compute(inputs))


if __name__ == "__main__":
    main()
