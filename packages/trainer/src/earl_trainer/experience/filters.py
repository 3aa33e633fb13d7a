"""Which of the episodes that were played are not trained on, and why."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import pstdev

from earl_trainer.algorithms.normalisation import MIN_STD
from earl_trainer.algorithms.shaping import RewardShaping
from earl_trainer.experience.config import FilterName
from earl_trainer.types import Episode

ZERO_VARIANCE: FilterName = "zero-variance"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What workers tell one another of an episode: no tokens."""

    group: int
    seat: int
    reward: float | None
    """None where there is nothing to train on anyway."""
    greedy: bool
    """A baseline, with which others are compared and which is itself not trained on."""
    num_tokens: int
    """That the learner emitted."""
    truncated: bool
    content: int
    """A hash of what the learner emitted, 0 unless duplicates are looked for."""

    @property
    def role(self) -> tuple[int, int]:
        """Whose rewards are compared: those of one seat of a group."""
        return self.group, self.seat

    @property
    def trainable(self) -> bool:
        """Whether it is trained on if no filter drops it."""
        return self.reward is not None and not self.greedy


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterRules:
    """What is dropped."""

    names: Sequence[FilterName]
    """The filters, in any order."""
    min_tokens: int = 0
    max_tokens: int = 0
    shaping: RewardShaping = field(default_factory=RewardShaping)
    """Scale and bound of rewards, behind which they are equal or not."""
    """0 for no bound."""


def facts_of(episode: Episode, reward: float | None, rules: FilterRules) -> Facts:
    """Return what filters go by."""
    summary = episode.summary
    return Facts(
        group=episode.start.group,
        seat=episode.start.seat,
        reward=reward if summary.trainable else None,
        greedy=episode.start.greedy,
        num_tokens=sum(len(turn.reply_ids) for turn in episode.turns),
        truncated=summary.truncated,
        content=_hash(episode) if "duplicates" in rules.names else 0,
    )


def _hash(episode: Episode) -> int:
    text = repr([list(turn.reply_ids) for turn in episode.turns])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def drop(facts: Sequence[Facts], rules: FilterRules) -> list[FilterName | None]:
    """Say of every episode which filter drops it.

    Filters choose what is trained on and nothing else: advantages are estimated from all episodes
    of a group, dropped ones included, so that no baseline depends on a filter. Where several
    filters would drop an episode, the first one counts in the order truncated, length, duplicates,
    zero variance.

    Zero variance is dynamic sampling's criterion (DAPO, Yu et al., arXiv:2503.14476, eq. 11): where
    the episodes of a group are compared with one another, as `Algorithm.compares_groups` says, none
    has an advantage if their rewards are all equal. Rewards are equal on the scale of advantages,
    but for what takes no look at the game: the penalty for long contexts and the running scale of
    `guards.normalise_rewards`. A seat's rewards are compared in self-play, as its advantages are,
    and where a greedy episode is the baseline (ReMax), it is compared as well. Of duplicates the
    first one stays: with equal replies to one start, several would weigh that one reply as if it
    were the better for having been repeated.

    Args:
        facts: Of all workers' episodes, in the order of their starts.
        rules: The filters.

    Returns:
        [E], None for an episode that stays or has nothing to train on.
    """
    dropped: list[FilterName | None] = [None] * len(facts)
    for name in _ORDER:
        if name in rules.names:
            for place in _FILTERS[name](facts, rules):
                if facts[place].trainable:
                    dropped[place] = dropped[place] or name
    return dropped


def _truncated(facts: Sequence[Facts], rules: FilterRules) -> list[int]:
    del rules
    return [place for place, each in enumerate(facts) if each.truncated]


def _of_another_length(facts: Sequence[Facts], rules: FilterRules) -> list[int]:
    return [
        place
        for place, each in enumerate(facts)
        if each.num_tokens < rules.min_tokens or 0 < rules.max_tokens < each.num_tokens
    ]


def _duplicates(facts: Sequence[Facts], rules: FilterRules) -> list[int]:
    del rules
    seen = set[tuple[int, int, int]]()
    places: list[int] = []
    for place, each in enumerate(facts):
        if not each.trainable:
            continue
        if (*each.role, each.content) in seen:
            places.append(place)
        seen.add((*each.role, each.content))
    return places


def _without_variance(facts: Sequence[Facts], rules: FilterRules) -> list[int]:
    rewards: dict[tuple[int, int], list[float]] = {}
    for each in facts:
        if each.reward is not None:
            shaped = rules.shaping.shape(each.reward, context_tokens=0)
            rewards.setdefault(each.role, []).append(shaped)
    equal = {role for role, values in rewards.items() if pstdev(values) < MIN_STD}
    return [place for place, each in enumerate(facts) if each.role in equal]


_FILTERS: Mapping[FilterName, Callable[[Sequence[Facts], FilterRules], list[int]]] = {
    "truncated": _truncated,
    "length": _of_another_length,
    "duplicates": _duplicates,
    ZERO_VARIANCE: _without_variance,
}
_ORDER = tuple(_FILTERS)


def kept_groups(facts: Sequence[Facts], dropped: Sequence[FilterName | None]) -> set[int]:
    """Return the groups of which something is trained on."""
    return {
        each.group
        for each, name in zip(facts, dropped, strict=True)
        if each.trainable and name is None
    }
