"""The lines of `episodes.jsonl`, and the games that they hold as records that replay."""

from collections.abc import Mapping
from typing import Any

from earl_envs import EndReason, GameRecord, make_game
from earl_envs.replays.episode import EpisodeRecord
from earl_envs.text.referee import forfeit_scores

from earl_trainer.experience.curriculum import Level
from earl_trainer.rewards.outcome import Judgement
from earl_trainer.types import EpisodeSummary

Row = dict[str, Any]  # Any: nested plain values for JSON


def episode_row(game_id: str, episode: EpisodeSummary, reward: float | int | None) -> Row:
    """Return an episode as plain values: what was said, how it ended and why.

    What functions found is in `rewards`, by name, null where one failed; `detail` then says why.
    What they said of each reply is in `reply_rewards`, likewise, where one did.
    """
    judgement = episode.judgement
    return {
        "game_id": game_id,
        "episode": episode.start.episode,
        "group": episode.start.group,
        "seat": episode.start.seat,
        "games": [
            {
                "seed": game.game_seed,
                "first_turn": game.first_turn,
                "moves": list(game.moves),
                "end_reason": game.end_reason,
                "outcome": game.outcome,
                "forfeited_by": game.forfeited_by,
                "detail": game.detail,
            }
            for game in episode.games
        ],
        "moves": list(episode.moves),
        "replies": list(episode.replies),
        "context_tokens": episode.context_tokens,
        "end_reason": episode.end_reason,
        "truncated": episode.truncated,
        "outcome": episode.outcome,
        "reward": reward,
        "detail": episode.detail,
        **({} if judgement is None else _judgement_row(episode.detail, judgement)),
        **_level_row(episode.start.level),
        **({"dropped_by": episode.dropped_by} if episode.dropped_by else {}),
    }


def _level_row(level: str) -> Row:
    if not level:
        return {}
    return {"level": level, "params": Level.from_text(level).params}


def _judgement_row(detail: str, judgement: Judgement) -> Row:
    outcomes = judgement.outcomes
    parts = {name: list(each.parts) for name, each in outcomes.items() if each.parts}
    return {
        "rewards": {name: outcome.value for name, outcome in outcomes.items()},
        **({"reply_rewards": parts} if parts else {}),
        "detail": "; ".join(filter(None, (detail, judgement.detail))),
    }


def episode_records(row: Mapping[str, Any]) -> list[EpisodeRecord]:
    """Return the games of a parsed line of `episodes.jsonl`, to be replayed, judged and shown.

    Every record has the replies of the line's own seat; other seats' replies are in other lines or
    nowhere.

    Example:
        >>> for line in (run_dir / "episodes.jsonl").open():
        ...     for record in episode_records(json.loads(line)):
        ...         print(record.positions()[-1])

    Raises:
        ValueError: If the game is unknown or a record does not replay.
    """
    params = row.get("params", {})
    game = make_game(row["game_id"], **params)
    seats = range(game.num_seats)
    firsts = [entry["first_turn"] for entry in row["games"]] + [len(row["replies"])]
    records: list[EpisodeRecord] = []
    for entry, first, end in zip(row["games"], firsts, firsts[1:], strict=False):
        record = GameRecord(
            game_id=row["game_id"], params=params, seed=entry["seed"], moves=entry["moves"]
        )
        reason, loser = EndReason(entry["end_reason"]), entry["forfeited_by"]
        returns = (0.0,) * game.num_seats
        if loser is not None:
            returns = forfeit_scores(game, loser)
        elif reason is EndReason.FINISHED:
            returns = record.positions()[-1].returns or returns
        records.append(
            EpisodeRecord(
                game=record,
                players=tuple("learner" if seat == row["seat"] else "opponent" for seat in seats),
                returns=returns,
                end_reason=reason,
                detail=entry["detail"],
                replies=tuple(row["replies"][first:end]),
            )
        )
    return records
