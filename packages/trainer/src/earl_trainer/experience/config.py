"""ExperienceConfig: what is trained on besides, or instead of, all that was just played."""

from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le, Lt
from pydantic.dataclasses import dataclass

from earl_trainer.config_fields import RULES, NonNegativeInt, PositiveInt

FilterName = Literal["truncated", "length", "duplicates", "zero-variance"]
Share = Annotated[float, Ge(0.0), Lt(1.0)]
Rate = Annotated[float, Ge(0.0), Le(1.0)]


@dataclass(frozen=True, kw_only=True, slots=True, config=RULES)
class ExperienceConfig:
    """Filters, replay and curriculum of reinforcement learning."""

    filters: tuple[FilterName, ...] = ()
    """Episodes that are not trained on: `truncated` by a token limit, of another `length`,
    `duplicates` of another one of the group, or, where all rewards of a group are equal,
    `zero-variance`."""
    min_tokens: NonNegativeInt = 0
    """The filter `length` drops episodes of fewer tokens that the learner emitted."""
    max_tokens: NonNegativeInt = 0
    """The filter `length` drops episodes of more; 0 for no such bound."""
    max_rounds: PositiveInt = 1
    """Where filters drop whole groups, others are played in their place up to so often, the first
    time included."""
    replay: Literal["fifo", "prioritised"] = "fifo"
    """How rows of earlier steps are drawn: all alike, or by the size of their advantage."""
    replay_share: Share = 0.0
    """Of a step's rows, those of earlier steps; the older ones are forgotten first."""
    replay_rows: PositiveInt = 4096
    """Most rows that are remembered."""
    replay_bytes: PositiveInt = 1024**3
    """Most memory that they take."""
    replay_max_staleness: NonNegativeInt = 0
    """Updates after which a row is not drawn any more; 0 for no such bound."""
    priority_exponent: Annotated[float, Gt(0.0)] = 0.6
    """Of `prioritised`: alpha, 1 for in proportion to the advantage."""
    importance_exponent: Rate = 0.4
    """Of `prioritised`: beta, by which less likely rows weigh more; 1 makes up for all of it."""
    offline_path: str = ""
    """A `replay.pt` that another run has left in a checkpoint."""
    offline_share: Share = 0.0
    """Of a step's rows, those of `offline_path`."""

    @property
    def reuses(self) -> bool:
        """Whether rows are trained on that this step's weights have not emitted."""
        return self.replay_share > 0.0 or self.offline_share > 0.0
