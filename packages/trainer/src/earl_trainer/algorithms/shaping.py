"""What becomes of an episode's reward before it is compared."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardShaping:
    """The constants; as they stand, a reward stays what it is."""

    scale: float = 1.0
    """Factor."""
    max_abs: float = 0.0
    """Bound of the scaled reward on both sides; 0 for none."""
    max_tokens: int = 1
    """Longest context."""
    overlong_share: float = 0.0
    """Share of the longest context, at its end, over which a growing penalty is taken off."""

    def factor(self, reward: float) -> float:
        """Return what every part of a reward is multiplied with as the whole is scaled and bounded.

        Where the bound holds, that is bounded / reward: all parts shrink alike, and still add up to
        the whole. The bound is that of the episode; a part alone may be larger. The penalty for a
        long context is no part of a reply's: it is the end that comes too late.

        Args:
            reward: Of an episode.
        """
        scaled = abs(self.scale * reward)
        bounded = self.max_abs and scaled > self.max_abs
        return self.scale * self.max_abs / scaled if bounded else self.scale

    def shape(self, reward: float, *, context_tokens: int) -> float:
        """Scale a reward, bound it, and take off the penalty for a context that is nearly too long.

        The penalty grows linearly from 0 to 1 over the buffer at the context's end: DAPO's soft
        overlong punishment, (L_max - L_cache - |y|) / L_cache (arXiv:2503.14476, eq. 13). Here
        |y| is the whole context of an episode, as its turns share one limit. It is taken off behind
        scale and bound, so that it weighs the same whatever these are.

        Args:
            reward: Of an episode.
            context_tokens: Length of its context when it ended.
        """
        shaped = self.scale * reward
        if self.max_abs:
            shaped = min(self.max_abs, max(-self.max_abs, shaped))
        buffer = self.overlong_share * self.max_tokens
        over = context_tokens - (self.max_tokens - buffer)
        return shaped - min(1.0, over / buffer) if buffer and over > 0.0 else shaped
