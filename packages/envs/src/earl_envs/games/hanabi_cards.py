"""Cards of Hanabi, and what hints tell about them."""

from dataclasses import dataclass, replace

COLOURS = "RGBYW"

Card = tuple[int, int]
"""Colour and rank, both from 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A card in somebody's hand and what its owner has been told about it."""

    card: Card
    possible: frozenset[Card]
    """What it may be by all hints."""

    @property
    def known(self) -> str:
        """The colours and ranks that are still possible, such as `RG23`."""
        colours, ranks = (sorted(set(part)) for part in zip(*self.possible, strict=True))
        return "".join([*(COLOURS[colour] for colour in colours), *(str(r + 1) for r in ranks)])

    def told(self, part: int, value: int) -> "Held":
        """Return the same card after a hint, which also says which cards it does not touch.

        Args:
            part: 0 for a hint of a colour, 1 for one of a rank.
            value: The colour or rank.
        """
        fits = self.card[part] == value
        possible = frozenset(card for card in self.possible if (card[part] == value) == fits)
        return replace(self, possible=possible)


def card_name(card: Card) -> str:
    """Write a card, such as `R2`."""
    return f"{COLOURS[card[0]]}{card[1] + 1}"
