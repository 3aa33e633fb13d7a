"""Mastermind with marks per peg: guess a code of colours.

The code and the number of colours are those of the board game of 1970; as in Wordle (J. Wardle,
2021) the answer marks every peg of the guess. With four pegs and six colours five guesses are
enough: D. E. Knuth's strategy (The Computer as Master Mind, Journal of Recreational Mathematics 9,
1976) needs only the number of marks of each kind.
"""

from functools import lru_cache
from itertools import product
from typing import final

import numpy as np
from numpy.typing import NDArray

from earl_envs.game import Game

Guesses = tuple[int, tuple[int, ...]]
"""The code and the guesses so far, each as the number of its code in alphabetical order."""

_COLOURS = "RGBYOPWK"
_MARKS = "-?+"  # absent, elsewhere, in place
_ABSENT, _ELSEWHERE, _IN_PLACE = 0, 1, 2
_MAX_CODES = 10_000
_KNUTH = (4, 6, 5)  # pegs, colours, guesses


def feedback(code: tuple[int, ...], guess: tuple[int, ...]) -> tuple[int, ...]:
    """Mark every peg of a guess: 2 in place, 1 elsewhere in the code, 0 absent.

    A peg of the code answers one peg of the guess: first those in place, then from the left.
    """
    rest = [peg for peg, guessed in zip(code, guess, strict=True) if peg != guessed]
    marks: list[int] = []
    for peg, guessed in zip(code, guess, strict=True):
        if peg == guessed:
            marks.append(_IN_PLACE)
        elif guessed in rest:
            rest.remove(guessed)
            marks.append(_ELSEWHERE)
        else:
            marks.append(_ABSENT)
    return tuple(marks)


@final
class Mastermind(Game[Guesses]):
    """One player guesses a hidden code: 1 for finding it in time, else 0."""

    num_seats = 1
    min_return = 0.0

    def __init__(self, *, num_pegs: int = 4, num_colours: int = 6, num_guesses: int = 6) -> None:
        if num_pegs < 1 or not 2 <= num_colours <= len(_COLOURS) or num_guesses < 1:
            raise ValueError(
                "num_pegs and num_guesses must be >= 1 and num_colours in "
                f"2..{len(_COLOURS)}, got {num_pegs}, {num_guesses} and {num_colours}"
            )
        if num_colours**num_pegs > _MAX_CODES:
            raise ValueError(f"at most {_MAX_CODES} codes, got {num_colours}**{num_pegs}")
        self.num_pegs, self.num_colours, self.num_guesses = num_pegs, num_colours, num_guesses
        self.max_moves = num_guesses
        self._codes = _all_codes(num_pegs, num_colours)
        self.num_actions = len(self._codes)
        self._names = [f"[{self._spell(code)}]" for code in self._codes]
        if (num_pegs, num_colours) == _KNUTH[:2] and num_guesses >= _KNUTH[2]:
            self.solved_value = (1.0,)

    def _spell(self, code: tuple[int, ...]) -> str:
        return " ".join(_COLOURS[peg] for peg in code)

    def initial(self, rng: np.random.Generator) -> Guesses:
        """Draw a code."""
        return (int(rng.integers(self.num_actions)), ())

    def seat(self, state: Guesses) -> int:
        """Return 0, the only seat."""
        return 0

    def legal(self, state: Guesses) -> list[int]:
        """Return every code, none once the game is over."""
        return [] if self.returns(state) is not None else list(range(self.num_actions))

    def apply(self, state: Guesses, action: int) -> Guesses:
        """Add a guess."""
        return (state[0], (*state[1], action))

    def returns(self, state: Guesses) -> tuple[float] | None:
        """Score 1 when the code was guessed, 0 when no guess is left."""
        code, guesses = state
        if guesses[-1:] == (code,):
            return (1.0,)
        return (0.0,) if len(guesses) >= self.num_guesses else None

    def _answers(self, state: Guesses) -> list[tuple[int, ...]]:
        code = self._codes[state[0]]
        return [feedback(code, self._codes[guess]) for guess in state[1]]

    def text(self, state: Guesses, seat: int) -> str:
        """List the guesses with a mark per peg: + in place, ? elsewhere, - absent."""
        lines = [
            f"{self._spell(self._codes[guess])}: {' '.join(_MARKS[mark] for mark in marks)}"
            for guess, marks in zip(state[1], self._answers(state), strict=True)
        ]
        return "\n".join((*lines, f"Guesses left: {self.num_guesses - len(state[1])}"))

    def move_name(self, state: Guesses, action: int) -> str:
        """Spell a code, such as `[R G B Y]`."""
        return self._names[action]

    def planes(self, state: Guesses, seat: int) -> NDArray[np.uint8]:
        """Return a plane per colour guessed, then one per mark; rows are guesses, columns pegs."""
        planes = np.zeros((self.num_colours + 3, self.num_guesses, self.num_pegs), np.uint8)
        pegs = np.arange(self.num_pegs)
        for row, (guess, marks) in enumerate(zip(state[1], self._answers(state), strict=True)):
            planes[list(self._codes[guess]), row, pegs] = 1
            planes[self.num_colours + np.array(marks), row, pegs] = 1
        return planes

    def resample(self, state: Guesses, seat: int, rng: np.random.Generator) -> Guesses:
        """Draw a code anew, any that gives the same answers alike."""
        history = tuple(zip(state[1], self._answers(state), strict=True))
        possible = _consistent(self.num_pegs, self.num_colours, history)
        return (possible[rng.integers(len(possible))], state[1])

    def rules(self) -> str:
        """Explain code, marks and reply."""
        colours = " ".join(_COLOURS[: self.num_colours])
        example = self._names[min(8, self.num_actions - 1)]
        return (
            f"Mastermind. Find the hidden code of {self.num_pegs} colours out of {colours}; a "
            f"colour may occur more than once. You have {self.num_guesses} guesses. Each peg of a "
            "guess is marked + if it is right, ? if its colour belongs elsewhere, - if the code "
            "has no (further) peg of that colour. Reply with a code in square brackets, such as "
            f"{example}."
        )


@lru_cache(maxsize=8)
def _all_codes(num_pegs: int, num_colours: int) -> tuple[tuple[int, ...], ...]:
    return tuple(product(range(num_colours), repeat=num_pegs))


@lru_cache(maxsize=256)  # searches ask for the codes of one history many times in a row
def _consistent(
    num_pegs: int, num_colours: int, history: tuple[tuple[int, tuple[int, ...]], ...]
) -> list[int]:
    codes = _all_codes(num_pegs, num_colours)
    if not history:
        return list(range(len(codes)))
    *before, (guess, marks) = history
    possible = _consistent(num_pegs, num_colours, tuple(before))
    return [code for code in possible if feedback(codes[code], codes[guess]) == marks]
