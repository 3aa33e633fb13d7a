"""Checks of moves and replies as text."""

from collections.abc import Iterator

from earl_envs.boundary import Failure, attempt
from earl_envs.testing.context import Context
from earl_envs.testing.finding import Finding
from earl_envs.testing.playthrough import Visit
from earl_envs.text.protocol import ParseFailure, TextProtocol

_MAX_ACTIONS = 16  # of one position; games such as Mastermind have a thousand


def move_round_trip(context: Context) -> Iterator[Finding]:
    """Every legal action has a name of its own, which is read back as that action."""
    protocol, rng = TextProtocol(context.game), context.rng("move_round_trip")
    for visit in context.running_visits(limit=150):
        legal = visit.position.legal
        names = [attempt(protocol.format_move, visit.state, action) for action in legal]
        if isinstance(failed := next((n for n in names if isinstance(n, Failure)), None), Failure):
            yield visit.finding(f"move_name() raises {failed.error}")
            continue
        first_by_name: dict[object, int] = {}
        for action, name in zip(legal, names, strict=True):
            other = first_by_name.setdefault(name, action)
            if other != action:
                yield visit.finding(f"legal actions {other} and {action} are both named {name}")
        for action in visit.actions(rng, _MAX_ACTIONS):
            written = protocol.format_move(visit.state, action)
            read = attempt(protocol.parse, written, visit.state)
            got = read if isinstance(read, Failure) else read.action
            if got != action and first_by_name[written] == action:
                shown = read.error if isinstance(read, Failure) else read.detail or got
                yield visit.finding(f"action {action} is written {written!r}, but read as: {shown}")


def reply_table(context: Context) -> Iterator[Finding]:
    """Replies of every kind get the right status and none raises."""
    protocol = TextProtocol(context.game)
    for visit in context.running_visits(limit=40):
        for reply, action, failure in _replies(protocol, visit):
            read = attempt(protocol.parse, reply, visit.state)
            shown = repr(reply if len(reply) <= 60 else reply[:60] + "...")
            if isinstance(read, Failure):
                yield visit.finding(f"reading the reply {shown} raises {read.error}")
            elif (read.action, read.failure) != (action, failure):
                yield visit.finding(
                    f"the reply {shown} must give {failure or f'action {action}'}, "
                    f"got {read.failure or f'action {read.action}'}"
                )


def _replies(
    protocol: TextProtocol, visit: Visit
) -> Iterator[tuple[str, int | None, ParseFailure | None]]:
    """Yield replies with the action they name, or why they name none."""
    action = visit.position.legal[0]
    move = protocol.format_move(visit.state, action)
    for reply in (
        move,
        f"I think {move}",
        f"[no such move] or rather {move}!",
        f"<think>[no such move]</think>{move}",
        f"{move}</think>{move}",
        f"<answer>{move}</answer>",
        f"\u2603 \u00e9\u00df \x00\x1b {move} \U0001f600",
    ):
        yield reply, action, None
    for reply in (
        "",
        " \n\t",
        "no move at all",
        "[",
        "]",
        "[no such move]",
        f"{move} or rather [no such move]",
        f"<think>{move}</think>",
        f"<think>{move}",
        f"<answer>no such move</answer> {move}",
        "\x00\x07\x1b",
        "[" * 10_000,
        "x" * 100_000,
    ):
        yield reply, None, ParseFailure.UNPARSABLE
    illegal = illegal_name(protocol, visit)
    if illegal is not None:
        yield illegal, None, ParseFailure.ILLEGAL


def illegal_name(protocol: TextProtocol, visit: Visit) -> str | None:
    """Return the name of an action that is none of the legal ones, if the game names any."""
    legal = {protocol.format_move(visit.state, action) for action in visit.position.legal}
    game = visit.play.game
    for action in sorted(set(range(game.num_actions)) - set(visit.position.legal))[:_MAX_ACTIONS]:
        name = attempt(protocol.format_move, visit.state, action)
        if isinstance(name, str) and name not in legal:
            return name
    return None
