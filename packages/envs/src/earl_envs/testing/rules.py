"""Checks of the rules themselves; all others build on what these hold."""

import math
from collections.abc import Iterator, Sequence
from copy import deepcopy
from itertools import islice
from typing import Any

import numpy as np

from earl_envs.boundary import Failure, attempt
from earl_envs.position import examine
from earl_envs.testing.context import Context
from earl_envs.testing.finding import Finding
from earl_envs.testing.playthrough import Visit, locate

_MIN_GAMES = 10  # fewer may all be drawn by chance
_MAX_ACTIONS = 8  # of one position; games such as Mastermind have a thousand


def declaration(context: Context) -> Iterator[Finding]:
    """Class attributes are what `Game` says they are."""
    game = context.game
    for name in ("num_seats", "num_actions", "max_moves"):
        value = getattr(game, name, None)
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
            yield Finding(wrong=f"{name} must be an integer >= 1, got {value!r}")
    if not _are_scores((game.min_return,), 1):
        yield Finding(wrong=f"min_return must be finite, got {game.min_return!r}")
    rules = attempt(game.rules)
    if not isinstance(rules, str):
        yield Finding(wrong=f"rules() must be a string, got {_shown(rules)}")
    value = game.solved_value
    if value is not None and not _are_scores(value, game.num_seats):
        yield Finding(wrong=f"solved_value must be {game.num_seats} finite scores, got {value}")


def playthrough(context: Context) -> Iterator[Finding]:
    """Every random game reaches an end of at most `max_moves` moves by moves called legal."""
    return (play.fault for play in context.plays if play.fault is not None)


def legal_actions(context: Context) -> Iterator[Finding]:
    """Every listed action is listed once, can be applied, and changes the state."""
    rng = context.rng("legal_actions")
    for visit in context.running_visits():
        legal = visit.position.legal
        if len(set(legal)) < len(legal):
            twice = max(legal, key=legal.count)
            yield visit.finding(f"legal() lists action {twice} more than once")
        for action in visit.actions(rng, _MAX_ACTIONS):
            yield from _applied(visit, action)


def terminal_states(context: Context) -> Iterator[Finding]:
    """A finished game stays as it ended, and has no legal action."""
    game = context.game
    for visit, ended in context.endings:
        legal = attempt(game.legal, visit.state)
        if isinstance(legal, Failure) or list(legal):
            yield visit.finding(f"legal() must be empty once the game is over, got {_shown(legal)}")
        for _ in range(2):
            again = attempt(examine, game, visit.state)
            if isinstance(again, Failure) or again.returns != ended:
                got = _shown(again if isinstance(again, Failure) else again.returns)
                yield visit.finding(f"returns() gave {list(ended)}, and asked once more {got}")


def purity(context: Context) -> Iterator[Finding]:
    """Rules answer the same when asked twice, and leave the state that they are asked about."""
    rng = context.rng("purity")
    for visit in context.visits():
        kept = attempt(deepcopy, visit.state)
        if isinstance(kept, Failure):
            yield visit.finding(f"a state must be copyable: {kept.error}")
            continue
        before = _answers(visit)
        for action in visit.actions(rng, 2):
            first, second = (attempt(visit.play.game.apply, visit.state, action) for _ in "ab")
            if _changed(first, second):
                yield visit.finding(
                    f"apply() of action {action} must be a function of state and action, "
                    f"got {first!r} and then {second!r}"
                )
        if _changed(kept, visit.state):
            yield visit.finding(f"apply() must leave its state as it was, {kept!r}")
        after = _answers(visit)
        for name in before:
            if before[name] != after[name]:
                was, now = before[name], after[name]
                yield visit.finding(f"{name} of one state was {was!r} and then {now!r}")


def scores(context: Context) -> Iterator[Finding]:
    """Scores are at least `min_return`, zero-sum throughout or not, and not 0 in every game."""
    game = context.game
    yield from _never_scored(context)
    for visit, returns in context.endings:
        if min(returns) < game.min_return:
            yield visit.finding(
                f"no score may be below min_return = {game.min_return}, got {list(returns)}"
            )
    decided = [(visit, returns) for visit, returns in context.endings if any(returns)]
    zero_sum = [abs(math.fsum(returns)) <= 1e-6 for _, returns in decided]
    if game.num_seats > 1 and 2 * sum(zero_sum) > len(decided):
        for (visit, returns), is_zero_sum in zip(decided, zero_sum, strict=True):
            if not is_zero_sum:
                yield visit.finding(
                    f"scores sum to 0 in {sum(zero_sum)} of {len(decided)} games, "
                    f"but are {list(returns)} here"
                )


def _never_scored(context: Context) -> Iterator[Finding]:
    """Seats compete if one gains by the other's forfeit; then somebody must win some time."""
    forfeit = attempt(context.game.forfeit, 0)
    competes = not isinstance(forfeit, Failure) and len(set(forfeit)) > 1
    num_games = len(context.endings)
    if competes and num_games >= _MIN_GAMES and not any(any(ended) for _, ended in context.endings):
        yield context.endings[0][0].finding(
            f"returns() was 0 for every seat in all of {num_games} random games"
        )


def forfeits(context: Context) -> Iterator[Finding]:
    """Who forfeits gets `min_return`; zero-sum games stay it, cooperative ones lose together."""
    game = context.game
    decided = [returns for _, returns in context.endings if any(returns)]
    zero_sum = bool(decided) and all(abs(math.fsum(returns)) <= 1e-6 for returns in decided)
    together = bool(decided) and all(len(set(returns)) == 1 for returns in decided)
    for seat in range(game.num_seats):
        got = attempt(game.forfeit, seat)
        asked = f"forfeit({seat}) must"
        if isinstance(got, Failure) or not _are_scores(got, game.num_seats):
            yield Finding(wrong=f"{asked} be {game.num_seats} finite scores, got {_shown(got)}")
        elif got[seat] != game.min_return:
            yield Finding(wrong=f"{asked} give the seat min_return = {game.min_return}, got {got}")
        elif together and len(set(got)) > 1:
            yield Finding(wrong=f"{asked} score all seats alike, as the game does, got {got}")
        elif zero_sum and game.num_seats > 1 and abs(math.fsum(got)) > 1e-6:
            yield Finding(wrong=f"{asked} sum to 0, as the game's scores do, got {got}")


def _applied(visit: Visit, action: int) -> Iterator[Finding]:
    game = visit.play.game
    following = attempt(game.apply, visit.state, action)
    if isinstance(following, Failure):
        yield visit.finding(f"legal() lists action {action}, but apply() raises {following.error}")
    elif following == visit.state:
        # Played again and again it would keep the game going for ever.
        yield visit.finding(f"legal() lists action {action}, but apply() changes nothing")
    else:
        reached = attempt(examine, game, following)
        if isinstance(reached, Failure):
            moves = (*visit.moves, action)
            yield locate(game, visit.play.seed, moves, following, reached.error)
        elif visit.place + 1 >= game.max_moves and reached.returns is None:
            yield visit.finding(f"after action {action} the game outlasts max_moves")


def _answers(visit: Visit) -> dict[str, object]:
    game, state = visit.play.game, visit.state
    answers: dict[str, object] = {
        "hash": attempt(hash, state),
        "returns()": attempt(examine, game, state),
    }
    for seat in visit.seats:
        answers[f"text() for seat {seat}"] = attempt(game.text, state, seat)
        planes = attempt(game.planes, state, seat)
        shown = planes.tolist() if isinstance(planes, np.ndarray) else planes
        answers[f"planes() for seat {seat}"] = shown
    for action in islice(visit.position.legal, 2):
        answers[f"move_name() of {action}"] = attempt(game.move_name, state, action)
    return answers


def _changed(before: object, after: object) -> bool:
    same = attempt(lambda: before == after and hash(before) == hash(after))
    return same is not True


def _are_scores(values: Sequence[Any], num_seats: int) -> bool:
    scores = attempt(lambda: [float(value) for value in values])
    if isinstance(scores, Failure):
        return False
    return len(scores) == num_seats and all(map(math.isfinite, scores))


def _shown(answer: object) -> str:
    return answer.error if isinstance(answer, Failure) else repr(answer)
