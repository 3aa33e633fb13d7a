"""Answers to other prompts, on which KTO's baseline is estimated."""

from collections.abc import Sequence

from earl_trainer.preference.lines import Line
from earl_trainer.workers.group import ALONE, Group


def mismatched_lines(
    lines: Sequence[Line], *, max_tokens: int, workers: Group = ALONE
) -> list[Line]:
    """Put answers to other prompts behind the prompts of a step's lines.

    Where all prompts differ, prompt i gets answer i + 1 and the last one the first, as in the
    authors' code (Ethayarajh et al., arXiv:2402.01306, section 4.1) and in TRL. Games come group by
    group, each with one first prompt, so that the next line mostly answers the same prompt: the
    k-th line of a prompt gets the k-th of those that answer others, counted from the next prompt
    on. A worker whose lines all have one prompt takes answers of other workers.

    Where the prompts of all workers are the same there is no mismatched answer and nothing is
    returned. Its own answers in their place would make the baseline the mean of the rewards that it
    is subtracted from, which is why TRL refuses a batch of one.

    Args:
        lines: Of this worker.
        max_tokens: Of one context; longer answers are cut.
        workers: All that have lines; they call this together.

    Returns:
        One per line, in an order of their own; none where there is no other prompt.
    """
    told = workers.all_gather(_spares(lines))
    elsewhere = [line for spares in told for line in spares]
    by_prompt = _by_prompt(lines)
    in_order = [line for block in by_prompt.values() for line in block]
    mixed: list[Line] = []
    end = 0
    for prompt, block in by_prompt.items():
        end += len(block)
        others = [*in_order[end:], *in_order[: end - len(block)]] or [
            line for line in elsewhere if line.prompt_ids != prompt
        ]
        mixed += [
            _mismatch(line, others[place % len(others)], max_tokens)
            for place, line in enumerate(block)
            if others
        ]
    return mixed


def _by_prompt(lines: Sequence[Line]) -> dict[tuple[int, ...], list[Line]]:
    blocks: dict[tuple[int, ...], list[Line]] = {}
    for line in lines:
        blocks.setdefault(line.prompt_ids, []).append(line)
    return blocks


def _spares(lines: Sequence[Line]) -> list[Line]:
    """Return lines of two prompts: one of them is another than that of a worker who has but one."""
    return [block[0] for block in list(_by_prompt(lines).values())[:2]]


def _mismatch(line: Line, other: Line, max_tokens: int) -> Line:
    return Line(
        token_ids=(*line.prompt_ids, *other.answer_ids)[:max_tokens],
        trained=(*line.trained[: line.num_prompt], *other.trained[other.num_prompt :])[:max_tokens],
        num_prompt=line.num_prompt,
    )
