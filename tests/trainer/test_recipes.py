"""Named runs are valid runs."""

import pytest
from earl_envs import make_game
from earl_trainer.engines import make_memory_model
from earl_trainer.models.tiny import build_model, build_tokenizer
from earl_trainer.recipes import DEFAULT_RECIPE, RECIPES, find_recipe
from earl_trainer.rollout.limits import context_share
from earl_trainer.rules import check_config


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_obeys_the_rules_and_knows_its_name(name):
    check_config(RECIPES[name])

    assert find_recipe(name).recipe == name


def test_the_default_is_the_tiny_model_and_smollm2_a_pretrained_one():
    assert find_recipe(DEFAULT_RECIPE).model.name == "tiny"
    assert find_recipe("tictactoe-smollm2").model.name == "smollm2-135m-instruct"


def memory_of(config):
    """What a rank's memory holds of the recipe's own model."""
    tokenizer = build_tokenizer(make_game(config.env), seed=0)
    model = build_model(
        tokenizer,
        hidden_size=config.model.hidden_size,
        num_layers=config.model.num_layers,
        num_heads=config.model.num_heads,
        max_context_tokens=config.model.max_positions,
        seed=0,
    )
    return make_memory_model(config, model)


def test_the_collapse_has_memory_for_two_games_of_an_episode_and_with_another_rank_for_all():
    config = find_recipe("tictactoe-collapse")
    memory = memory_of(config)
    one, two = (
        context_share(
            config,
            capacity_tokens=memory.capacity_tokens(tp),
            num_episodes=config.rollout.num_episodes,
        )
        for tp in (1, 2)
    )

    # A game takes up to five turns of thirteen tokens, and every later one some to tell of the end.
    two_games, four_games = 2 * 5 * 13 + 17, 4 * 5 * 13 + 3 * 17
    assert two_games <= one < 2.5 * 5 * 13
    assert four_games <= two


def test_connect_four_has_memory_for_one_game_of_all_episodes_and_with_another_rank_for_two():
    config = find_recipe("connectfour-tiny")
    memory, num_episodes = memory_of(config), config.rollout.num_episodes
    # A turn is a board of 42 cells under 7 numbers, three marks of who speaks, and a move.
    turn_tokens = 53
    # About ten turns a game at random; a learner that wins needs some fewer.
    assert num_episodes * 10 * turn_tokens <= memory.capacity_tokens(1)
    assert memory.capacity_tokens(1) < num_episodes * 2 * 8 * turn_tokens
    assert num_episodes * 2 * 11 * turn_tokens <= memory.capacity_tokens(2)
    # No game is cut: 21 turns at most, and some words between two games.
    assert 2 * 21 * turn_tokens + 17 <= config.rollout.max_context_tokens


def test_an_unknown_recipe_is_refused_with_the_nearest():
    with pytest.raises(ValueError, match=r"^unknown recipe 'tictactoe-tinny'; did you mean 'ti"):
        find_recipe("tictactoe-tinny")
