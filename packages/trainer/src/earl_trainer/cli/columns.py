"""Columns of text, the same in a terminal and in a pipe."""

from collections.abc import Sequence


def align(rows: Sequence[Sequence[str]]) -> str:
    """Lay cells out in columns, the first to the left and the others to the right.

    The first row says how many columns there are. A row with fewer cells, such as a message in
    place of figures, stands as it is and only its first cell counts for a width.
    """
    num_columns = len(rows[0])
    whole = [row for row in rows if len(row) == num_columns]
    widths = [max(len(row[column]) for row in whole) for column in range(num_columns)]
    widths[0] = max(len(row[0]) for row in rows)
    return "\n".join(_line(row, widths) for row in rows)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = row
    if len(row) == len(widths):
        others = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
    return "  ".join([first.ljust(widths[0]), *others]).rstrip()
