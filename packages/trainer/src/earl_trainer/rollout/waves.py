"""How many contexts run at once: requests in waves that fit the capacity."""

from collections.abc import Collection, Sequence

from earl_trainer.rollout.engine import Request


def final_tokens(request: Request) -> int:
    """Return what the context of a request may grow to."""
    return len(request.prompt_ids) + request.max_new_tokens


def plan_waves(
    num_slots: Sequence[int], capacity_tokens: int, *, first: Collection[int] = ()
) -> list[list[int]]:
    """Split contexts into waves whose rows, all as long as the wave's longest, fit at once.

    Args:
        num_slots: What each context may grow to.
        capacity_tokens: Slots that may be held at once.
        first: Places of contexts that come before the others.

    Returns:
        Places in `num_slots`, each once: all in order where they fit at once, else from long to
        short, each wave as full as fits.

    Raises:
        ValueError: If one context alone is larger than the capacity.
    """
    places, longest = list(range(len(num_slots))), max(num_slots)
    if longest > capacity_tokens:
        raise ValueError(
            f"a context of {longest} tokens does not fit the capacity of {capacity_tokens} tokens"
        )
    if len(places) * longest <= capacity_tokens:
        return [places]
    waves: list[list[int]] = [[]]
    width = 0
    for place in sorted(places, key=lambda place: (place not in first, -num_slots[place])):
        width = max(width, num_slots[place])
        if (len(waves[-1]) + 1) * width > capacity_tokens:
            waves.append([])
            width = num_slots[place]
        waves[-1].append(place)
    return waves
