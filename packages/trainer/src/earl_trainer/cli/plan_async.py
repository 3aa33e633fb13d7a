"""`earl plan async`: what staleness buys, on devices and for lengths of one's own or AReaL's."""

import argparse
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, Final

from earl_trainer.cli.async_table import describe_forecast, describe_paper
from earl_trainer.cli.job import Job, printing, wants_help
from earl_trainer.cli.options import OptionParser, number_from_0, positive_int, positive_number
from earl_trainer.planning.areal import areal_lengths, areal_model
from earl_trainer.planning.lengths import EmpiricalLengths, Lengths
from earl_trainer.planning.model import PipelineModel
from earl_trainer.planning.replays import (
    replay_scaling,
    replay_table_1,
    replay_table_2,
    replay_table_7,
    share_devices,
)
from earl_trainer.planning.thinning import simulate_thinned

_ETAS: Final[tuple[float | int, ...]] = (0, 1, 2, 4, 8, 16, inf)
_NUM_DEVICES: Final = 128
_NUM_STEPS: Final = 80
_LENGTHS: Final = ("median_tokens", "tail_ratio", "max_tokens", "prompt_share")
_OWN: Final = (
    "eta", "num_devices", "num_training_devices", "batch_groups", "group_size", "lengths",
    *_LENGTHS, "slots_per_device", "decode_ms", "decode_ms_per_sequence", "training_tokens_per_s",
    "prefill_tokens_per_s", "publication_s", "no_interruption", "strict",
)  # fmt: skip


def read_plan_async(arguments: Sequence[str]) -> Job:
    """Read `earl plan async ...` and simulate what it asks for.

    Raises:
        ValueError: If options are unknown or do not fit, lengths cannot be read, or the picture
            cannot be written.
    """
    parser = _parser()
    if wants_help(arguments):
        return printing(parser.format_help())
    options = parser.read(arguments)
    _check(options)
    return printing(_replay_paper(options) if options.paper else _forecast(options))


def _forecast(options: Namespace) -> str:
    model = make_model(options)
    run = partial(simulate_thinned, num_steps=options.num_steps, seed=options.seed)
    etas = options.eta or _ETAS
    figures = {eta: run(model, eta) for eta in etas}
    synchronous = figures[0] if 0 in figures else run(model, 0)
    shared = run(share_devices(model), 0)
    if options.plot is not None:
        # matplotlib takes half a second to load.
        from earl_trainer.cli.async_plot import draw_async

        lines = {
            "synchronous, same devices": synchronous.trained_tokens_per_s,
            "synchronous, all devices in turn": shared.trained_tokens_per_s,
        }
        draw_async(figures, options.plot, lines=lines, points={})
    return describe_forecast(model, figures, synchronous=synchronous, shared=shared)


def _replay_paper(options: Namespace) -> str:
    run = {"num_steps": options.num_steps, "seed": options.seed}
    table_2 = replay_table_2(**run)
    text = describe_paper(
        table_2, replay_table_7(**run), replay_table_1(**run), replay_scaling(**run)
    )
    if options.plot is not None:
        from earl_trainer.cli.async_plot import draw_async

        figures = {each.eta: each.figures for each in table_2}
        points = {each.eta: each.published_tokens_per_s for each in table_2}
        draw_async(figures, options.plot, lines={}, points=points)
    return text


def make_model(options: Namespace) -> PipelineModel:
    """Put a pipeline together from AReaL's and what the options say otherwise.

    Raises:
        ValueError: If devices cannot be split so, or lengths cannot be read.
    """
    num_devices = options.num_devices or _NUM_DEVICES
    num_training = options.num_training_devices or max(1, num_devices // 4)
    if num_training >= num_devices:
        raise ValueError(
            f"{num_training} of {num_devices} devices train, so that none is left to generate"
        )
    base = areal_model()
    lengths = _make_lengths(options)
    changes: dict[str, Any] = {  # Any: fields of several types
        "batch_groups": options.batch_groups,
        "group_size": options.group_size,
        "slots_per_device": options.slots_per_device,
        "publication_s": options.publication_s,
        "decode_s": options.decode_ms and options.decode_ms / 1e3,
        "training_s_per_token": _inverse(options.training_tokens_per_s),
        "prefill_s_per_token": _inverse(options.prefill_tokens_per_s),
    }
    if options.decode_ms_per_sequence is not None:
        changes["decode_s_per_sequence"] = options.decode_ms_per_sequence / 1e3
    if isinstance(lengths, EmpiricalLengths):
        changes["group_size"] = len(lengths.groups[0])
    return replace(
        base,
        lengths=lengths,
        num_rollout_devices=num_devices - num_training,
        num_training_devices=num_training,
        interruption=not options.no_interruption,
        strict=bool(options.strict),
        **{name: value for name, value in changes.items() if value is not None},
    )


def _inverse(rate: float | None) -> float | None:
    return None if rate is None else 1 / rate


def _make_lengths(options: Namespace) -> Lengths:
    if options.lengths is not None:
        return read_lengths(options.lengths)
    given = {name: getattr(options, name) for name in _LENGTHS}
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    return replace(areal_lengths(), **changes)


def read_lengths(path: Path) -> EmpiricalLengths:
    """Read measured lengths: a line for each group, its lengths in tokens with blanks between.

    Raises:
        ValueError: If the file cannot be read or holds anything else.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"cannot read lengths from {str(path)!r}: {error}") from error
    words = [line.split() for line in lines if line.strip()]
    strays = [word for group in words for word in group if not word.isdecimal()]
    if strays:
        raise ValueError(f"{str(path)!r} holds {strays[0]!r} where a length in tokens is expected")
    if not words:
        raise ValueError(f"{str(path)!r} holds no lengths")
    return EmpiricalLengths(groups=tuple(tuple(map(int, group)) for group in words))


def read_etas(text: str) -> tuple[float | int, ...]:
    """Read staleness bounds such as `0,1,2,inf`; each once, in rising order."""
    return tuple(sorted({_read_eta(part.strip()) for part in text.split(",")}))


def _read_eta(text: str) -> float | int:
    if text == "inf":
        return inf
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"eta is a whole number >= 0 or inf, got {text!r}")
    return int(text)


def _whole_number(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be a whole number >= 0, got {text!r}")
    return int(text)


def _read_share(text: str) -> float:
    value = number_from_0(text)
    if value > 1:
        raise argparse.ArgumentTypeError(f"must be in [0, 1], got {text!r}")
    return value


def _check(options: Namespace) -> None:
    def given(names: Sequence[str]) -> list[str]:
        return [
            "--" + name.replace("_", "-")
            for name in names
            if getattr(options, name) is not None and getattr(options, name) is not False
        ]

    own = given(_OWN)
    if options.paper and own:
        raise ValueError(f"{own[0]} is about a run of your own: leave out --paper")
    other = given((*_LENGTHS, "group_size"))
    if options.lengths is not None and other:
        raise ValueError(f"{other[0]} is what --lengths says: leave out one of them")


def _parser() -> OptionParser:
    parser = OptionParser(
        "earl plan async",
        description=(
            "Throughput, staleness and idle time of asynchronous training by the staleness that\n"
            "admission allows (eta), simulated sequence by sequence. Without options: the 1.5B\n"
            "model of the AReaL paper on 128 GPUs."
        ),
        epilog="earl profile measures how generation slows down with the responses in flight.",
    )
    base = areal_model()
    option = partial(parser.add_argument, metavar="N")
    parser.add_argument("--paper", action="store_true", help="AReaL's published figures instead")
    etas = "staleness bounds: 0 is synchronous, inf none (default: 0,1,2,4,8,16,inf)"
    option("--eta", metavar="N,N", type=read_etas, help=etas)
    count = partial(option, type=positive_int)
    count("--num-devices", help=f"rollout and training devices (default: {_NUM_DEVICES})")
    count("--num-training-devices", help="how many of them train (default: a quarter)")
    count("--batch-groups", help=f"groups of a training step (default: {base.batch_groups})")
    count("--group-size", help=f"sequences of a group (default: {base.group_size})")
    _add_lengths(parser)
    slots = f"sequences in flight at most (default: {base.slots_per_device})"
    count("--slots-per-device", help=slots)
    decode = f"ms of a token besides its sequences (default: {1e3 * base.decode_s:.3g})"
    option("--decode-ms", type=positive_number, help=decode)
    each = f"ms added by each sequence in flight (default: {1e3 * base.decode_s_per_sequence:.3g})"
    option("--decode-ms-per-sequence", type=number_from_0, help=each)
    train = f"of one training device (default: {1 / base.training_s_per_token:,.0f})"
    option("--training-tokens-per-s", type=positive_number, help=train)
    prefill = "of a rollout device that reads contexts again (default: in the ms per sequence)"
    option("--prefill-tokens-per-s", type=positive_number, help=prefill)
    publish = f"s of handing over new weights (default: {base.publication_s:g})"
    option("--publication-s", type=number_from_0, help=publish)
    waiting = "new weights wait for all sequences in flight"
    parser.add_argument("--no-interruption", action="store_true", help=waiting)
    strict = "batches in the order of submission: nothing is staler than eta"
    parser.add_argument("--strict", action="store_true", help=strict)
    steps = "training steps, of which the second half counts (default: %(default)s)"
    count("--num-steps", default=_NUM_STEPS, help=steps)
    seed = "of all lengths (default: %(default)s)"
    option("--seed", type=_whole_number, default=0, help=seed)
    option("--plot", metavar="FILE", type=Path, help="draw it; FILE ends in .png, .svg or .pdf")
    return parser


def _add_lengths(parser: OptionParser) -> None:
    base = areal_lengths()
    option = partial(parser.add_argument, metavar="N")
    median = f"of log-normal lengths before they are cut (default: {base.median_tokens:g})"
    option("--median-tokens", type=positive_number, help=median)
    tail = f"99th percentile over the median (default: {base.tail_ratio:g})"
    option("--tail-ratio", type=positive_number, help=tail)
    option("--max-tokens", type=positive_int, help=f"cut here (default: {base.max_tokens})")
    share = f"of the log-lengths' variance, between prompts (default: {base.prompt_share:g})"
    option("--prompt-share", type=_read_share, help=share)
    measured = "measured lengths instead: a line for each group, its tokens with blanks between"
    option("--lengths", metavar="FILE", type=Path, help=measured)
