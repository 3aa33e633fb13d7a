"""A recipe by word or by field, and what is laid over it."""

import pytest
from earl_trainer.cli.recipe_arguments import pop_text, resolve_recipe, split_recipe
from earl_trainer.recipes import DEFAULT_RECIPE


def test_the_first_word_may_be_a_recipe():
    assert split_recipe([]) == (None, {})
    assert split_recipe(["a", "--seed", "3"]) == ("a", {"seed": "3"})
    assert split_recipe(["--seed", "3"]) == (None, {"seed": "3"})
    with pytest.raises(ValueError, match="expected a --field, got 'b'"):
        split_recipe(["a", "b"])


def test_flags_that_are_no_fields_are_taken_out():
    flags = {"out_file": "x", "seed": "3", "config": {"a": "1"}}
    assert pop_text(flags, "out_file") == "x"
    assert pop_text(flags, "out_file") is None
    with pytest.raises(ValueError, match=r"^--config has no fields$"):
        pop_text(flags, "config")
    assert flags == {"seed": "3"}


def test_values_lie_over_one_recipe_however_it_is_named():
    assert resolve_recipe(None, []).recipe == DEFAULT_RECIPE
    named = "tictactoe-smollm2"
    by_word = resolve_recipe(named, [{"seed": "3"}, {"seed": "4"}])
    assert (by_word.recipe, by_word.model.dtype, by_word.seed) == (named, "bfloat16", 4)
    assert resolve_recipe(None, [{"recipe": named, "seed": "4"}]) == by_word
    assert resolve_recipe(named, [{"recipe": named, "seed": "4"}]) == by_word
    with pytest.raises(ValueError, match="one recipe, got tictactoe-smollm2 and tictactoe-tiny"):
        resolve_recipe(named, [{"recipe": "tictactoe-tiny"}])
    with pytest.raises(ValueError, match="unknown recipe 'tictactoe-tini'"):
        resolve_recipe("tictactoe-tini", [])
