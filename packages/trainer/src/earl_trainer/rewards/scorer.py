"""What rewards whole batches of episodes that have been played."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, Protocol, runtime_checkable

from earl_trainer.rewards.outcome import Judgement, RewardFailure, RewardOutcome, weighted_sum
from earl_trainer.types import Episode


@runtime_checkable
class Scorer(Protocol):
    """A reward model, or whatever else looks at many episodes at once."""

    @property
    def name(self) -> str:
        """What it is called in figures."""
        ...

    @property
    def weight(self) -> float:
        """What it counts."""
        ...

    def score(self, episodes: Sequence[Episode]) -> Sequence[RewardOutcome]:
        """Return what each episode is worth, or why that is not known; each has a reply."""
        ...

    def close(self) -> None:
        """Give up what it holds; a second time does nothing."""
        ...


def add_scores(
    episodes: Sequence[Episode],
    scorers: Sequence[Scorer],
    *,
    on_failure: Literal["drop", "zero"],
) -> list[Episode]:
    """Add to the judgement of every episode what scorers say of it.

    What is no finite number is a failure, and so is a wrong number of answers, of which nobody
    knows whose they are. Episodes that say nothing of the policy, or have no reward any more, are
    left as they are.

    Args:
        episodes: As they were played.
        scorers: All of them, each of another name.
        on_failure: Whether a failure leaves the episode out of training, or counts 0.
    """
    places = [place for place, episode in enumerate(episodes) if episode.summary.trainable]
    judged = list(episodes)
    if not places:
        return judged
    asked = [episodes[place] for place in places]
    found = {scorer.name: _checked(scorer.score(asked), len(asked)) for scorer in scorers}
    weights = {scorer.name: scorer.weight for scorer in scorers}
    for index, place in enumerate(places):
        outcomes = {name: answers[index] for name, answers in found.items()}
        judged[place] = _with_scores(episodes[place], outcomes, weights, on_failure)
    return judged


def _checked(answers: Sequence[RewardOutcome], num_episodes: int) -> Sequence[RewardOutcome]:
    if len(answers) == num_episodes:
        return [_finite(answer) for answer in answers]
    detail = f"{len(answers)} rewards for {num_episodes} episodes"
    return [RewardOutcome(failure=RewardFailure.ERROR, detail=detail)] * num_episodes


def _finite(answer: RewardOutcome) -> RewardOutcome:
    if answer.value is None or math.isfinite(answer.value):
        return answer
    detail = f"a reward must be a finite number, got {answer.value}"
    return replace(answer, value=None, failure=RewardFailure.ERROR, detail=detail)


def _with_scores(
    episode: Episode,
    outcomes: Mapping[str, RewardOutcome],
    weights: Mapping[str, float],
    on_failure: Literal["drop", "zero"],
) -> Episode:
    earlier = episode.judgement
    bonus = weighted_sum(outcomes, weights, on_failure)
    if bonus is not None and earlier is not None:
        bonus += earlier.bonus or 0.0
    known = Judgement(outcomes={}, bonus=0.0) if earlier is None else earlier
    scored = replace(known, outcomes={**known.outcomes, **outcomes}, bonus=bonus)
    return replace(episode, judgement=scored)
