"""ExperienceConfig: what is trained on besides, or instead of, all that was just played."""

from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le, Lt

from earl_trainer.config_fields import AUTO, NonNegativeInt, OrNone, PositiveInt, section

FilterName = Literal["truncated", "length", "duplicates", "zero-variance"]
Share = Annotated[float, Ge(0.0), Lt(1.0)]
Rate = Annotated[float, Ge(0.0), Le(1.0)]


@section
class ExperienceConfig:
    """Filters, replay and curriculum of reinforcement learning."""

    filters: tuple[FilterName | Literal["auto"], ...] = (AUTO,)
    """Episodes that are not trained on: `truncated` by a token limit, of another `length`,
    `duplicates` of another one of the group, or, where all rewards of a group are equal,
    `zero-variance`; `auto` for the algorithm's own, which DAPO has."""
    min_tokens: NonNegativeInt = 0
    """The filter `length` drops episodes of fewer tokens that the learner emitted."""
    max_tokens: NonNegativeInt = 0
    """The filter `length` drops episodes of more; 0 for no such bound."""
    max_rounds: OrNone[PositiveInt] = None
    """Where filters drop whole groups, others are played in their place up to so often, the first
    time included; `null` for once, or as often as the algorithm does."""
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
    """Of `prioritised`: beta at first, by which less likely rows weigh more; 1, which it grows to
    by the last step, makes up for all of it."""
    offline_path: str = ""
    """A `replay.pt` that another run of the same game and vocabulary has left in a checkpoint."""
    offline_share: Share = 0.0
    """Of a step's rows, those of `offline_path`."""

    curriculum: tuple[str, ...] = ()
    """Opponents, and sizes of the game, from the easiest on, such as `random,negamax:2` or
    `random@size=3,random@size=5`; they are met in the place of `opponent`. One is open at first."""
    curriculum_fractions: tuple[Rate, Rate, Rate] = (0.1, 0.8, 0.1)
    """Of a step's groups: those at levels where success is easy, normal and hard."""
    easy_from: Rate = 0.9
    """Points per game, a draw counting half, from which on a level is easy."""
    hard_below: Rate = 0.1
    """Points per game below which a level is hard."""
    promote_from: Rate = 0.7
    """Points per game at the last open level from which on the next one opens."""
    promote_games: PositiveInt = 100
    """Games at a level before the next one opens."""
    curriculum_memory: Rate = 0.9
    """What a game counts one step later, in terms of a new one."""

    @property
    def reuses(self) -> bool:
        """Whether rows are trained on that this step's weights have not emitted."""
        return self.replay_share > 0.0 or self.offline_share > 0.0
