"""A game as PettingZoo environments: turn by turn (AEC) and parallel."""

from collections.abc import Mapping
from typing import Any, SupportsIndex, final

import numpy as np
from gymnasium.spaces import Space
from numpy.typing import NDArray
from pettingzoo import AECEnv, ParallelEnv

from earl_envs.faces.seats import Seats, Seen
from earl_envs.record import GameRecord


class _SeatedEnv:
    """What both environments offer alike."""

    def __init__(
        self,
        game_id: str,
        *,
        illegal: str = "forfeit",
        render_mode: str | None = None,
        **params: Any,  # noqa: ANN401
    ) -> None:
        super().__init__()
        self._seats = Seats(game_id, params, illegal=illegal)
        self.metadata = self._seats.metadata
        # Unknown modes are refused by render() only: PettingZoo's checker makes one of mode human.
        self.render_mode = render_mode
        self.possible_agents = [*self._seats.names]
        self.agents: list[str] = []

    def observation_space(self, agent: str) -> Space[Any]:
        """Return the space of an agent's observations."""
        return self._seats.observation_spaces[self._seats.named(agent)]

    def action_space(self, agent: str) -> Space[Any]:
        """Return the space of an agent's actions."""
        return self._seats.action_spaces[self._seats.named(agent)]

    def render(self) -> str | NDArray[np.uint8]:
        """Draw what the agent to move sees."""
        return self._seats.render(self.render_mode)

    def close(self) -> None:
        """Release nothing: there is nothing to release."""

    def record(self) -> GameRecord:
        """Return what replays the episode to its present state."""
        return self._seats.episode.record()


@final
class GameAECEnv(_SeatedEnv, AECEnv[str, Seen, int | None]):
    """Turn by turn: `agent_iter`, `last`, `step`.

    Observations hold `observation` (the board array as that agent sees it) and `action_mask`; infos
    repeat the mask. An illegal move forfeits the game as `Game.forfeit` scores it, unless `illegal`
    says otherwise (`retry(k)`, `noop` or `random_legal`); it is in its agent's info as
    `illegal_action`, and what was played instead as `substituted`. Rules that raise truncate the
    game with 0 for all. Every last info has `returns`, `winner`, `end_reason` and, where
    there is one, `detail`. At the end of every game the selected agent is the one after the mover.

    Order is enforced here, by ValueErrors: PettingZoo's wrappers only warn when a finished game is
    stepped, and count an illegal move as a truncation.
    """

    def reset(
        self, seed: SupportsIndex | None = None, options: dict[str, Any] | None = None
    ) -> None:
        """Begin a new series of episodes, or without a seed the next episode of the series."""
        episode = self._seats.begin(seed, options)
        self.agents = [*self.possible_agents]
        self._skip_agent_selection = None
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.agent_selection = self.agents[max(0, episode.seat)]
        self._publish()

    def step(self, action: object) -> None:
        """Make the move of the selected agent; None for an agent whose game is over."""
        if not self.agents:
            raise ValueError("the episode is over or was never begun: call reset()")
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            if action is not None:
                raise ValueError(f"the game of {agent} is over: it takes None only, got {action!r}")
            self._was_dead_step(None)
            return
        self._seats.act(action)
        seat = self._seats.episode.seat
        following = (self.possible_agents.index(agent) + 1) % len(self.possible_agents)
        self.agent_selection = self.possible_agents[following if seat < 0 else seat]
        self._publish()
        self._accumulate_rewards()

    def last(
        self,
        observe: bool = True,
    ) -> tuple[Seen | None, float, bool, bool, dict[str, Any]]:
        """Return what the selected agent sees, was paid since its last turn, and is told."""
        _ = self._seats.episode  # refuses before the first reset
        return super().last(observe)

    def observe(self, agent: str) -> Seen:
        """Return what an agent sees, at any time, in new arrays."""
        return self._seats.observe(agent)

    def _publish(self) -> None:
        episode = self._seats.episode
        self.rewards = self._seats.reward
        self.terminations = dict.fromkeys(self.agents, episode.terminated)
        self.truncations = dict.fromkeys(self.agents, episode.truncated)
        self.infos = {agent: self._seats.info(agent) for agent in self.agents}


@final
class GameParallelEnv(_SeatedEnv, ParallelEnv[str, Seen, int]):
    """All agents at once: a step takes everybody's action and makes that of the agent to move.

    The others' actions are ignored; `infos[agent]["active_agent"]` names whose turn it is and only
    that agent's `action_mask` has actions. All else is as in `GameAECEnv`.
    """

    def reset(
        self, seed: SupportsIndex | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Seen], dict[str, dict[str, Any]]]:
        """Begin a new series of episodes, or without a seed the next episode of the series."""
        self._seats.begin(seed, options)
        self.agents = [*self.possible_agents]
        return self._observations(), self._infos()

    def step(
        self,
        actions: object,
    ) -> tuple[
        dict[str, Seen],
        dict[str, float],
        dict[str, bool],
        dict[str, bool],
        dict[str, dict[str, Any]],
    ]:
        """Make the move of the agent whose turn it is."""
        if not self.agents:
            raise ValueError("the episode is over or was never begun: call reset()")
        if not isinstance(actions, Mapping):
            raise ValueError(f"the actions must be a dict, agent to action, got {actions!r}")  # noqa: TRY004
        episode = self._seats.episode
        active = self.possible_agents[max(0, episode.seat)]
        if active not in actions:
            raise ValueError(f"it is the turn of {active}, got actions of {[*actions]} only")
        self._seats.act(actions[active])
        observations, infos = self._observations(), self._infos()
        terminations = dict.fromkeys(self.agents, episode.terminated)
        truncations = dict.fromkeys(self.agents, episode.truncated)
        if episode.end_reason is not None:
            self.agents = []
        return observations, self._seats.reward, terminations, truncations, infos

    def _observations(self) -> dict[str, Seen]:
        return {agent: self._seats.observe(agent) for agent in self.agents}

    def _infos(self) -> dict[str, dict[str, Any]]:
        active = self.possible_agents[max(0, self._seats.episode.seat)]
        return {agent: {**self._seats.info(agent), "active_agent": active} for agent in self.agents}


def pettingzoo_env(
    game_id: str,
    *,
    illegal: str = "forfeit",
    render_mode: str | None = None,
    **params: Any,  # noqa: ANN401
) -> GameAECEnv:
    """Return a game as a PettingZoo AEC environment.

    Raises:
        ValueError: If `make_game` refuses the id or the parameters, or `make_illegal_policy` the
            policy.
    """
    return GameAECEnv(game_id, illegal=illegal, render_mode=render_mode, **params)


def pettingzoo_parallel_env(
    game_id: str,
    *,
    illegal: str = "forfeit",
    render_mode: str | None = None,
    **params: Any,  # noqa: ANN401
) -> GameParallelEnv:
    """Return a game as a PettingZoo parallel environment.

    Raises:
        ValueError: If `make_game` refuses the id or the parameters, or `make_illegal_policy` the
            policy.
    """
    return GameParallelEnv(game_id, illegal=illegal, render_mode=render_mode, **params)
