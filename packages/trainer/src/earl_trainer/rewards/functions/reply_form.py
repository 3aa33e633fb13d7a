"""Whether replies have the form that they are asked for."""

import re

from earl_trainer.rewards.transcript import Transcript

_FORM = re.compile(
    r"\s*(<think>.*?</think>\s*)?(\[[^\[\]<>]+\]|<answer>[^\[\]<>]+</answer>)\s*", re.DOTALL
)


def exact_form(transcript: Transcript) -> float:
    """Return the share of replies that are one `[move]` or `<answer>move</answer>`, nothing else.

    Reasoning within `<think>` may come first, once. A parser is kinder: this rewards what needs no
    kindness, as the format reward of DeepSeek-R1 (arXiv:2501.12948, section 2.2.2) does.
    """
    replies = transcript.replies
    return sum(_FORM.fullmatch(reply) is not None for reply in replies) / len(replies)
