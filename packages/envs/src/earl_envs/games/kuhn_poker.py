"""Kuhn poker: three cards, one chip each in the pot, one bet of one chip.

Rules and value of the game are in H. W. Kuhn, A Simplified Two-Person Poker, Contributions to the
Theory of Games I, 1950.
"""

from typing import final

import numpy as np
from numpy.typing import NDArray

from earl_envs.game import Game

Deal = tuple[tuple[int, ...], tuple[int, ...]]
"""The shuffled deck (seat 0's card, seat 1's card, the card left out) and the actions so far."""

_CARDS = "JQK"
_PASS, _BET = 0, 1
_ENDINGS = {(_PASS, _PASS), (_BET, _PASS), (_BET, _BET), (_PASS, _BET, _PASS), (_PASS, _BET, _BET)}


def _is_showdown(actions: tuple[int, ...]) -> bool:
    return actions in _ENDINGS and actions[-1] == actions[-2]


@final
class KuhnPoker(Game[Deal]):
    """The smallest poker with a bluff. Returns are chips; perfect play loses 1/18 for seat 0."""

    num_seats = 2
    num_actions = 2
    max_moves = 3
    min_return = -2.0
    solved_value = (-1 / 18, 1 / 18)

    def initial(self, rng: np.random.Generator) -> Deal:
        """Shuffle the deck and deal."""
        return (tuple(rng.permutation(3).tolist()), ())

    def seat(self, state: Deal) -> int:
        """Return 0 and 1 in turn."""
        return len(state[1]) & 1

    def legal(self, state: Deal) -> list[int]:
        """Return 0 (check or fold) and 1 (bet or call), none once the game is over."""
        return [] if state[1] in _ENDINGS else [_PASS, _BET]

    def apply(self, state: Deal, action: int) -> Deal:
        """Add an action."""
        return (state[0], (*state[1], action))

    def returns(self, state: Deal) -> tuple[float, float] | None:
        """Pay the winner what the loser put into the pot, 1 or 2 chips."""
        (first, second, _), actions = state
        if actions not in _ENDINGS:
            return None
        if not _is_showdown(actions):
            # Whoever faced the bet folded, and only its first chip is lost.
            return (-1.0, 1.0) if len(actions) == 3 else (1.0, -1.0)
        chips = 1.0 + actions[-1]
        return (chips, -chips) if first > second else (-chips, chips)

    def text(self, state: Deal, seat: int) -> str:
        """Show the own card, what was done, and at a showdown the opponent's card."""
        cards, actions = state
        done = [
            f"{'you' if place & 1 == seat else 'opponent'} {_word(actions[:place], action)}"
            for place, action in enumerate(actions)
        ]
        shown = [f"opponent has {_CARDS[cards[1 - seat]]}"] if _is_showdown(actions) else []
        return ", ".join((f"Your card: {_CARDS[cards[seat]]}", *done, *shown))

    def move_name(self, state: Deal, action: int) -> str:
        """Name an action by what it means now: `[check]`, `[bet]`, `[fold]` or `[call]`."""
        return f"[{_word(state[1], action)}]"

    def planes(self, state: Deal, seat: int) -> NDArray[np.uint8]:
        """Return one plane of one-hot rows: the seat, its card, the three actions."""
        rows = np.zeros((1, 5, 3), np.uint8)
        rows[0, 0, seat] = rows[0, 1, state[0][seat]] = 1
        for place, action in enumerate(state[1]):
            rows[0, 2 + place, action] = 1
        return rows

    def resample(self, state: Deal, seat: int, rng: np.random.Generator) -> Deal:
        """Deal the opponent's card anew, unless the game is over."""
        cards, actions = state
        if actions in _ENDINGS:
            return state
        others = rng.permutation([card for card in range(3) if card != cards[seat]]).tolist()
        others.insert(seat, cards[seat])
        return (tuple(others), actions)

    def rules(self) -> str:
        """Explain cards, bets and reply."""
        return (
            "Kuhn poker. You and your opponent hold one card each of J, Q and K, and have put one "
            "chip each into the pot. In turn you check or bet one chip; after a bet the other "
            "folds or calls. When both have checked or a bet was called, the higher card takes "
            "the pot. Reply with [check], [bet], [fold] or [call]."
        )


def _word(before: tuple[int, ...], action: int) -> str:
    names = ("fold", "call") if before[-1:] == (_BET,) else ("check", "bet")
    return names[action]
