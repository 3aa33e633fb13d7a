"""What callers pass to the environments, checked: every function here raises ValueError only."""

from collections.abc import Mapping, Sequence

from earl_envs.checks import whole_number
from earl_envs.text.illegal import IllegalPolicy, make_illegal_policy


def check_options(options: object, valid: Sequence[str] = ()) -> None:
    """Refuse options of `reset` that would do nothing.

    Raises:
        ValueError: If they are no mapping, or one is not among the valid ones.
    """
    if not isinstance(options, Mapping | None):
        raise ValueError(f"the options of reset() must be a dict or None, got {options!r}")  # noqa: TRY004
    for name in options or ():
        if name not in valid:
            raise ValueError(
                f"reset() takes no option {name!r} (valid: {', '.join(valid) or 'none'})"
            )


def as_seed(seed: object) -> int | None:
    """Return a seed as an int, None for none.

    Raises:
        ValueError: If it is no integer, or negative.
    """
    return None if seed is None else whole_number(seed, "seed", least=0)


def as_policy(illegal: object) -> IllegalPolicy:
    """Return an illegal-move policy by name.

    Raises:
        ValueError: If it is no string, or `make_illegal_policy` refuses it.
    """
    if not isinstance(illegal, str):
        raise ValueError(f"illegal must be a string such as 'forfeit', got {illegal!r}")  # noqa: TRY004
    return make_illegal_policy(illegal)
