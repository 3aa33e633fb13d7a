"""What becomes of the actions that agents choose, legal or not."""

from typing import final

from earl_envs.checks import whole_number
from earl_envs.end_reason import EndReason
from earl_envs.faces.episode import Episode, EpisodeKey
from earl_envs.faces.options import as_policy
from earl_envs.text.illegal import Verdict


@final
class Judge:
    """The illegal-move policy of one environment, and its count of wrong actions.

    Attributes:
        remarks: On the newest action, for the info of its agent: `illegal_action`, an action that
            was refused, and `substituted`, what was played instead.
    """

    def __init__(self, illegal: object) -> None:
        """Take a policy.

        Args:
            illegal: See `make_illegal_policy`. Turns that `noop` spends count towards the
                `max_moves` of the game, at which it is cut.
        """
        self._policy = as_policy(illegal)
        self.begin(EpisodeKey(seed=0, episode=0))

    def begin(self, key: EpisodeKey) -> None:
        """Begin the episode that `key` names."""
        self._key = key
        self._num_wrong_actions = self._num_spent_turns = 0
        self.remarks: dict[str, int] = {}

    def act(self, episode: Episode, action: object) -> None:
        """Make the move of the seat to move, or what the policy has for it; nothing after the end.

        Raises:
            ValueError: If the action is no integer, or outside `num_actions`.
        """
        most = episode.table.game.num_actions - 1
        number = whole_number(action, "an action", least=0, most=most)
        self.remarks = {}
        if number in episode.legal:
            self._play(episode, number)
        elif episode.end_reason is None:
            self._judge(episode, number)

    def _play(self, episode: Episode, action: int) -> None:
        episode.play(action)
        self._num_wrong_actions = 0

    def _judge(self, episode: Episode, action: int) -> None:
        self.remarks = {"illegal_action": action}
        self._num_wrong_actions += 1
        verdict = self._policy.decide(self._num_wrong_actions)
        if verdict is Verdict.FORFEIT:
            episode.forfeit(action)
        elif verdict is Verdict.REPEAT:
            self._spend_turn(episode)
        elif verdict is Verdict.SUBSTITUTE:
            game_id, num_moves = episode.table.game_id, len(episode.moves)
            drawn = self._key.draw(game_id, episode.seat, num_moves, episode.legal)
            self.remarks["substituted"] = drawn
            self._play(episode, drawn)

    def _spend_turn(self, episode: Episode) -> None:
        self._num_wrong_actions = 0
        self._num_spent_turns += 1
        num_turns = len(episode.moves) + self._num_spent_turns
        if num_turns >= episode.table.game.max_moves:
            episode.fail(EndReason.MOVE_LIMIT, f"not over after {num_turns} turns")
