"""Hanabi for two with few cards: everyone sees the other's cards and not their own.

Rules by A. Bauza, 2010, as in N. Bard et al., The Hanabi Challenge, Artificial Intelligence 280,
2020 (arXiv 1902.00506), section 2, with fewer colours, ranks and tokens. A hint must touch a card,
and a game that loses its last life scores 0.
"""

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from earl_envs.game import Game
from earl_envs.games.hanabi_cards import COLOURS, Card, Held, card_name

_MAX_COPIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Everything on the table and in both hands."""

    deck: tuple[Card, ...]
    """Cards still to be drawn, the next one first."""
    hands: tuple[tuple[Held, ...], ...]
    """One hand per seat, the oldest card first."""
    fireworks: tuple[int, ...]
    """Cards played per colour."""
    discards: tuple[Card, ...] = ()
    num_hints: int
    """Hints left to give."""
    num_lives: int
    """Misplays left before the game is lost, counting the last one."""
    seat: int = 0
    num_final_moves: int = 2
    """Moves left once the deck is empty."""
    last: str = ""
    """The newest move in words, empty at the start."""


@final
class Hanabi(Game[Table]):
    """Build one firework per colour together. Both seats score the share of cards played.

    Example:
        Hanabi(num_colours=5, num_ranks=5, hand_size=5, num_hints=8, num_lives=3)   # the full game
    """

    num_seats = 2
    min_return = 0.0

    def __init__(
        self,
        *,
        num_colours: int = 2,
        num_ranks: int = 3,
        hand_size: int = 2,
        num_hints: int = 3,
        num_lives: int = 2,
    ) -> None:
        limits = {
            "num_colours": (num_colours, 1, len(COLOURS)),
            "num_ranks": (num_ranks, 2, 5),
            "hand_size": (hand_size, 1, 5),
            "num_hints": (num_hints, 1, 8),
            "num_lives": (num_lives, 1, 8),
        }
        for name, (value, least, most) in limits.items():
            if not least <= value <= most:
                raise ValueError(f"{name} must be in {least}..{most}, got {value}")
        # Three copies of the lowest rank, one of the highest, two of the others.
        copies = [_MAX_COPIES, *[2] * (num_ranks - 2), 1]
        ranks = [rank for rank in range(num_ranks) for _ in range(copies[rank])]
        self._cards = [(colour, rank) for colour in range(num_colours) for rank in ranks]
        self._kinds = frozenset(self._cards)
        num_drawn = len(self._cards) - 2 * hand_size
        if num_drawn < 1:
            raise ValueError(f"hands of {hand_size} leave no card of {len(self._cards)} to draw")
        self.num_colours, self.num_ranks, self.hand_size = num_colours, num_ranks, hand_size
        self.num_hints, self.num_lives = num_hints, num_lives
        self.num_actions = 2 * hand_size + num_colours + num_ranks
        # Every card drawn gives back one hint at most, and two moves follow the last one.
        self.max_moves = 2 * num_drawn + num_hints + 2

    def initial(self, rng: np.random.Generator) -> Table:
        """Shuffle the deck and deal."""
        cards = [self._cards[place] for place in rng.permutation(len(self._cards))]
        held = [self._held(card) for card in cards[: 2 * self.hand_size]]
        return Table(
            deck=tuple(cards[2 * self.hand_size :]),
            hands=(tuple(held[: self.hand_size]), tuple(held[self.hand_size :])),
            fireworks=(0,) * self.num_colours,
            num_hints=self.num_hints,
            num_lives=self.num_lives,
        )

    def _held(self, card: Card) -> Held:
        return Held(card=card, possible=self._kinds)

    def seat(self, state: Table) -> int:
        """Return 0 and 1 in turn."""
        return state.seat

    def legal(self, state: Table) -> list[int]:
        """Return plays and discards by place in the hand, then hints of a colour and of a rank."""
        if self.returns(state) is not None:
            return []
        places, size = len(state.hands[state.seat]), self.hand_size
        actions = list(range(places))
        if state.num_hints < self.num_hints:
            actions += range(size, size + places)
        if state.num_hints:
            cards = [held.card for held in state.hands[1 - state.seat]]
            actions += sorted({2 * size + colour for colour, _ in cards})
            actions += sorted({2 * size + self.num_colours + rank for _, rank in cards})
        return actions

    def apply(self, state: Table, action: int) -> Table:
        """Play, discard or hint."""
        hint = action - 2 * self.hand_size
        if hint >= 0:
            moved = self._hint(state, hint)
        else:
            discards, place = divmod(action, self.hand_size)
            moved = self._put(state, place, is_discard=discards == 1)
        # The move that draws the last card does not count as one of the final two.
        final = state.num_final_moves - (not state.deck)
        return replace(moved, seat=1 - state.seat, num_final_moves=final)

    def _hint(self, state: Table, hint: int) -> Table:
        # Part 0 of a card is its colour, part 1 its rank.
        part, value = (0, hint) if hint < self.num_colours else (1, hint - self.num_colours)
        told = tuple(held.told(part, value) for held in state.hands[1 - state.seat])
        return replace(
            state,
            hands=_with_hand(state.hands, 1 - state.seat, told),
            num_hints=state.num_hints - 1,
            last=f"hint {value + 1 if part else COLOURS[value]}",
        )

    def _put(self, state: Table, place: int, *, is_discard: bool) -> Table:
        hand = state.hands[state.seat]
        colour, rank = card = hand[place].card
        hand = (*hand[:place], *hand[place + 1 :], *map(self._held, state.deck[:1]))
        moved = replace(
            state,
            deck=state.deck[1:],
            hands=_with_hand(state.hands, state.seat, hand),
            last=f"{'discard' if is_discard else 'play'} {place + 1}: {card_name(card)}",
        )
        if not is_discard and state.fireworks[colour] == rank:
            fireworks = list(state.fireworks)
            fireworks[colour] += 1
            # A complete firework gives back a hint, as a discard does.
            num_hints = min(self.num_hints, state.num_hints + (rank == self.num_ranks - 1))
            return replace(moved, fireworks=tuple(fireworks), num_hints=num_hints)
        moved = replace(moved, discards=(*state.discards, card))
        if is_discard:
            return replace(moved, num_hints=state.num_hints + 1)
        return replace(moved, num_lives=state.num_lives - 1, last=f"{moved.last} does not fit")

    def returns(self, state: Table) -> tuple[float, float] | None:
        """Score both seats the share of all cards of the fireworks, or 0 without a life."""
        most = self.num_colours * self.num_ranks
        if state.num_lives == 0:
            return (0.0, 0.0)
        score = sum(state.fireworks)
        if score < most and state.num_final_moves:
            return None
        return (score / most, score / most)

    def forfeit(self, seat: int) -> tuple[float, ...]:
        """Score both seats 0, whoever gives up."""
        return (0.0, 0.0)

    def text(self, state: Table, seat: int) -> str:
        """Show the table, the partner's cards, what either knows, and the newest move."""
        fireworks = " ".join(
            f"{COLOURS[colour]}{height}" for colour, height in enumerate(state.fireworks)
        )
        discards = " ".join(map(card_name, sorted(state.discards))) or "-"
        own = [f"{i + 1}:{held.known}" for i, held in enumerate(state.hands[seat])]
        partner = [
            f"{i + 1}:{card_name(held.card)} ({held.known})"
            for i, held in enumerate(state.hands[1 - seat])
        ]
        mover = "partner" if state.seat == seat else "you"
        lines = [
            f"Fireworks {fireworks}, discards {discards}",
            f"Hints {state.num_hints}, lives {state.num_lives}, cards to draw {len(state.deck)}",
            f"Partner {' '.join(partner)}",
            f"You {' '.join(own)}",
        ]
        return "\n".join([*lines, f"Last move: {mover} {state.last}"] if state.last else lines)

    def move_name(self, state: Table, action: int) -> str:
        """Name a move, such as `[play 1]`, `[discard 2]`, `[hint R]` or `[hint 3]`."""
        hint = action - 2 * self.hand_size
        if hint >= self.num_colours:
            return f"[hint {hint - self.num_colours + 1}]"
        if hint >= 0:
            return f"[hint {COLOURS[hint]}]"
        discards, place = divmod(action, self.hand_size)
        return f"[{'discard' if discards else 'play'} {place + 1}]"

    def planes(self, state: Table, seat: int) -> NDArray[np.uint8]:
        """Return planes with a row per colour and a column per rank, all of zeros and ones.

        In order: cards of the fireworks; 1, 2 and 3 copies discarded; what each own card may be;
        each card of the partner; what it may be for the partner; one full plane per hint and per
        life left.
        """
        shape = (self.num_colours, self.num_ranks)
        copies = np.zeros(shape, np.int64)
        for card in state.discards:
            copies[card] += 1
        heights = np.array(state.fireworks)[:, None]
        own, partner = state.hands[seat], state.hands[1 - seat]
        planes = [
            np.arange(self.num_ranks) < heights,
            *(copies > count for count in range(_MAX_COPIES)),
            *self._hand_planes([held.possible for held in own]),
            *self._hand_planes([{held.card} for held in partner]),
            *self._hand_planes([held.possible for held in partner]),
            *(np.full(shape, state.num_hints > count) for count in range(self.num_hints)),
            *(np.full(shape, state.num_lives > count) for count in range(self.num_lives)),
        ]
        return np.array(planes, np.uint8)

    def _hand_planes(self, hand: Sequence[Set[Card]]) -> NDArray[np.bool_]:
        planes = np.zeros((self.hand_size, self.num_colours, self.num_ranks), np.bool_)
        for place, cards in enumerate(hand):
            for card in cards:
                planes[place, *card] = True
        return planes

    def resample(self, state: Table, seat: int, rng: np.random.Generator) -> Table:
        """Draw the seat's own cards anew, any that fit the hints alike, and shuffle the deck."""
        hand = state.hands[seat]
        unseen = sorted([*state.deck, *(held.card for held in hand)])
        fitting = [[i for i, card in enumerate(unseen) if card in h.possible] for h in hand]
        # Drawing each place alone and starting over when two draw one card is uniform over hands.
        while True:
            drawn = [places[rng.integers(len(places))] for places in fitting]
            if len(set(drawn)) == len(drawn):
                break
        own = tuple(replace(h, card=unseen[i]) for h, i in zip(hand, drawn, strict=True))
        rest = [card for i, card in enumerate(unseen) if i not in drawn]
        deck = tuple(rest[place] for place in rng.permutation(len(rest)))
        return replace(state, deck=deck, hands=_with_hand(state.hands, seat, own))

    def rules(self) -> str:
        """Explain aim, cards, hints and reply."""
        return (
            f"Hanabi, played together: build one firework per colour "
            f"({', '.join(COLOURS[: self.num_colours])}) from 1 up to {self.num_ranks}; R2 means "
            "that red has its 1 and 2. Each colour has three 1s, one of its highest card and two "
            "of any other. You see your partner's cards but not your own: 1:RG23 means your card "
            "1 is red or green and a 2 or 3 by the hints so far; in brackets is what your partner "
            "knows. Play a card (one that does not fit costs a life; without lives all is lost), "
            "discard one to regain a hint, or hint a colour or number that your partner holds, "
            "which tells all such cards. New cards come last. After the last card is drawn, each "
            "moves once more. Reply with [play 1], [discard 1], [hint R] or [hint 1]."
        )


def _with_hand(
    hands: tuple[tuple[Held, ...], ...], seat: int, hand: tuple[Held, ...]
) -> tuple[tuple[Held, ...], ...]:
    return (hand, hands[1]) if seat == 0 else (hands[0], hand)
