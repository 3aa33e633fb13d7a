"""OpenSpiel's games under the contract of `Game`; OpenSpiel holds their rules.

Chance is drawn here, from a seed that every state carries.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from earl_envs.adapters.consistent_history import consistent_history
from earl_envs.adapters.spiel_library import Spiel, load_game, loadable_names
from earl_envs.adapters.spiel_state import SpielNode, SpielState
from earl_envs.adapters.spiel_tensor import as_bytes, board_of, stay_bytes
from earl_envs.boundary import attempt
from earl_envs.game import Game
from earl_envs.suggest import suggest

# Games whose `resample_from_infostate` OpenSpiel 2.0.2 implements (open_spiel/games/*/*.cc); for
# the others a consistent history is searched for.
_RESAMPLED_BY_OPENSPIEL = frozenset({
    "bargaining", "blackjack", "bridge", "colored_trails", "euchre", "gin_rummy", "hearts",
    "kuhn_poker", "leduc_poker", "oh_hell", "universal_poker",
})  # fmt: skip
# Copying their states corrupts memory in OpenSpiel 2.0.2, so that they are replayed instead.
_UNSAFE_TO_COPY = frozenset({"morpion_solitaire"})
# Tiles of 2048 grow beyond a byte, though seldom in random games.
_BEYOND_BYTES = frozenset({"2048"})
_NUM_PROBED_BOARDS = 80
_NUM_PROBED_GAMES = 3
_MAX_LISTED_MOVES = 100
_PLAIN_LABEL = re.compile(r"[^\[\]<>{}\\\n]+")


@final  # noqa: PLR0904 - the contract of `Game`, and how to pickle it
class OpenSpielGame(Game[SpielState]):
    """One of OpenSpiel's games under the contract of `Game`.

    Games with simultaneous moves are played one seat after the other, which does not show the
    later seats what the earlier ones chose. Mean-field games are refused: their state is a
    distribution over a population, not one game. Boards are shown as OpenSpiel shows them, to some
    games from player 0's side whichever seat looks; `planes` are OpenSpiel's observation tensor, if
    it stays one of whole numbers from 0 to 255.

    Example:
        game = OpenSpielGame("leduc_poker", players=3)

    Args:
        name: OpenSpiel's short name, or its whole notation such as `misere(game=tic_tac_toe())`.
        **params: OpenSpiel's parameters of that game; games as parameters in OpenSpiel's notation.
    """

    def __init__(self, name: str, **params: Any) -> None:  # noqa: ANN401 - each has its own
        self._name = name
        self._params = params
        self._game = load_game(name, params)
        kind = self._game.get_type()
        self._perfect = kind.information.name == "PERFECT_INFORMATION"
        self._drawn_inside = kind.chance_mode.name == "SAMPLED_STOCHASTIC"
        self._replays = self._drawn_inside or kind.short_name in _UNSAFE_TO_COPY
        if self._drawn_inside and "rng_seed" in params:
            raise ValueError(f"{name!r} is seeded as every game is: it takes no rng_seed")
        self._chance = kind.chance_mode.name != "DETERMINISTIC"
        self.num_seats = self._game.num_players()
        self.num_actions = self._game.num_distinct_actions()
        self.max_moves = self._game.max_game_length()
        self.min_return = self._game.min_utility()

    def __reduce__(self) -> tuple[Any, ...]:
        return _make, (self._name, self._params)

    def initial(self, rng: np.random.Generator) -> SpielState:
        """Draw the seed of all chance, and deal."""
        return self._settled(self._root(seed := int(rng.integers(2**63))), (), seed)

    def seat(self, state: SpielState) -> int:
        """Ask OpenSpiel whose turn it is."""
        return int(self._spiel(state).current_player())

    def legal(self, state: SpielState) -> list[int]:
        """Ask OpenSpiel for the legal actions."""
        spiel = self._spiel(state)
        return [] if spiel.is_terminal() else spiel.legal_actions()

    def apply(self, state: SpielState, action: int) -> SpielState:
        """Make the move on a copy, then draw whatever chance comes next."""
        history = (*state.history, int(action))
        if self._replays:
            return self._settled(self._replayed(history, state.seed), history, state.seed)
        return self._settled(self._spiel(state).child(action), history, state.seed)

    def returns(self, state: SpielState) -> Sequence[float] | None:
        """Return OpenSpiel's returns once the state is terminal."""
        spiel = self._spiel(state)
        return tuple(map(float, spiel.returns())) if spiel.is_terminal() else None

    def text(self, state: SpielState, seat: int) -> str:
        """Show what OpenSpiel shows this seat, and the names of its legal moves."""
        spiel = self._spiel(state)
        lines = [f"You are player {seat}.", self._view(spiel, seat).strip()]
        if spiel.current_player() == seat:
            names = list(self._names(state).values())
            more = len(names) - _MAX_LISTED_MOVES
            moves = " ".join(f"[{name}]" for name in names[:_MAX_LISTED_MOVES])
            lines.append(f"Legal moves: {moves}" + (f" and {more} more" if more > 0 else ""))
        return "\n".join(filter(None, lines))

    def move_name(self, state: SpielState, action: int) -> str:
        """Return OpenSpiel's name of a legal action, or its number.

        Numbers are used throughout a position where OpenSpiel gives two actions one name, or a name
        that could not stand between brackets.

        Raises:
            ValueError: If the action is not legal: OpenSpiel names legal ones only.
        """
        names = self._names(state)
        if action not in names:
            raise ValueError(f"only legal actions have names, got {action}")
        return f"[{names[action]}]"

    def rules(self) -> str:
        """Name the game and the form of a reply; OpenSpiel explains no rules."""
        return (
            f"You play {self._game.get_type().long_name}. Players are numbered from 0. "
            "Reply with one of the legal moves in square brackets, exactly as it is listed."
        )

    def forfeit(self, seat: int) -> tuple[float, ...]:
        """Share out what the game's sum leaves; without a fixed sum, nobody gains."""
        utility = self._game.get_type().utility.name
        if utility == "IDENTICAL":
            share = self.min_return
        elif utility == "GENERAL_SUM":
            share = min(max(0.0, self.min_return), self._game.max_utility())
        else:
            share = (self._game.utility_sum() - self.min_return) / max(1, self.num_seats - 1)
        return tuple(self.min_return if s == seat else share for s in range(self.num_seats))

    def planes(self, state: SpielState, seat: int) -> NDArray[np.uint8] | None:
        """Return OpenSpiel's tensor for this seat, if it stays one of small whole numbers.

        Without one, the moves of a game of perfect information may be listed; elsewhere they may be
        secret, and a single zero stands for the board.

        Raises:
            ValueError: If a value is none, though none of the random games looked at had such.
        """
        if not self._has_planes:
            return None if self._perfect else np.zeros((1, 1, 1), np.uint8)
        board = board_of(self._game, self._spiel(state), seat)
        if board is None or (exact := as_bytes(board)) is None:
            raise ValueError(f"the tensor of {self._name!r} holds more than bytes in {state}")
        return exact

    def resample(self, state: SpielState, seat: int, rng: np.random.Generator) -> SpielState:
        """Draw anew what `seat` cannot know: the history as far as it is hidden, and the seed.

        OpenSpiel does it for the games that it can; for the others a history is searched for that
        shows the seat the same at every step. Every such history can be found, but not every one is
        equally probable given what was shown.

        Raises:
            ValueError: If OpenSpiel draws the game's chance itself, or the search takes too long.
        """
        if self._drawn_inside:
            raise ValueError(f"OpenSpiel draws the chance of {self._name!r} itself: no resampling")
        if self._perfect and not self._chance:
            return state
        history = state.history if self._perfect else self._redrawn(state, seat, rng)
        return SpielState(history=history, seed=int(rng.integers(2**63)))

    def _spiel(self, state: SpielState) -> Spiel:
        return self._node(state).spiel

    def _node(self, state: SpielState) -> SpielNode:
        if not state.memo:
            state.memo.append(SpielNode(self._replayed(state.history, state.seed)))
        return state.memo[0]

    def _names(self, state: SpielState) -> dict[int, str]:
        node = self._node(state)
        if node.names is None:
            seat = node.spiel.current_player()
            actions = self.legal(state)
            names = [node.spiel.action_to_string(seat, action).strip() for action in actions]
            if len(set(names)) < len(names) or not all(map(_PLAIN_LABEL.fullmatch, names)):
                names = list(map(str, actions))
            node.names = dict(zip(actions, names, strict=True))
        return node.names

    def _root(self, seed: int) -> Spiel:
        if not self._drawn_inside:
            return self._game.new_initial_state()
        # OpenSpiel keeps the chance of these games in the game object, so each start gets its own.
        return load_game(self._name, {**self._params, "rng_seed": seed % 2**31}).new_initial_state()

    def _replayed(self, history: Sequence[int], seed: int) -> Spiel:
        spiel = self._root(seed)
        for action in history:
            spiel.apply_action(action)
        return spiel

    def _settled(self, spiel: Spiel, history: tuple[int, ...], seed: int) -> SpielState:
        while spiel.is_chance_node():
            action = _draw(spiel.chance_outcomes(), _uniform(seed, len(history)))
            spiel.apply_action(action)
            history = (*history, action)
        return SpielState(history=history, seed=seed, memo=[SpielNode(spiel)])

    def _view(self, spiel: Spiel, seat: int) -> str:
        kind = self._game.get_type()
        # What a seat saw and did before matters where something is hidden; elsewhere the board is
        # enough, and OpenSpiel's information state is then a list of action numbers.
        if kind.provides_information_state_string and not (
            self._perfect and kind.provides_observation_string
        ):
            return spiel.information_state_string(seat)
        if kind.provides_observation_string:
            return spiel.observation_string(seat)
        return str(spiel) if self._perfect else ""

    @cached_property
    def _has_planes(self) -> bool:
        if self._game.get_type().short_name in _BEYOND_BYTES:
            return False
        # Some games announce a tensor that they do not have.
        boards = (
            attempt(board_of, self._game, self._spiel(state), seat)
            for state in self._random_states(np.random.default_rng(0))
            for seat in range(self.num_seats)
        )
        return stay_bytes(boards, num_probed=_NUM_PROBED_BOARDS)

    def _random_states(self, rng: np.random.Generator) -> Iterator[SpielState]:
        for _ in range(_NUM_PROBED_GAMES):
            state = self.initial(rng)
            while legal := self.legal(state):
                yield state
                state = self.apply(state, int(rng.choice(legal)))
            yield state

    def _redrawn(self, state: SpielState, seat: int, rng: np.random.Generator) -> tuple[int, ...]:
        if self._game.get_type().short_name in _RESAMPLED_BY_OPENSPIEL:
            drawn = self._spiel(state).resample_from_infostate(seat, rng.random)
            return tuple(drawn.history())
        return consistent_history(
            self._root(state.seed),
            state.history,
            seat,
            view=lambda spiel: self._view(spiel, seat),
            rng=rng,
        )


def family_ids() -> list[str]:
    """Return the ids of all games that can be made without parameters."""
    return [f"openspiel/{name}-v0" for name in loadable_names()]


def make_family_game(name: str, **params: Any) -> OpenSpielGame:  # noqa: ANN401
    """Make the game `openspiel/NAME`, where `name` is OpenSpiel's short name and `-v0`.

    Raises:
        ValueError: If there is no such game, or OpenSpiel refuses it or its parameters.
    """
    short_name = name.removesuffix("-v0")
    if name == short_name:
        raise ValueError(suggest(f"openspiel/{name}", family_ids(), what="game"))
    return OpenSpielGame(short_name, **params)


def _make(name: str, params: dict[str, Any]) -> OpenSpielGame:
    return OpenSpielGame(name, **params)


def _draw(outcomes: Sequence[tuple[int, float]], chance: float) -> int:
    """Return the outcome in whose share of [0, 1) `chance` lies."""
    for action, probability in outcomes:
        chance -= probability
        if chance < 0:
            return action
    return outcomes[-1][0]  # the probabilities add up to a little less than 1


def _uniform(seed: int, draw: int) -> float:
    """Return the draw-th number in [0, 1) of a seed's stream, each as good as independent."""
    digest = hashlib.blake2b(f"{seed}/{draw}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "little") >> 11) / 2**53
