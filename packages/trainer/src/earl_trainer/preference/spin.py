"""SPIN: demonstrations against what the policy answers in their place."""

from collections.abc import Sequence

from earl_envs import Failure

from earl_trainer.preference.lines import Line, line_of
from earl_trainer.rollout.policies import Query, ReplyPolicy
from earl_trainer.seeding import derive_seed
from earl_trainer.types import EpisodeStart, Turn


def pairs_against(
    policy: ReplyPolicy,
    demonstrations: Sequence[Sequence[Turn]],
    *,
    max_reply_tokens: int,
    max_context_tokens: int,
    seed: int,
) -> list[tuple[Line, Line]]:
    """Pair every demonstrated reply with the policy's own in the same context.

    The opponent player of self-play fine-tuning (Chen et al., arXiv:2401.01335, section 4). Where
    both say the same there is nothing to tell apart, and no pair.

    Args:
        policy: The opponent, as it was before the iterate.
        demonstrations: The replies of each, in order.
        max_reply_tokens: A longer reply of the policy is cut.
        max_context_tokens: So is one that goes beyond it; every demonstrated reply fits.
        seed: Of the policy's sampling.

    Returns:
        (demonstrated, the policy's).
    """
    turns = [turn for shown in demonstrations for turn in shown]
    replies = policy.reply([
        Query(
            start=EpisodeStart(
                episode=place,
                table=place,
                group=place,
                seat=0,
                game_seed=seed,
                reply_seed=derive_seed(seed, place),
            ),
            turn=0,
            state=None,
            prompt_ids=turn.prompt_ids,
            max_new_tokens=min(max_reply_tokens, max_context_tokens - len(turn.prompt_ids)),
        )
        for place, turn in enumerate(turns)
    ])
    return [
        (line_of([turn]), _line(turn.prompt_ids, reply.ids))
        for turn, reply in zip(turns, replies, strict=True)
        if not isinstance(reply, Failure) and tuple(reply.ids) != tuple(turn.reply_ids)
    ]


def _line(prompt_ids: Sequence[int], reply_ids: Sequence[int]) -> Line:
    return Line(
        token_ids=(*prompt_ids, *reply_ids),
        trained=(False,) * len(prompt_ids) + (True,) * len(reply_ids),
        num_prompt=len(prompt_ids),
    )
