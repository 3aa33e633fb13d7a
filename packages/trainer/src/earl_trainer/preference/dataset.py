"""Demonstrations, pairs and judged answers from data sets of conversations.

The fields are those of the Hugging Face `trl` library ("Dataset formats and types", huggingface.co
/docs/trl/dataset_formats):

| what | fields |
|---|---|
| demonstrations | `messages`, or `prompt` and `completion` |
| pairs | `chosen` and `rejected`, with `prompt` or with a common beginning |
| judged answers | `prompt`, `completion` and `label` |

Each is a list of `{"role": ..., "content": ...}`, or a text: of the user in `prompt`, else of the
assistant.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from earl_trainer.preference.records import Record, read_records

Messages = tuple[tuple[str, str], ...]
"""(role, text), as in `rollout.chat`."""

_SYSTEM, _USER, _ASSISTANT = "system", "user", "assistant"


@dataclass(frozen=True, slots=True, kw_only=True)
class Demonstration:
    """An answer to be imitated."""

    prompt: Messages
    """Ends with the user's turn."""
    completion: Messages
    """Begins and ends with the assistant's turn."""
    origin: str
    """Where it comes from, for messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two answers to one prompt, the first of which is preferred."""

    chosen: Demonstration
    rejected: Demonstration


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """An answer that is good or bad by itself."""

    answer: Demonstration
    desirable: bool


def read_demonstrations(path: Path) -> list[Demonstration]:
    """Read answers to imitate.

    Raises:
        ValueError: Naming the line, the field and what is wrong with it.
    """
    return [_demonstration(record) for record in _records(path)]


def read_pairs(path: Path) -> list[Pair]:
    """Read pairs.

    Raises:
        ValueError: Naming the line, the field and what is wrong with it; equal answers among it.
    """
    return [_pair(record) for record in _records(path)]


def read_judged(path: Path) -> list[Judged]:
    """Read answers with a label.

    Raises:
        ValueError: Naming the line, the field and what is wrong with it; or if all labels are
            alike.
    """
    answers = [_judged(record) for record in _records(path)]
    kinds = {answer.desirable for answer in answers}
    if len(kinds) == 1:
        missing = str(not kinds.pop()).lower()
        raise ValueError(
            f"{str(path)!r}: judged answers must be good and bad, none has label {missing}"
        )
    return answers


def _records(path: Path) -> list[Record]:
    records = read_records(path)
    if not records:
        raise ValueError(f"{str(path)!r} holds no line of data")
    return records


def _demonstration(record: Record) -> Demonstration:
    if "messages" not in record.values:
        return _answer(record, "completion", _prompt(record))
    messages = _messages(record, "messages", text_role=_USER)
    roles = [role for role, _ in messages]
    if _ASSISTANT not in roles:
        raise record.problem("messages", "a turn of the assistant is needed, there is none")
    first = roles.index(_ASSISTANT)
    return _checked(record, "messages", messages[:first], messages[first:])


def _pair(record: Record) -> Pair:
    sides = [_messages(record, field, text_role=_ASSISTANT) for field in ("chosen", "rejected")]
    if all(side[0][0] != _ASSISTANT for side in sides):
        # Whole conversations: they part after the prompt.
        common = _common_length(*sides)
        prompt, sides = sides[0][:common], [side[common:] for side in sides]
    else:
        prompt = _prompt(record)
    chosen, rejected = (
        _checked(record, field, prompt, side)
        for field, side in zip(("chosen", "rejected"), sides, strict=True)
    )
    if chosen.completion == rejected.completion:
        raise record.problem("rejected", "must differ from 'chosen', both are the same")
    return Pair(chosen=chosen, rejected=rejected)


def _judged(record: Record) -> Judged:
    label = record.values.get("label")
    if not isinstance(label, bool):
        raise record.problem("label", f"must be true or false, got {label!r}")
    return Judged(answer=_answer(record, "completion", _prompt(record)), desirable=label)


def _common_length(first: Messages, second: Messages) -> int:
    length = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        length += 1
    return length


def _prompt(record: Record) -> Messages:
    return _messages(record, "prompt", text_role=_USER)


def _answer(record: Record, field: str, prompt: Messages) -> Demonstration:
    return _checked(record, field, prompt, _messages(record, field, text_role=_ASSISTANT))


def _messages(record: Record, field: str, *, text_role: str) -> Messages:
    if field not in record.values:
        raise record.problem(field, f"is missing; the line has {', '.join(record.values)}")
    content = record.values[field]
    messages = [{"role": text_role, "content": content}] if isinstance(content, str) else content
    if not _is_list(messages) or not messages:
        raise record.problem(field, f"must be a text or a list of messages, got {content!r}")
    return tuple(_message(record, field, message) for message in messages)


def _message(record: Record, field: str, message: object) -> tuple[str, str]:
    if not _is_object(message) or not {"role", "content"} <= message.keys():
        raise record.problem(field, f"a message has a role and a content, got {message!r}")
    role, content = message["role"], message["content"]
    if role not in (_SYSTEM, _USER, _ASSISTANT):
        raise record.problem(field, f"roles are system, user and assistant, got {role!r}")
    if not isinstance(content, str) or not content.strip():
        raise record.problem(field, f"a message must say something, got {content!r}")
    return role, content


def _checked(record: Record, field: str, prompt: Messages, completion: Messages) -> Demonstration:
    """Refuse turns in another order than a game has them."""
    if not completion:
        raise record.problem(field, "nothing is left of it after the prompt")
    talk = [role for role, _ in (*prompt, *completion)]
    if talk[0] == _SYSTEM:
        talk = talk[1:]
    turns = [(_USER, _ASSISTANT)[place % 2] for place in range(len(talk))]
    if talk != turns or completion[0][0] != _ASSISTANT or completion[-1][0] != _ASSISTANT:
        raise record.problem(
            field,
            "user and assistant must take turns, after a system message if any, the prompt ending "
            f"with the user and the answer with the assistant, got {', '.join(talk)}",
        )
    return Demonstration(
        prompt=prompt, completion=completion, origin=f"{record.file}, line {record.number}"
    )


def _is_list(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, list)


def _is_object(value: object) -> TypeGuard[Mapping[str, Any]]:  # Any: parsed JSON
    return isinstance(value, dict)
