"""Check that a game is decided by what is played."""

from collections.abc import Iterator

from earl_envs.testing.context import Context
from earl_envs.testing.finding import Finding
from earl_envs.testing.playthrough import Playthrough, play_randomly

_NUM_STARTS = 12
_NUM_GAMES = 8  # of each start


def moves_matter(context: Context) -> Iterator[Finding]:
    """Different moves from one start lead to different scores, sooner or later.

    Random games of one start that all score the same, while those of other starts score something
    else, say that the start decides: a fault. Where all starts score the same too, nothing can be
    said, as random moves may never reach what scores: a note.
    """
    starts: list[tuple[Playthrough, tuple[float, ...]]] = []
    for play in context.plays[:_NUM_STARTS]:
        again = [
            play_randomly(context.game, seed=play.seed, stream=stream)
            for stream in range(2, _NUM_GAMES + 1)
        ]
        scores = {each.positions[-1].returns for each in (play, *again) if each.fault is None}
        if len(scores) > 1:
            return
        starts += [(play, score) for score in scores if score is not None]
    if not starts:
        return
    (first, score), *others = starts
    other = next(((play, s) for play, s in others if s != score), None)
    if other is None:
        num_games = len(starts) * _NUM_GAMES
        wrong = f"not decided: all of {num_games} random games score {score}"
        yield Finding(wrong=wrong, is_note=True)
        return
    yield first.visit(len(first.moves)).finding(
        f"returns() ignores the moves: {_NUM_GAMES} random games from this start all score {score} "
        f"and {_NUM_GAMES} from that of seed {other[0].seed} all {other[1]}"
    )
