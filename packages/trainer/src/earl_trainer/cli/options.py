"""Options of a verb: help with units and defaults, complaints in one line."""

import argparse
import math
from collections.abc import Sequence
from typing import NoReturn, final

from earl_envs import suggest


@final
class OptionParser(argparse.ArgumentParser):
    """Reads `--name value`; raises a ValueError where argparse prints a usage and exits."""

    def __init__(self, name: str, *, description: str, epilog: str = "") -> None:
        """Describe a command.

        Args:
            name: The words it is called by, such as `earl plan dispatch`.
            description: What it does.
            epilog: Stands below the options in its help.
        """
        super().__init__(
            prog=name,
            description=description,
            epilog=epilog,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    def read(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Read all arguments.

        Raises:
            ValueError: If one of them is unknown or does not fit; names the nearest option.
        """
        options, unknown = self.parse_known_args(arguments)
        if unknown and unknown[0].startswith("-"):
            name = unknown[0].partition("=")[0]
            raise ValueError(suggest(name, self._option_string_actions, what="option"))
        if unknown:
            raise ValueError(f"expected an --option, got {unknown[0]!r}")
        return options

    def error(self, message: str) -> NoReturn:
        """Refuse a command line.

        Raises:
            ValueError: Always.
        """
        raise ValueError(message.removeprefix("argument "))


def positive_int(text: str) -> int:
    """Read a whole number from 1 on."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number >= 1, got {text!r}")
    return int(text)


def positive_number(text: str) -> float:
    """Read a finite number above 0."""
    value = _number(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"must be a number > 0, got {text!r}")
    return value


def number_from_0(text: str) -> float:
    """Read a finite number from 0 on."""
    value = _number(text)
    if not value >= 0:
        raise argparse.ArgumentTypeError(f"must be a number >= 0, got {text!r}")
    return value


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan
