"""How many tokens the turns of an episode take."""

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TokenUsage:
    """What one reply of one seat cost."""

    seat: int
    """Who replied."""
    turn: int
    """Turn of the episode, all seats together, from 0; a second try in a turn has the same."""
    prompt_tokens: int
    """Length of all messages sent for this reply, without a chat template's own tokens."""
    reply_tokens: int
    """Length of the reply."""
    cut: bool
    """Whether the reply was cut at a token limit."""


def rough_tokens(text: str) -> int:
    """Estimate a text's length as a quarter of its UTF-8 bytes, rounded up.

    OpenAI's rule of thumb for English is four characters a token
    (https://help.openai.com/en/articles/4936856); bytes make it a safer guess for other scripts. It
    is for planning only: pass `count_tokens` wherever there is a tokenizer.
    """
    # Replies may hold lone surrogates, which are no valid UTF-8.
    return -(-len(text.encode("utf-8", "surrogatepass")) // 4)
