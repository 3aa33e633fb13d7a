"""Rows moved and swapped between groups until none holds more tokens than it may."""

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence

_Row = tuple[int, int]
"""Tokens and number of a row."""
_NOTHING: _Row = (0, -1)


def relieve_groups(
    owners: Sequence[int], lengths: Sequence[int], *, host_of_group: Sequence[int], limit: int
) -> tuple[int, ...]:
    """Lower the fullest group until no group holds more tokens than `limit`, or it cannot be done.

    It gives a row, or swaps one for a shorter one, so that both groups end up with fewer tokens
    than it had: with the emptiest group of its host with which that works, else with the emptiest
    elsewhere. The limit decides how many such steps are taken and not which, so what the fullest
    group holds where no step is left is the smallest limit that this meets.

    Args:
        owners: Row -> group.
        lengths: Tokens of each row.
        host_of_group: Host of each group.
        limit: Most tokens that a group may hold.

    Returns:
        Row -> group.
    """
    new_owners = list(owners)
    tokens = [0] * len(host_of_group)
    # Sorted; a group can always give nothing for a row.
    rows: list[list[_Row]] = [[_NOTHING] for _ in host_of_group]
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        tokens[owners[row]] += lengths[row]
        rows[owners[row]].append((lengths[row], row))
    while max(tokens) > limit:
        fullest = tokens.index(max(tokens))
        for other in _partners(fullest, tokens, host_of_group):
            given, taken = _best_swap(rows[fullest], rows[other], tokens[fullest] - tokens[other])
            if given != _NOTHING:
                break
        else:
            break
        for row, here, there in ((given, fullest, other), (taken, other, fullest)):
            if row != _NOTHING:
                rows[here].remove(row)
                insort(rows[there], row)
                tokens[here] -= row[0]
                tokens[there] += row[0]
                new_owners[row[1]] = there
    return tuple(new_owners)


def _partners(fullest: int, tokens: Sequence[int], host_of_group: Sequence[int]) -> Iterator[int]:
    """Yield the other groups: those of the host first, the emptiest first of each."""
    for on_host in (True, False):
        groups = [
            group
            for group, host in enumerate(host_of_group)
            if (host == host_of_group[fullest]) == on_host and group != fullest
        ]
        yield from sorted(groups, key=tokens.__getitem__)


def _best_swap(giving: Sequence[_Row], taking: Sequence[_Row], gap: int) -> tuple[_Row, _Row]:
    """Return the row to give, and the one to take, that even out two groups best.

    Args:
        giving: Rows of the fuller group, sorted.
        taking: Rows of the other, sorted, `_NOTHING` among them.
        gap: Tokens that the fuller group has more.

    Returns:
        Nothing to give if no swap leaves both with fewer tokens than the fuller one has.
    """
    best = _NOTHING, _NOTHING
    # Rows that differ by d tokens leave a gap of |gap - 2d|, which is smaller if 0 < d < gap.
    smallest = gap
    for given in giving:
        place = bisect_left(taking, (given[0] - gap // 2, -1))
        for taken in taking[max(0, place - 1) : place + 1]:
            left = abs(gap - 2 * (given[0] - taken[0]))
            if left < smallest:
                best, smallest = (given, taken), left
    return best
