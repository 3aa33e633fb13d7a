"""The one message for a name that is not in a table."""

from collections.abc import Iterable
from difflib import get_close_matches


def suggest(value: str, valid: Iterable[str], *, what: str) -> str:
    """Word the complaint about an unknown name in one line, with the nearest valid one.

    Args:
        value: The name that was asked for.
        valid: The names there are; case is ignored when looking for the nearest.
        what: The kind of thing named, such as `game`.

    Returns:
        For example `unknown game 'earl/TicTacTo-v0'; did you mean 'earl/TicTacToe-v0'?
        (valid: earl/ConnectFour-v0, earl/TicTacToe-v0)`, on one line.
    """
    names = sorted(valid)
    by_folded = {name.casefold(): name for name in names}
    # Only the nearest: names of one table share so much that all of them are close to any.
    near = [by_folded[folded] for folded in get_close_matches(value.casefold(), by_folded, n=1)]
    guess = f"; did you mean {near[0]!r}?" if near else ""
    return f"unknown {what} {value!r}{guess} (valid: {', '.join(names)})"
