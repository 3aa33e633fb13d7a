"""Checks of whole conversations: how they begin, what each seat is told, and how they end."""

from collections.abc import Iterator

from earl_envs.boundary import Failure, attempt
from earl_envs.end_reason import CUTS, FAILURES, EndReason
from earl_envs.testing.context import Context
from earl_envs.testing.finding import Finding
from earl_envs.testing.playthrough import Playthrough, Visit
from earl_envs.testing.text import illegal_name
from earl_envs.text.chat_env import ChatEnv
from earl_envs.text.protocol import TextProtocol

GARBAGE = "I resign, \x07 you win \u2603"
"""A reply that names no move in any game."""

_MAX_PLAYS = 5
_MAX_MOVES = 60
_MAX_CHARS_PER_MOVE = 64
_MAX_EXTRA_CHARS = 200  # of one prompt, for words that are not the game's


def illegal_policies(context: Context) -> Iterator[Finding]:
    """A wrong reply ends the game, is asked for again, passes, or is replaced, as was chosen."""
    for play in context.plays[:_MAX_PLAYS]:
        no_move = "a reply that names no move"
        yield from _judged(play, play.visit(0), GARBAGE, no_move, EndReason.UNPARSABLE)
        protocol = TextProtocol(play.game)
        for visit in map(play.visit, range(min(_MAX_MOVES, len(play.moves)))):
            if name := illegal_name(protocol, visit):
                what = f"the illegal move {name}"
                yield from _judged(play, visit, name, what, EndReason.ILLEGAL_MOVE)
                break


def canary_floor(context: Context) -> Iterator[Finding]:
    """Garbage never pays: whoever writes it gets what `forfeit` says."""
    for play in context.plays[:_MAX_PLAYS]:
        for seat in range(context.game.num_seats):
            env = ChatEnv(context.game, illegal="forfeit")
            visit = next((v for v in _walk(env, play) if v.position.seat == seat), None)
            if visit is None:
                continue
            env.step(GARBAGE)
            floor = tuple(context.game.forfeit(seat))
            if env.returns != floor:
                yield visit.finding(
                    f"seat {seat} wrote garbage: the scores must be {floor}, got {env.returns}"
                )


def reply_leak(context: Context) -> Iterator[Finding]:
    """What a seat writes besides its move never reaches another seat."""
    for play in context.plays[:_MAX_PLAYS]:
        env = ChatEnv(context.game, history="full")
        for visit in _walk(env, play, say="<think>secret of {seat}</think> secret of {seat}: "):
            for seat in visit.seats:
                told = " ".join(message.content for message in env.messages(seat))
                if any(f"secret of {other}" in told for other in visit.seats if other != seat):
                    yield visit.finding(f"seat {seat} is told what another seat wrote")


def end_reasons(context: Context) -> Iterator[Finding]:
    """Conversations end for the right reason; cuts and failures are nobody's win."""
    outside = sorted(CUTS | FAILURES)
    for play in context.plays[:_MAX_PLAYS]:
        last = play.visit(len(play.moves))
        env = ChatEnv(context.game)
        for _ in _walk(env, play, limit=len(play.moves)):
            pass
        if env.end_reason != EndReason.FINISHED or env.returns != last.position.returns:
            yield last.finding(
                f"the game's moves as text must end as {EndReason.FINISHED} with "
                f"{last.position.returns}, got {env.end_reason} with {env.returns}"
            )
        if not isinstance(attempt(env.step, GARBAGE), Failure):
            yield last.finding("a reply after the end must be refused")
        for reason in outside:
            env.reset(seed=play.seed)
            env.fail(reason, "on purpose")
            yield from _unscored(env, play.visit(0), reason)
        env.reset(seed=play.seed)
        env.step(GARBAGE, cut=True)
        yield from _unscored(env, play.visit(0), EndReason.TURN_TOKEN_LIMIT)
        if len(play.moves) > 1:
            env = ChatEnv(context.game, max_turns=1)
            for _ in _walk(env, play, limit=1):
                pass
            yield from _unscored(env, play.visit(1), EndReason.MOVE_LIMIT)


def chat_clone(context: Context) -> Iterator[Finding]:
    """A conversation begins anew at `reset`, and its clone goes on like the original."""
    for play in context.plays[:_MAX_PLAYS]:
        place = min(_MAX_MOVES, len(play.moves)) // 2
        env = ChatEnv(context.game)
        for _ in _walk(env, play, limit=place):
            pass
        twin = env.clone()
        env.step(_reply(play, place))
        if twin.moves != play.moves[:place]:
            yield play.visit(place).finding("a move changed the clone that was made before it")
            return
        twin.step(_reply(play, place))
        if (twin.state, twin.seat, twin.moves) != (env.state, env.seat, env.moves):
            yield play.visit(place).finding(f"a clone went on to another state: {twin.state!r}")
        env.reset(seed=play.seed)
        fresh = ChatEnv(context.game)
        fresh.reset(seed=play.seed)
        if env.messages(env.seat) != fresh.messages(fresh.seat):
            yield play.visit(0).finding("reset() left something of the episode before it")


def prompt_growth(context: Context) -> Iterator[Finding]:
    """Prompts grow by what was said, and `text` does not repeat the game so far."""
    for play in context.plays:
        game, start, last = context.game, play.positions[0], play.visit(len(play.moves))
        for seat in last.seats:
            grown = len(game.text(last.state, seat)) - len(game.text(start.state, seat))
            if grown > _MAX_CHARS_PER_MOVE * max(1, last.place):
                yield last.finding(
                    f"text() for seat {seat} grows by {grown / max(1, last.place):.0f} characters "
                    f"per move (limit {_MAX_CHARS_PER_MOVE}): contexts hold every turn already"
                )
    for play in context.plays[:_MAX_PLAYS]:
        env = ChatEnv(context.game, history="board-only")
        for visit in _walk(env, play):
            seat = visit.position.seat
            num_chars = sum(len(message.content) for message in env.messages(seat))
            own = len(context.game.rules()) + len(context.game.text(visit.state, seat))
            if num_chars > own + _MAX_EXTRA_CHARS:
                yield visit.finding(
                    f"under board-only a prompt must hold rules and board, {own} characters, "
                    f"got {num_chars}"
                )


def _judged(
    play: Playthrough, visit: Visit, reply: str, what: str, failure: EndReason
) -> Iterator[Finding]:
    """Give a wrong reply in a position under every policy, as often as that policy takes it."""
    expected = {
        "forfeit": [failure],
        "retry(2)": ["asked again", "asked again", failure],
        "noop": ["asked again", "asked again"],
        "random_legal": ["moved"],
    }
    for policy, outcomes in expected.items():
        env = ChatEnv(play.game, illegal=policy, max_turns=visit.place + _MAX_MOVES)
        for _ in _walk(env, play, limit=visit.place):
            pass
        for outcome in outcomes:
            env.step(reply)
            got = _outcome(env, visit)
            if got != outcome:
                yield visit.finding(
                    f"under {policy} {what} must have the outcome {outcome}, got {got}"
                )


def _outcome(env: ChatEnv, before: Visit) -> str:
    if env.end_reason not in {None, EndReason.FINISHED}:
        return str(env.end_reason)
    new_moves = env.moves[before.place :]
    if not new_moves and (env.state, env.seat) == (before.state, before.position.seat):
        return "asked again"
    is_move = len(new_moves) == 1 and new_moves[0] in before.position.legal
    return "moved" if is_move else "something else"


def _unscored(env: ChatEnv, visit: Visit, reason: EndReason) -> Iterator[Finding]:
    if env.end_reason != reason or any(env.returns or ()):
        yield visit.finding(
            f"an episode that ends for {reason} must score 0, "
            f"got {env.end_reason} with {env.returns}"
        )


def _walk(
    env: ChatEnv, play: Playthrough, *, say: str = "", limit: int = _MAX_MOVES
) -> Iterator[Visit]:
    """Play a game again in text; stops before every move."""
    env.reset(seed=play.seed)
    for place in range(min(limit, len(play.moves))):
        visit = play.visit(place)
        yield visit
        env.step(say.format(seat=visit.position.seat) + _reply(play, place))


def _reply(play: Playthrough, place: int) -> str:
    return TextProtocol(play.game).format_move(play.positions[place].state, play.moves[place])
