"""Reward models: a language model's body and a head that reads one number at the end of a row."""

import copy
from collections.abc import Sequence
from pathlib import Path

import torch
from jaxtyping import Float, Int64
from safetensors import SafetensorError
from torch import Tensor, nn
from transformers import AutoModelForSequenceClassification, PreTrainedModel

from earl_trainer.experience.packing import pack_first_fit
from earl_trainer.models.attention import ATTENTION, use_attention
from earl_trainer.models.packed_sequences import PackedSequences


def make_reward_model(policy: PreTrainedModel) -> PreTrainedModel:
    """Put a head of zeros on a copy of a policy's body: at first every reward is 0.

    Starting from the supervised policy without its last layer is InstructGPT's way (Ouyang et al.,
    arXiv:2203.02155, section 3.5). It is the library's model for sequence classification with one
    label, and loads as one elsewhere; but that one looks for the last token by its id, which is
    wrong where the padding and the end of a turn are one token. `last_rewards` goes by lengths.

    Args:
        policy: A causal language model; stays as it is.
    """
    config = copy.deepcopy(policy.config)
    config.num_labels = 1
    # What is drawn here is overwritten; the process-wide generator stays as it was.
    with torch.random.fork_rng(devices=[]):
        model = AutoModelForSequenceClassification.from_config(
            config, attn_implementation=ATTENTION
        )
    nn.Module.to(model, dtype=policy.dtype, device=policy.device)
    model.base_model.load_state_dict(policy.base_model.state_dict())
    nn.init.zeros_(head_of(model).weight)
    return model.eval()


def head_of(model: PreTrainedModel) -> nn.Linear:
    """Return a reward model's last layer, which the library calls `score` in every one."""
    head = model.score
    assert isinstance(head, nn.Linear)
    return head


def load_reward_model(folder: Path | str, *, device: torch.device) -> PreTrainedModel:
    """Load a folder that `save_pretrained` of a reward model has written.

    Raises:
        ValueError: If it cannot be loaded, or holds a model with another head.
    """
    try:
        model, report = AutoModelForSequenceClassification.from_pretrained(
            folder,
            dtype="auto",
            attn_implementation=ATTENTION,
            num_labels=1,
            output_loading_info=True,
        )
    except (OSError, ValueError, RuntimeError, ImportError, SafetensorError) as error:
        first_line = next(iter(str(error).splitlines()), type(error).__name__)
        raise ValueError(f"cannot load the reward model {str(folder)!r}: {first_line}") from error
    if missing := sorted(report["missing_keys"]):
        raise ValueError(f"{str(folder)!r} holds no reward model: it lacks {missing[0]}")
    nn.Module.to(model, device=device)
    return model.eval()


def last_rewards(
    model: PreTrainedModel,
    token_ids: Int64[Tensor, " tokens"],
    lengths: Int64[Tensor, " sequences"],
    ends: Int64[Tensor, " ends"],
) -> Float[Tensor, " ends"]:
    """Return the head's number at some tokens of packed sequences, in float32.

    Args:
        model: A reward model.
        token_ids: [tokens] of all sequences one after the other, at least one.
        lengths: [sequences] tokens of each.
        ends: [ends] places among the tokens: of the last one of a sequence, where it is asked for.
    """
    use_attention(model)
    packing = PackedSequences(lengths.tolist())
    hidden = model.base_model(
        input_ids=token_ids[None],
        position_ids=packing.position_ids.to(token_ids.device)[None],
        # Given, so that the library makes no mask of tokens x tokens; the packing does not look.
        attention_mask=torch.ones((1, 1, 1, 1), dtype=torch.bool, device=token_ids.device),
        use_cache=False,
        packing=packing,
    ).last_hidden_state[0]
    return head_of(model)(hidden[ends.to(token_ids.device)])[:, 0].float()


@torch.no_grad()
def score_contexts(
    model: PreTrainedModel, contexts: Sequence[Sequence[int]], *, max_tokens: int
) -> list[float]:
    """Return the reward of each context, read at its last token.

    Args:
        model: A reward model.
        contexts: Token ids of each, at least one.
        max_tokens: Tokens in one forward pass.

    Raises:
        ValueError: If a context is longer than `max_tokens`.
    """
    rewards = [0.0] * len(contexts)
    for rows in pack_first_fit([len(each) for each in contexts], capacity_tokens=max_tokens):
        lengths = torch.tensor([len(contexts[row]) for row in rows])
        token_ids = torch.tensor([token for row in rows for token in contexts[row]])
        found = last_rewards(model, token_ids.to(model.device), lengths, lengths.cumsum(0) - 1)
        for row, reward in zip(rows, found.tolist(), strict=True):
            rewards[row] = reward
    return rewards
