"""Rewards of replies: what they are compared with, and the tokens that they stand on."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from earl_trainer.experience.trained_tokens import TrainedTokens


def compare_replies(
    of_replies: Sequence[Sequence[float]],
    compare: Callable[[Float[Tensor, " episodes"]], Float[Tensor, " episodes"]],
) -> list[Sequence[float]]:
    """Compare rewards of replies as the rewards of whole episodes are compared.

    A baseline B is affine in rewards, so that the score of a sum is that of its parts: B(r) =
    B(r - p) + B(p) - B(0) for the rewards p of all k-th replies, which come to B(p) - B(0). With
    a group's mean that is p_i - mean(p). So a reply is compared with what others got from there on,
    and not with what they had got before; a baseline may depend on anything but the action (Sutton
    and Barto, 2nd ed., section 13.4). Where nothing is said of an episode, as it is alone in its
    group or the rewards of that are all equal, nothing is said of its replies.

    Args:
        of_replies: [E] of [replies], shaped. An episode without a k-th reply has 0 there.
        compare: From rewards to scores.

    Returns:
        [E] of [replies].
    """
    most = max(map(len, of_replies), default=0)
    if not most:
        return list(of_replies)
    rewards = torch.zeros(most, len(of_replies))
    for number, parts in enumerate(of_replies):
        rewards[: len(parts), number] = torch.tensor(parts)
    nothing = compare(torch.zeros(len(of_replies)))
    compared = torch.stack([compare(each) - nothing for each in rewards], dim=1).tolist()
    return [own[: len(parts)] for own, parts in zip(compared, of_replies, strict=True)]


def place_rewards(
    scores: Float[Tensor, " episodes"],
    of_replies: Sequence[Sequence[float]],
    trained: TrainedTokens,
) -> Float[Tensor, "episodes steps"]:
    """Put an episode's score on its tokens: a reply's part on its last token, the rest at the end.

    The rest, which holds the part of the last reply, stands on the last trained token, whatever
    follows it in the row. So the sum over an episode's tokens is its score.

    Where not every reply has trained tokens, apart from those of others, nobody could say whose
    they are: all of the score then stands at the end.

    Args:
        scores: Of the episodes that have rows.
        of_replies: Of the same, compared; empty for an episode without parts.
        trained: Their tokens.
    """
    ends = trained.mask.sum(1, keepdim=True) - 1
    places = torch.arange(trained.mask.shape[1])
    following = torch.cat([trained.turns[:, 1:], trained.turns[:, -1:]], dim=1)
    closes_reply = (places < ends) & (following != trained.turns)
    parts = torch.zeros(trained.mask.shape)
    for number, own in enumerate(of_replies):
        if len(own) == int(trained.turns[number].max()) + 1:
            parts[number, : len(own)] = torch.tensor(own)
    earlier = torch.where(closes_reply, parts.gather(1, trained.turns), 0.0)
    rest = scores - earlier.sum(1)
    return torch.where(places == ends, rest[:, None], earlier)
