"""How much was said."""

from earl_trainer.rewards.transcript import Transcript


def reply_tokens(transcript: Transcript) -> float:
    """Return the mean length of the replies, in tokens; its weight is negative, to be concise."""
    return sum(transcript.reply_tokens) / len(transcript.reply_tokens)
