"""What the policy's own games teach: which line from one state did better than another."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

from earl_trainer.preference.lines import Line, line_of
from earl_trainer.types import Episode, Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Graded:
    """An episode with its reward."""

    episode: Episode
    reward: float

    @property
    def role(self) -> tuple[int, int]:
        """Group and seat: those alike began in one state, against one opponent."""
        return self.episode.start.group, self.episode.start.seat


def grade(
    episodes: Sequence[Episode], rewards: Sequence[float | None], *, drop_truncated: bool
) -> list[Graded]:
    """Return the episodes that say something about the policy.

    Args:
        episodes: [E].
        rewards: [E], None where there is none.
        drop_truncated: Whether those that a token limit cut are left out.
    """
    return [
        Graded(episode=episode, reward=reward)
        for episode, reward in zip(episodes, rewards, strict=True)
        if reward is not None
        and (summary := episode.summary).trainable
        and not (drop_truncated and summary.truncated)
    ]


def pairs_of(graded: Sequence[Graded]) -> list[tuple[Line, Line]]:
    """Pair lines that part at one state and were rewarded differently: (better, worse).

    Episodes of a group and seat share the context up to the first reply that differs; from that
    state on they are two lines, replies of the opponent included, as in ETO (Song et al.,
    arXiv:2403.02502, section 3.2) but for the shared beginning, which says nothing about either.
    Every episode is in one pair at most. Those that part last are paired first, since it is then
    fewer moves that made the difference; among these, those whose rewards lie furthest apart.
    """
    pairs: list[tuple[Line, Line]] = []
    for members in _by_role(graded):
        candidates = [
            (shared, better.reward - worse.reward, better, worse)
            for better, worse in product(members, members)
            if better.reward > worse.reward
            and (shared := parting(better.episode.turns, worse.episode.turns)) is not None
        ]
        candidates.sort(key=lambda candidate: candidate[:2], reverse=True)
        used: set[int] = set()
        for shared, _, better, worse in candidates:
            if used.isdisjoint((id(better), id(worse))):
                used |= {id(better), id(worse)}
                sides = (line_of(each.episode.turns, first=shared) for each in (better, worse))
                chosen, rejected = sides
                pairs.append((chosen, rejected))
    return pairs


def parting(one: Sequence[Turn], other: Sequence[Turn]) -> int | None:
    """Return the first turn with equal prompts and different replies; None if there is none."""
    for place, (turn, rival) in enumerate(zip(one, other, strict=False)):
        if tuple(turn.prompt_ids) != tuple(rival.prompt_ids):
            return None
        if tuple(turn.reply_ids) != tuple(rival.reply_ids):
            return place
    return None


def judged_of(graded: Sequence[Graded], *, threshold: float) -> list[tuple[Line, bool]]:
    """Return whole episodes with whether they were good; those at the threshold are neither."""
    return [
        (line_of(each.episode.turns), each.reward > threshold)
        for each in graded
        if each.reward != threshold
    ]


def accepted_of(graded: Sequence[Graded], *, threshold: float) -> list[Line]:
    """Return the different lines among the episodes above the threshold.

    Rejection sampling (Yuan et al., arXiv:2308.01825, section 3.3): what is right is kept, and what
    is the same only once.
    """
    good = [line_of(each.episode.turns) for each in graded if each.reward > threshold]
    return list(dict.fromkeys(good))


def _by_role(graded: Sequence[Graded]) -> Iterable[list[Graded]]:
    roles: dict[tuple[int, int], list[Graded]] = {}
    for each in graded:
        roles.setdefault(each.role, []).append(each)
    return roles.values()
