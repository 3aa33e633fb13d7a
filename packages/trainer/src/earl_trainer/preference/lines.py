"""Lines: the tokens of one context, and which of them are trained.

A line of play or of conversation begins at a state and goes on to its end; what another said in it
is context.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from earl_dispatch import Columns
from torch import Tensor

from earl_trainer.experience.sequences import CHOSEN_TOKENS
from earl_trainer.preference.dataset import Demonstration
from earl_trainer.rollout.chat import ChatFormat, Dialogue
from earl_trainer.rollout.engine import NO_WEIGHTS
from earl_trainer.types import Turn

DESIRABLE, MISMATCHED = "desirable", "mismatched"
"""Columns per row of a judged answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One context."""

    token_ids: tuple[int, ...]
    trained: tuple[bool, ...]
    num_prompt: int
    """Tokens before the first that is trained."""

    @property
    def prompt_ids(self) -> tuple[int, ...]:
        """Everything before the first trained token."""
        return self.token_ids[: self.num_prompt]

    @property
    def answer_ids(self) -> tuple[int, ...]:
        """Everything after the prompt."""
        return self.token_ids[self.num_prompt :]


def encode_turns(chat: ChatFormat, shown: Demonstration) -> list[Turn]:
    """Write every reply of a demonstration as a model would emit it, behind its context.

    Raises:
        ValueError: If the answer has several replies and the template rewrites earlier ones.
    """
    dialogue = chat.open(shown.prompt)
    turns: list[Turn] = []
    for place, (_, text) in enumerate(shown.completion):
        if place % 2:
            dialogue = chat.extend(dialogue, turns[-1].reply_ids, text)
            continue
        if turns and not chat.append_only:
            raise ValueError(
                f"{shown.origin}: the chat template rewrites earlier turns: an answer must be one "
                f"reply, got {len(shown.completion) // 2 + 1}"
            )
        turns.append(_scripted(dialogue, chat.encode_reply(text), text))
    return turns


def _scripted(dialogue: Dialogue, reply_ids: tuple[int, ...], text: str) -> Turn:
    return Turn(
        prompt_ids=dialogue.prompt_ids,
        reply_ids=reply_ids,
        logprobs=(0.0,) * len(reply_ids),
        versions=(NO_WEIGHTS,) * len(reply_ids),
        text=text,
        action=None,
        cut=False,
    )


def line_of(turns: Sequence[Turn], *, first: int = 0) -> Line:
    """Lay turns out as one context in which the replies from `first` on are trained.

    It ends before a turn whose prompt does not go on from what was before, as a chat template
    rewrote it: the reply was given in another context.

    Args:
        turns: Of one conversation, in order.
        first: Index of the first trained reply.
    """
    prompt = turns[first].prompt_ids
    token_ids, trained = list(prompt), [False] * len(prompt)
    for turn in turns[first:]:
        if list(turn.prompt_ids[: len(token_ids)]) != token_ids:
            break
        token_ids += turn.prompt_ids[len(token_ids) :]
        trained += [False] * (len(token_ids) - len(trained))
        token_ids += turn.reply_ids
        trained += [True] * len(turn.reply_ids)
    return Line(token_ids=tuple(token_ids), trained=tuple(trained), num_prompt=len(prompt))


def demonstration_columns(lines: Sequence[Line]) -> Columns:
    """Return a row per line, to be imitated: every token has advantage 1, every line is a group."""
    trained = [float(sum(line.trained)) for line in lines]
    columns = _columns(
        [[line] for line in lines], {"group_tokens": torch.tensor(trained, dtype=torch.float32)}
    )
    ones = torch.ones(columns.num_tokens)
    return replace(columns, per_token={**columns.per_token, "advantages": ones})


def pair_columns(pairs: Sequence[tuple[Line, Line]]) -> Columns:
    """Return a row per pair: the chosen line, then the other.

    A pair is one row so that no shuffling, packing or sending takes it apart;
    `experience.sequences.sequence_lengths` says where its sequences begin.

    Args:
        pairs: (chosen, rejected).
    """
    chosen_tokens = [len(chosen.token_ids) for chosen, _ in pairs]
    return _columns(pairs, {CHOSEN_TOKENS: torch.tensor(chosen_tokens, dtype=torch.int64)})


def judged_columns(judged: Sequence[tuple[Line, bool]], mismatched: Sequence[Line]) -> Columns:
    """Return a row per answer, and behind them a row per answer to another's prompt.

    Args:
        judged: Answers, and whether each is good.
        mismatched: Of `mismatched.mismatched_lines`, for KTO's baseline.
    """
    lines, good = [line for line, _ in judged], [is_good for _, is_good in judged]
    others = [True] * len(mismatched)
    return _columns(
        [[line] for line in (*lines, *mismatched)],
        {
            DESIRABLE: torch.tensor([*good, *(False for _ in others)], dtype=torch.bool),
            MISMATCHED: torch.tensor([*(False for _ in lines), *others], dtype=torch.bool),
        },
    )


def _columns(rows: Sequence[Sequence[Line]], per_row: dict[str, Tensor]) -> Columns:
    lengths = [sum(len(line.token_ids) for line in row) for row in rows]
    token_ids = [token for row in rows for line in row for token in line.token_ids]
    trained = [flag for row in rows for line in row for flag in line.trained]
    num_tokens = len(token_ids)
    return Columns(
        lengths=torch.tensor(lengths, dtype=torch.int64),
        per_token={
            "token_ids": torch.tensor(token_ids, dtype=torch.int32),
            "mask": torch.tensor(trained, dtype=torch.bool),
            "rollout_logprobs": torch.zeros(num_tokens, dtype=torch.float32),
            "versions": torch.full((num_tokens,), NO_WEIGHTS, dtype=torch.int32),
        },
        per_row=per_row,
    )
