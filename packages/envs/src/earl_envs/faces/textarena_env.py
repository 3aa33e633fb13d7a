"""A game as a TextArena environment; what `register_with_textarena` has TextArena import."""

from typing import Any, final

import numpy as np

from earl_envs.end_reason import FORFEITS
from earl_envs.record import GameRecord
from earl_envs.registry import make_game
from earl_envs.text.chat_env import ChatEnv

try:
    import textarena as ta
    from textarena.wrappers import LLMObservationWrapper
except ImportError as error:
    raise ImportError("TextArena is missing: pip install earl-envs[textarena]") from error


@final
class TextArenaGame(ta.Env):
    """Every seat played by text, in TextArena's protocol.

    Observations are TextArena's lists of (sender, message, type), for its wrappers to join: the
    rules once, then the board as that player sees it. A player's replies go into its own
    observations only. Ends are those of `ChatEnv`; `game_info` gives its end reason as `reason`.

    Example:
        env = TextArenaGame("earl/TicTacToe-v0")
        env.reset(num_players=2, seed=0)
        player_id, observation = env.get_observation()
        done, step_info = env.step("[5]")
        rewards, game_info = env.close()
    """

    def __init__(self, game_id: str, *, illegal: str = "forfeit", **params: Any) -> None:  # noqa: ANN401
        self._game_id, self._params = game_id, params
        self._chat = ChatEnv(make_game(game_id, **params), illegal=illegal)

    def reset(self, num_players: int, seed: int | None = None) -> None:
        """Begin an episode, from fresh entropy if there is no seed."""
        game = self._chat.game
        if num_players != game.num_seats:
            raise ValueError(f"num_players must be {game.num_seats}, got {num_players}")
        fresh = int(np.random.SeedSequence().generate_state(1, np.uint64)[0])
        self._chat.reset(seed=fresh if seed is None else seed)
        self._num_turns = [0] * num_players
        self.state = ta.State(num_players=num_players)  # without a seed: it would seed `random`
        roles = {seat: f"Player {seat}" for seat in range(num_players)}
        self.state.standard_resets(game_state={}, role_mapping=roles)
        for seat in range(num_players):
            self._tell(seat, game.rules(), ta.ObservationType.PROMPT)
        self._pass_turn()

    def step(self, action: str) -> tuple[bool, dict[str, Any]]:
        """Take the reply of the current player."""
        seat = self.state.current_player_id
        outcome = self._chat.step(action)
        self._tell(seat, action, ta.ObservationType.PLAYER_ACTION, sender=seat)
        if outcome.failure is None or outcome.substituted:
            self._num_turns[seat] += 1
        self.state.game_info[seat] |= {
            "turn_count": self._num_turns[seat],
            "invalid_move": self._chat.end_reason in FORFEITS,
        }
        self._pass_turn()
        return self.state.step()

    def close(self) -> tuple[dict[int, float] | None, dict[int, dict[str, Any]]]:
        """Return every player's score and what is known about the end."""
        return self.state.close()

    def record(self) -> GameRecord:
        """Return what replays the episode to its present state."""
        return self._chat.record(self._game_id, **self._params)

    def _tell(
        self, seat: int, text: str, kind: ta.ObservationType, sender: int = ta.GAME_ID
    ) -> None:
        self.state.add_observation(text, kind, from_id=sender, to_id=seat)

    def _pass_turn(self) -> None:
        chat, state = self._chat, self.state
        if chat.returns is None:
            state.current_player_id = chat.seat
            self._tell(chat.seat, chat.observation(chat.seat), ta.ObservationType.GAME_BOARD)
            return
        state.done = True
        rewards: Any = dict(enumerate(chat.returns))  # Any: TextArena declares None
        state.rewards = rewards
        reason = ": ".join(filter(None, (chat.end_reason, chat.detail)))
        for info in state.game_info.values():
            info["reason"] = reason


@final
class FreshHistory(LLMObservationWrapper):
    """TextArena's observations for language models, without those of the last episode."""

    def reset(self, num_players: int, seed: int | None = None) -> None:
        """Begin an episode and forget the last one."""
        self.full_observations = {}
        self.env.reset(num_players=num_players, seed=seed)
