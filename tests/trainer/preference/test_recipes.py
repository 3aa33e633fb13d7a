import pytest
from earl_trainer.preference.methods import METHODS
from earl_trainer.preference.recipes import OFFLINE_RECIPES
from earl_trainer.recipes import find_recipe


@pytest.mark.parametrize("config", OFFLINE_RECIPES, ids=lambda config: config.recipe)
def test_a_recipe_is_named_after_its_method_and_found(config):
    assert config.recipe == f"tictactoe-{config.preference.name}"
    assert config.preference.name in METHODS
    assert find_recipe(config.recipe) is config
