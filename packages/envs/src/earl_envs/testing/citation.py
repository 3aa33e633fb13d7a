"""The line to look at when the rules gave an answer that this package could not use."""

import inspect
import re
from pathlib import Path
from types import CodeType

from earl_envs.game import Game

_PACKAGE = Path(__file__).parents[1]
_LOCATION = re.compile(r" \((?P<file>[^()]+\.py):\d+ in [^()]+\)")
_METHOD = re.compile(r"\b(\w+)\(\)")


def cite_rules(game: Game, wrong: str) -> str:
    """Replace a place in this package by the game's own method that the sentence is about.

    Places in the game's own files, and in other libraries, stay.
    """
    own = {code.co_filename for code in map(_code, _methods(game)) if code is not None}

    def cited(match: re.Match[str]) -> str:
        file = match["file"]
        if file in own or not Path(file).is_relative_to(_PACKAGE):
            return match[0]
        method = _METHOD.search(wrong)
        code = _code(getattr(type(game), method[1], None)) if method else None
        if code is None:
            return ""
        return f" ({code.co_filename}:{code.co_firstlineno} in {code.co_name})"

    return _LOCATION.sub(cited, wrong)


def _methods(game: Game) -> list[object]:
    classes = [owner for owner in type(game).__mro__ if owner not in Game.__mro__]
    return [value for owner in classes for value in vars(owner).values()]


def _code(function: object) -> CodeType | None:
    return getattr(inspect.unwrap(function), "__code__", None) if callable(function) else None
