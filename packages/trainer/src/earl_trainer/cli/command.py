"""The command line: which verb reads it, and how what is wrong with it is said."""

import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from earl_envs import suggest

from earl_trainer.cli import games, plan, profile, train
from earl_trainer.cli.job import Job, Reader, printing

_VERBS: Mapping[str, Reader] = MappingProxyType({
    "train": train.read_train,
    "profile": profile.read_profile,
    "games": games.read_games,
    "plan": plan.read_plan,
})
_USAGE = "usage: {}\n\nearl VERB --help says more.\n".format(
    "\n       ".join((*train.USAGE, *profile.USAGE, *games.USAGE, *plan.USAGE))
)


def main() -> None:
    """Run the command line.

    What the user asked for wrongly is one line and exit status 2; nothing has been started by then.
    """
    try:
        job = read_command(sys.argv[1:])
    except ValueError as error:
        sys.stderr.write(f"earl: {error}\n")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.stderr.write("earl: interrupted before the run began\n")
        sys.exit(130)
    sys.exit(job())


def read_command(arguments: Sequence[str]) -> Job:
    """Turn a command line into the job it asks for, ready to be run.

    Raises:
        ValueError: If it names something that there is not, or values that do not fit.
    """
    if not arguments or arguments[0] in ("-h", "--help"):
        return printing(_USAGE)
    if arguments[0] not in _VERBS:
        raise ValueError(suggest(arguments[0], _VERBS, what="command"))
    return _VERBS[arguments[0]](arguments[1:])
