"""A game as one agent meets it."""

from typing import Any, final

from earl_envs.boundary import Failure
from earl_envs.end_reason import EndReason
from earl_envs.faces.episode import Episode, EpisodeKey, Table
from earl_envs.faces.observation import Board
from earl_envs.faces.others import Others
from earl_envs.opponents.base import Opponent
from earl_envs.text.illegal import Verdict, make_illegal_policy


@final
class SingleAgent:
    """One episode after another, seen from the agent's seat; an opponent plays the others.

    Lifecycle: `begin` starts an episode and lets the others move up to the agent's first turn;
    `act` makes the agent's move and lets them answer. An opponent that raises or moves illegally
    ends the episode as `opponent_error`, worth 0. If an episode fails before the agent's first
    turn, `act` takes one action, whatever it is, so that a step reports the failure.

    Without an opponent the agent plays every seat, and `seat` follows the turns.

    Attributes:
        table: The game.
        episode: The game in progress.
        seat: The seat whose view is shown: the agent's, or without an opponent the one to move,
            and at the end the one that moved last.
    """

    def __init__(
        self, table: Table, *, opponent: str | Opponent | None, seat: int, illegal: str
    ) -> None:
        """Seat the agent.

        Args:
            table: The game.
            opponent: A player or the name of one; None lets the agent play every seat.
            seat: The agent's, if there is an opponent.
            illegal: What an illegal action leads to; see `make_illegal_policy`. Turns that `noop`
                spends count towards the `max_moves` of the game, at which it is cut.
        """
        self.table = table
        self.seat = seat
        self.others = Others(table.game_id, table.game, opponent=opponent, seat=seat)
        self._policy = make_illegal_policy(illegal)
        self._episode: Episode | None = None
        self._mover = seat
        self._num_actions = 0
        self._num_wrong_actions = 0
        self._num_spent_turns = 0
        self._remarks: dict[str, int] = {}

    @property
    def episode(self) -> Episode:
        """The game in progress."""
        if self._episode is None:
            raise ValueError("no episode has begun: call reset()")
        return self._episode

    @property
    def reward(self) -> float:
        """The score of the seat that acted last, 0 until the game is over."""
        returns = self.episode.returns
        return 0.0 if returns is None else returns[self._mover]

    def begin(self, key: EpisodeKey) -> None:
        """Start the episode that `key` names."""
        self._episode = Episode(self.table, seed=key.game_seed)
        self._num_actions = self._num_wrong_actions = self._num_spent_turns = 0
        self._remarks = {}
        self.others.begin(key)
        self._let_others_play(self._episode)

    def act(self, action: int) -> None:
        """Make the agent's move.

        Raises:
            ValueError: If the episode is over or the action outside `num_actions`.
        """
        episode, num_actions = self.episode, self.table.game.num_actions
        if episode.end_reason is not None and self._num_actions:
            raise ValueError(f"the episode is over ({episode.end_reason}): call reset()")
        if not 0 <= action < num_actions:
            raise ValueError(f"an action must be in 0..{num_actions - 1}, got {action}")
        self._num_actions += 1
        self._remarks = {}
        self._mover = self.seat
        if action in episode.legal:
            self._play(episode, action)
        elif episode.end_reason is None:
            self._judge(episode, action)
        self._let_others_play(episode)

    def observe(self) -> Board:
        """Return the board array of `seat`, in a new array."""
        return self.episode.observe(self.seat)

    def info(self) -> dict[str, Any]:  # Any: values of several types, as Gymnasium's infos have
        """Return a new info: `action_mask` and `seat`, remarks, and at the end what it was.

        Remarks are `illegal_action`, an action that was refused, and `substituted`, what was played
        instead. For the end see `Episode.ending`.
        """
        episode = self.episode
        mask = episode.mask(self.seat)
        return {"action_mask": mask, "seat": self.seat, **self._remarks, **episode.ending()}

    def _play(self, episode: Episode, action: int) -> None:
        episode.play(action)
        self._num_wrong_actions = 0

    def _judge(self, episode: Episode, action: int) -> None:
        self._remarks = {"illegal_action": action}
        self._num_wrong_actions += 1
        verdict = self._policy.decide(self._num_wrong_actions)
        if verdict is Verdict.FORFEIT:
            episode.forfeit(action)
        elif verdict is Verdict.REPEAT:
            self._num_wrong_actions = 0
            self._num_spent_turns += 1
            num_turns = len(episode.moves) + self._num_spent_turns
            if num_turns >= self.table.game.max_moves:
                episode.fail(EndReason.MOVE_LIMIT, f"not over after {num_turns} turns")
        elif verdict is Verdict.SUBSTITUTE:
            legal = episode.legal
            drawn = legal[int(self.others.stream(self.seat).integers(len(legal)))]
            self._remarks["substituted"] = drawn
            self._play(episode, drawn)

    def _let_others_play(self, episode: Episode) -> None:
        while self.others.plays(episode.seat):
            answer = self.others.move(episode.state, episode.seat)
            if isinstance(answer, Failure):
                episode.fail(EndReason.OPPONENT_ERROR, answer.error)
            else:
                episode.play(answer)
        if self.others.opponent is None:
            self.seat = episode.seat if episode.seat >= 0 else self._mover
