"""A recipe and what is laid over it, as the verbs that begin with one read them."""

from collections.abc import Sequence

from earl_trainer.config import RunConfig
from earl_trainer.overrides import Tree, parse_flags, resolve
from earl_trainer.recipes import DEFAULT_RECIPE, find_recipe


def split_recipe(arguments: Sequence[str]) -> tuple[str | None, Tree]:
    """Read `[RECIPE] [--field value ...]`.

    Raises:
        ValueError: If a word is no flag, or a flag has no value.
    """
    if arguments and not arguments[0].startswith("--"):
        return arguments[0], parse_flags(arguments[1:])
    return None, parse_flags(arguments)


def pop_text(flags: Tree, name: str) -> str | None:
    """Take a flag that is no field of a run out of the others.

    Raises:
        ValueError: If it was used like a group of fields.
    """
    value = flags.pop(name, None)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"--{name.replace('_', '-')} has no fields")
    return value


def resolve_recipe(recipe: str | None, overrides: Sequence[Tree]) -> RunConfig:
    """Lay values over the recipe that is named, be it as a word or as a field.

    Raises:
        ValueError: If two recipes are named, one is unknown, or a value does not fit its field.
    """
    named = {str(tree["recipe"]) for tree in overrides if "recipe" in tree}
    named |= {recipe} if recipe else set()
    if len(named) > 1:
        raise ValueError(f"a run has one recipe, got {' and '.join(sorted(named))}")
    return resolve(find_recipe(named.pop() if named else DEFAULT_RECIPE), *overrides)
