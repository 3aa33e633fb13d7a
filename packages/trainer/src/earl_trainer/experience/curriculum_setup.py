"""The curriculum of a run: its rules, its levels, and whoever plays them."""

from collections.abc import Mapping
from typing import Any

from earl_envs import Failure, Game, TextProtocol, attempt, make_opponent
from earl_envs.record import start_position
from transformers import PreTrainedTokenizerBase

from earl_trainer.config import PAST_MODELS, SELF_PLAY, RunConfig
from earl_trainer.experience.config import ExperienceConfig
from earl_trainer.experience.curriculum import Curriculum, CurriculumRules, Level
from earl_trainer.experience.curriculum_collection import LevelPlayer
from earl_trainer.rollout.chat import ChatFormat
from earl_trainer.rollout.collector import Collector


def levels_of(config: ExperienceConfig) -> dict[str, Level]:
    """Return the levels by their names, in the order in which they open.

    Raises:
        ValueError: If a name is malformed.
    """
    return {text: Level.from_text(text) for text in config.curriculum}


def curriculum_rules(config: ExperienceConfig) -> CurriculumRules:
    """Return how a run's levels are chosen and opened."""
    return CurriculumRules(
        fractions=config.curriculum_fractions,
        easy_from=config.easy_from,
        hard_below=config.hard_below,
        promote_from=config.promote_from,
        promote_games=config.promote_games,
        memory=config.curriculum_memory,
    )


def make_level_player(
    config: RunConfig,
    chat: ChatFormat,
    state: Mapping[str, Any],  # Any: plain values from JSON
) -> LevelPlayer:
    """Make what plays the levels of a run.

    Args:
        config: Of the run.
        chat: Renders the conversations.
        state: What the rollout stage of a run told that goes on; empty at first.
    """
    levels, rules = levels_of(config.experience), curriculum_rules(config.experience)
    players = {
        name: Collector(
            level.make_game(config.env),
            game_id=config.env,
            opponent=make_opponent(level.opponent),
            match_opponent=make_opponent(config.match_opponent),
            chat=chat,
            max_context_tokens=config.rollout.max_context_tokens,
            max_reply_tokens=config.rollout.max_reply_tokens,
        )
        for name, level in levels.items()
    }
    if "curriculum" in state:
        return LevelPlayer(players, Curriculum.from_dict(rules, state["curriculum"]))
    return LevelPlayer(players, Curriculum.begin(rules, num_levels=len(levels)))


def check_words(level: str, game: Game, tokenizer: PreTrainedTokenizerBase) -> None:
    """Refuse a size of the game whose moves the tokenizer has no words for.

    A tiny model's vocabulary is that of the run's own size.

    Args:
        level: Its name.
        game: In its size.
        tokenizer: Of the model.

    Raises:
        ValueError: With the first such move.
    """
    start = attempt(start_position, game, 0)
    if isinstance(start, Failure):
        return  # Whoever plays it says what is wrong with the game.
    protocol = TextProtocol(game)
    for action in start.legal:
        move = protocol.format_move(start.state, action)
        if tokenizer.unk_token_id in tokenizer.encode(move, add_special_tokens=False):
            raise ValueError(
                f"the tokenizer has no word for the move {move!r} of {level!r} in "
                "experience.curriculum: a tiny model knows the words of env, so sizes must not be "
                "larger than its own"
            )


def check_curriculum(config: RunConfig) -> None:
    """Refuse levels that cannot be told apart or played by the rest of the run.

    Raises:
        ValueError: With the rule and the value.
    """
    rules = config.experience
    if not rules.curriculum:
        return
    levels = levels_of(rules)
    if len(levels) < len(rules.curriculum):
        raise ValueError(f"experience.curriculum names each level once, got {rules.curriculum}")
    if config.is_asynchronous or config.opponent in (SELF_PLAY, *PAST_MODELS):
        raise ValueError(
            "the process that learns plays the scripts of experience.curriculum: opponent must be "
            "a script and the run synchronous, got opponent "
            f"{config.opponent!r} and max_staleness {config.max_staleness}"
        )
    if not sum(rules.curriculum_fractions):
        raise ValueError(
            f"experience.curriculum_fractions must not all be 0, got {rules.curriculum_fractions}"
        )
    if rules.hard_below >= rules.easy_from:
        raise ValueError(
            "experience.hard_below must be < experience.easy_from, got "
            f"{rules.hard_below} and {rules.easy_from}"
        )
    if config.reward.functions and any(level.sizes for level in levels.values()):
        raise ValueError(
            "reward.functions know a game by its id alone: levels of experience.curriculum must "
            f"have no sizes then, got {rules.curriculum}"
        )
