"""Leduc poker: six cards, two rounds of bets, one card on the table.

Rules are in F. Southey et al., Bayes' Bluff: Opponent Modelling in Poker, UAI 2005 (arXiv
1207.1411), section 4: one chip each in the pot, bets of 2 chips in the first round and 4 in the
second, at most two bets a round. The value of the game is in M. Lanctot et al., A Unified
Game-Theoretic Approach to Multiagent Reinforcement Learning, NeurIPS 2017 (arXiv 1711.00832),
appendix E.
"""

from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from earl_envs.game import Game

_RANKS = "JQK"
_FOLD, _CALL, _RAISE = 0, 1, 2
_RAISE_CHIPS = (2, 4)
_MAX_RAISES = 2
_MAX_ACTIONS = 4  # of a round: check, bet, raise, call


class Deal(NamedTuple):
    """Cards and actions of a game."""

    deck: tuple[int, ...]
    """All cards as 2 * rank + suit: seat 0's, seat 1's, the one for the table, those left out."""
    rounds: tuple[tuple[int, ...], ...] = ((),)
    """The actions of every round that has begun."""


@final
class LeducPoker(Game[Deal]):
    """Poker with a public card. Returns are chips; perfect play loses 0.0856 for seat 0."""

    num_seats = 2
    num_actions = 3
    max_moves = 2 * _MAX_ACTIONS
    min_return = -13.0
    solved_value = (-0.085606424078, 0.085606424078)

    def initial(self, rng: np.random.Generator) -> Deal:
        """Shuffle the deck and deal."""
        return Deal(tuple(rng.permutation(6).tolist()))

    def seat(self, state: Deal) -> int:
        """Return 0 and 1 in turn; seat 0 begins either round."""
        return len(state.rounds[-1]) & 1

    def legal(self, state: Deal) -> list[int]:
        """Return fold (0, after a bet), check or call (1), bet or raise (2, at most twice)."""
        if _is_over(state):
            return []
        actions = state.rounds[-1]
        fold = [_FOLD] if actions[-1:] == (_RAISE,) else []
        more = [_RAISE] if actions.count(_RAISE) < _MAX_RAISES else []
        return [*fold, _CALL, *more]

    def apply(self, state: Deal, action: int) -> Deal:
        """Add an action; a call or a second check ends the round."""
        *before, actions = state.rounds
        rounds = (*before, (*actions, action))
        if action == _CALL and actions and not before:
            rounds = (*rounds, ())
        return Deal(state.deck, rounds)

    def returns(self, state: Deal) -> tuple[float, float] | None:
        """Pay the winner what the loser put into the pot; equal cards share it."""
        if not _is_over(state):
            return None
        if state.rounds[-1][-1] == _FOLD:
            loser = (len(state.rounds[-1]) - 1) & 1
            chips = float(_chips(state)[loser])
            return (-chips, chips) if loser == 0 else (chips, -chips)
        first, second, table = (card // 2 for card in state.deck[:3])
        chips = float(_chips(state)[0])
        if first == second:
            return (0.0, 0.0)
        first_wins = first == table or (second != table and first > second)
        return (chips, -chips) if first_wins else (-chips, chips)

    def text(self, state: Deal, seat: int) -> str:
        """Show the own and the public card, chips, every action, and at a showdown all cards."""
        ranks = [_RANKS[card // 2] for card in state.deck]
        table = ranks[2] if len(state.rounds) == 2 else "-"
        chips = _chips(state)
        lines = [
            f"Your card {ranks[seat]}, table {table}",
            f"Chips in the pot: you {chips[seat]}, opponent {chips[1 - seat]}",
        ]
        for number, actions in enumerate(state.rounds):
            done = [
                f"{'you' if place & 1 == seat else 'opponent'} {_word(actions[:place], action)}"
                for place, action in enumerate(actions)
            ]
            lines.append(f"Round {number + 1}: {', '.join(done) or '-'}")
        if _is_over(state) and state.rounds[-1][-1] != _FOLD:
            lines.append(f"Opponent's card {ranks[1 - seat]}")
        return "\n".join(lines)

    def move_name(self, state: Deal, action: int) -> str:
        """Name an action by what it means now, such as `[check]` or `[call]`."""
        return f"[{_word(state.rounds[-1], action)}]"

    def planes(self, state: Deal, seat: int) -> NDArray[np.uint8]:
        """Return one plane of one-hot rows: seat, own rank, rank on the table, two rounds."""
        rows = np.zeros((1, 3 + 2 * _MAX_ACTIONS, 3), np.uint8)
        rows[0, 0, seat] = rows[0, 1, state.deck[seat] // 2] = 1
        if len(state.rounds) == 2:
            rows[0, 2, state.deck[2] // 2] = 1
        for number, actions in enumerate(state.rounds):
            for place, action in enumerate(actions):
                rows[0, 3 + number * _MAX_ACTIONS + place, action] = 1
        return rows

    def resample(self, state: Deal, seat: int, rng: np.random.Generator) -> Deal:
        """Deal the cards anew that the seat has not seen, unless the game is over."""
        if _is_over(state):
            return state
        seen = {seat, 2} if len(state.rounds) == 2 else {seat}
        # Sorted, so that what is drawn tells nothing of the order they lie in.
        hidden = sorted(card for place, card in enumerate(state.deck) if place not in seen)
        unseen = rng.permutation(hidden).tolist()
        deck = tuple(c if i in seen else unseen.pop() for i, c in enumerate(state.deck))
        return Deal(deck, state.rounds)

    def rules(self) -> str:
        """Explain cards, bets and reply."""
        return (
            "Leduc poker with two each of J, Q and K. You and your opponent hold one card each and "
            "have put one chip each into the pot. In each of two rounds you check or bet in turn; "
            "after a bet the other folds, calls or raises. A bet or raise is 2 chips in round 1 "
            "and 4 in round 2, at most two a round. Round 2 begins with a card on the table. At "
            "the end a card equal to it wins, else the higher one; equal cards share the pot. "
            "Reply with [check], [bet], [fold], [call] or [raise]."
        )


def _is_over(state: Deal) -> bool:
    actions = state.rounds[-1]
    called = len(state.rounds) == 2 and len(actions) > 1 and actions[-1] == _CALL
    return called or actions[-1:] == (_FOLD,)


def _chips(state: Deal) -> tuple[int, int]:
    chips = [1, 1]
    for actions, size in zip(state.rounds, _RAISE_CHIPS, strict=False):
        for place, action in enumerate(actions):
            if action != _FOLD:
                chips[place & 1] = max(chips) + (size if action == _RAISE else 0)
    return (chips[0], chips[1])


def _word(before: tuple[int, ...], action: int) -> str:
    if before[-1:] == (_RAISE,):
        return ("fold", "call", "raise")[action]
    return ("fold", "check", "bet")[action]
