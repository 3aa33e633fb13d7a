"""`earl plan dispatch`: transfers simulated on a cluster, EARL's reported ones or one's own."""

from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from earl_trainer.cli.job import Job, printing, wants_help
from earl_trainer.cli.options import OptionParser, number_from_0, positive_int, positive_number

_GBPS: Final = 200.0
_RANKS_PER_HOST: Final = 8
LATENCY_US: Final = 10.0
"""Of a message, where none is given."""
_OWN = ("ranks_per_host", "mib_per_worker", "total_mib")


def read_plan_dispatch(arguments: Sequence[str]) -> Job:
    """Read `earl plan dispatch ...` and simulate what it asks for.

    Raises:
        ValueError: If options are unknown or do not fit, or the picture cannot be written.
    """
    parser = _parser()
    if wants_help(arguments):
        return printing(parser.format_help())
    options = parser.read(arguments)
    _check(options)
    return printing(_compare(options))


def _compare(options: Namespace) -> str:
    # torch, which the dispatcher is made of, takes seconds to load, matplotlib half a second.
    from earl_trainer.cli.comparisons import describe, own_cluster, replays

    if options.hosts:
        per_host = options.ranks_per_host or _RANKS_PER_HOST
        own = own_cluster(
            num_hosts=options.hosts,
            ranks_per_host=per_host,
            total_mib=options.total_mib or options.mib_per_worker * options.hosts * per_host,
            gbps=options.gbps or _GBPS,
            latency_us=options.latency_us,
        )
        comparisons = [own]
    else:
        figure, *tables = replays(gbps=options.gbps, latency_us=options.latency_us)
        comparisons = [] if options.table_1 else [figure]
        comparisons += [] if options.figure_4 else tables
    if options.plot:
        from earl_trainer.cli.comparison_plot import draw_comparisons

        draw_comparisons(comparisons, options.plot)
    return describe(comparisons, latency_us=options.latency_us)


def _check(options: Namespace) -> None:
    given = ["--" + name.replace("_", "-") for name in _OWN if getattr(options, name) is not None]
    if given and not options.hosts:
        raise ValueError(f"{given[0]} is about a cluster of your own: give --hosts too")
    if options.hosts and options.mib_per_worker is None and options.total_mib is None:
        raise ValueError("--hosts needs --mib-per-worker or --total-mib")


def _parser() -> OptionParser:
    parser = OptionParser(
        "earl plan dispatch",
        description=(
            "How long a batch takes from one stage's ranks to another's: directly, through a\n"
            "controller, and at the least, by a model of the network. Without options it replays\n"
            "what the EARL paper reports, figure 4 and table 1."
        ),
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--figure-4", action="store_true", help="only the paper's figure 4")
    what.add_argument("--table-1", action="store_true", help="only the paper's table 1")
    what.add_argument("--hosts", type=positive_int, metavar="N", help="a cluster of your own")
    option = partial(parser.add_argument, metavar="N", type=positive_number)
    option("--ranks-per-host", type=positive_int, help=f"ranks (default: {_RANKS_PER_HOST})")
    size = parser.add_mutually_exclusive_group()
    sized = partial(size.add_argument, metavar="MIB", type=positive_number)
    sized("--mib-per-worker", help="MiB that each rank holds")
    sized("--total-mib", help="MiB that all ranks hold together")
    option(
        "--gbps",
        help=f"rate of a host's link, each way, in 10^9 bits/s (default: {_GBPS:g}; table 1: 25 "
        "and 200)",
    )
    option(
        "--latency-us",
        type=number_from_0,
        default=LATENCY_US,
        help="latency of a message in microseconds (default: %(default)g)",
    )
    parser.add_argument(
        "--plot", type=Path, metavar="FILE", help="draw it as well; FILE ends in .png, .svg or .pdf"
    )
    return parser
