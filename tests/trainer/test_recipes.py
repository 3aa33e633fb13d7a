"""Named runs are valid runs."""

import pytest
from earl_trainer.recipes import DEFAULT_RECIPE, RECIPES, find_recipe
from earl_trainer.rules import check_config


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_obeys_the_rules_and_knows_its_name(name):
    check_config(RECIPES[name])

    assert find_recipe(name).recipe == name


def test_the_default_is_the_tiny_model_and_smollm2_a_pretrained_one():
    assert find_recipe(DEFAULT_RECIPE).model.name == "tiny"
    assert find_recipe("tictactoe-smollm2").model.name == "smollm2-135m-instruct"


def test_an_unknown_recipe_is_refused_with_the_nearest():
    with pytest.raises(ValueError, match=r"^unknown recipe 'tictactoe-tinny'; did you mean 'ti"):
        find_recipe("tictactoe-tinny")
