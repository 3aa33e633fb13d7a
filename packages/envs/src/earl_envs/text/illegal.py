"""What becomes of a reply that gives no legal move."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import final

from earl_envs.suggest import suggest


@final
class Verdict(StrEnum):
    """What happens next in an episode after a wrong reply."""

    FORFEIT = "forfeit"
    """The seat loses."""
    EXPLAIN = "explain"
    """The seat is told what was wrong and asked again in the same turn."""
    REPEAT = "repeat"
    """The turn is spent without a move; the next one shows the same position."""
    SUBSTITUTE = "substitute"
    """A legal action drawn by chance is played and marked as such."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class IllegalPolicy:
    """An illegal-move policy: a patience, and what follows when it is at its end."""

    num_retries: int
    """How often in one turn the seat is asked again."""
    last: Verdict
    """What follows then."""

    def decide(self, num_wrong_replies: int) -> Verdict:
        """Judge the newest of `num_wrong_replies` wrong replies in a row, all in one turn."""
        return Verdict.EXPLAIN if num_wrong_replies <= self.num_retries else self.last


def make_illegal_policy(spec: str) -> IllegalPolicy:
    """Return an illegal-move policy by name.

    Args:
        spec: `forfeit`: the first wrong reply loses. `retry(k)`, such as `retry(2)`: asked again up
            to k times a turn, then it loses. `noop`: the turn is spent and the position stays.
            `random_legal`: a legal move drawn by chance is played instead, and said to be.

    Raises:
        ValueError: If there is no such policy; the message names the nearest one.
    """
    spec = str(spec)  # whatever a caller passes: it is refused as unknown
    if retry := re.fullmatch(r"retry\(([1-9][0-9]{0,8})\)", spec, re.ASCII):
        return IllegalPolicy(num_retries=int(retry[1]), last=Verdict.FORFEIT)
    endings = {
        "forfeit": Verdict.FORFEIT,
        "noop": Verdict.REPEAT,
        "random_legal": Verdict.SUBSTITUTE,
    }
    if spec not in endings:
        raise ValueError(suggest(spec, [*endings, "retry(2)"], what="illegal-move policy"))
    return IllegalPolicy(num_retries=0, last=endings[spec])
