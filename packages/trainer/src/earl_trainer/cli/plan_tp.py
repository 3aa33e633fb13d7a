"""`earl plan tp`: which tensor-parallel degree is the fastest, and which still fits."""

import argparse
import re
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from earl_envs import suggest
from earl_selector.activations import inference_activation_bytes
from earl_selector.degrees import check_degrees
from earl_selector.memory import MemoryModel
from earl_selector.model_files import find_model_shape
from earl_selector.roofline import RooflineThroughput
from earl_selector.shapes import ModelShape
from earl_selector.sharding import list_valid_degrees
from earl_selector.specs import DEVICE_SPECS, DeviceSpec
from earl_selector.tp_plan import TpPlan, double_from

from earl_trainer.cli.job import Job, printing, wants_help
from earl_trainer.cli.options import OptionParser, positive_int, positive_number
from earl_trainer.cli.tp_table import describe_plan

_VALUE_BYTES: Final = {"float32": 4, "bfloat16": 2, "float16": 2, "float8": 1}
_UNITS: Final = {"": 1, "k": 2**10, "m": 2**20}
# What vLLM reads at once of prompts on a large GPU (`max_num_batched_tokens`, vllm/engine/
# arg_utils.py), and an assumed gigabyte of CUDA context, captured graphs and NCCL buffers.
_PREFILL_TOKENS: Final = 8192
_GPU_RUNTIME_BYTES: Final = 10**9
_NO_PLOT: Final = Path("none")


def read_plan_tp(arguments: Sequence[str]) -> Job:
    """Read `earl plan tp ...` and work out what it asks for.

    Raises:
        ValueError: If options are unknown or do not fit, a degree does not split the model, nothing
            fits the devices, or the picture cannot be written.
    """
    parser = _parser()
    if wants_help(arguments):
        return printing(parser.format_help())
    options = parser.read(arguments)
    plan = _make_plan(options)
    text = describe_plan(plan, num_devices=options.num_devices)
    if options.plot != _NO_PLOT:
        # matplotlib takes half a second to load.
        from earl_trainer.cli.tp_plot import draw_plan

        draw_plan(plan, options.plot)
        text = f"{text}\ndrawn in {options.plot}"
    return printing(text)


def _make_plan(options: Namespace) -> TpPlan:
    shape = find_model_shape(options.model)
    device = _device(options)
    value_bytes = _VALUE_BYTES[options.dtype]
    memory = MemoryModel(
        shape=shape,
        device=device,
        bytes_per_parameter=value_bytes,
        bytes_per_kv_value=value_bytes,
        utilisation=options.utilisation,
        reserve_bytes=_reserve_bytes(options, shape, device, value_bytes),
    )
    degrees = options.tp or tuple(
        tp for tp in list_valid_degrees(shape) if tp <= options.num_devices
    )
    _check_fit(memory, degrees, num_devices=options.num_devices, context=min(options.context))
    return TpPlan(
        memory=memory,
        throughput=RooflineThroughput(memory=memory),
        degrees=tuple(sorted(degrees)),
        num_responses=options.responses,
        contexts=options.context,
    )


def _device(options: Namespace) -> DeviceSpec:
    if options.device not in DEVICE_SPECS:
        raise ValueError(suggest(options.device, DEVICE_SPECS, what="device"))
    device = DEVICE_SPECS[options.device]
    if options.memory_gb is None:
        return device
    return replace(device, memory_bytes=max(1, round(options.memory_gb * 1e9)))


def _reserve_bytes(
    options: Namespace, shape: ModelShape, device: DeviceSpec, value_bytes: int
) -> int:
    if options.reserve_gb is not None:
        return round(options.reserve_gb * 1e9)
    peak = inference_activation_bytes(
        shape,
        num_prefill_tokens=min(_PREFILL_TOKENS, max(options.context)),
        num_responses=options.responses,
        bytes_per_value=value_bytes,
    )
    return peak + (0 if device.name == "cpu" else _GPU_RUNTIME_BYTES)


def _check_fit(
    memory: MemoryModel, degrees: tuple[int, ...], *, num_devices: int, context: int
) -> None:
    try:
        check_degrees(memory, degrees, num_devices=num_devices, max_context_tokens=context)
    except ValueError as error:
        needs = [
            memory.required_memory_bytes(tp, context)
            for tp in degrees
            if tp in list_valid_degrees(memory.shape) and tp <= num_devices
        ]
        if len(needs) < len(degrees):
            raise
        enough = [device for device in DEVICE_SPECS.values() if device.memory_bytes >= min(needs)]
        smallest = min(enough, key=lambda device: device.memory_bytes, default=None)
        hint = "no device of the catalogue" if smallest is None else smallest.name
        raise ValueError(f"{error}; smallest of the catalogue that does: {hint}") from error


def read_tokens(text: str) -> int:
    """Read a number of tokens such as `1000`, `8k` (8 x 1024) or `1m`."""
    parts = re.fullmatch(r"([1-9][0-9]*)([km]?)", text.lower())
    if parts is None:
        raise argparse.ArgumentTypeError(f"tokens are a number such as 1000 or 8k, got {text!r}")
    return int(parts[1]) * _UNITS[parts[2]]


def read_contexts(text: str) -> tuple[int, ...]:
    """Read contexts: `8k`, some as `1k,3k`, or a range of doublings such as `1k:64k`."""
    low, colon, high = text.partition(":")
    if not colon:
        return tuple(sorted({read_tokens(part) for part in text.split(",")}))
    first, last = read_tokens(low), read_tokens(high)
    if first > last:
        raise argparse.ArgumentTypeError(f"a range of contexts must rise, got {text!r}")
    return double_from(first, last)


def _read_degrees(text: str) -> tuple[int, ...]:
    return tuple(positive_int(part) for part in text.split(","))


def _read_share(text: str) -> float:
    value = positive_number(text)
    if value > 1:
        raise argparse.ArgumentTypeError(f"must be in (0, 1], got {text!r}")
    return value


def _parser() -> OptionParser:
    parser = OptionParser(
        "earl plan tp",
        description=(
            "Speed and memory of each tensor-parallel degree over a range of contexts, by a model\n"
            "of memory and a roofline of decoding: where another degree becomes faster, where\n"
            "responses begin to queue, and where not even one fits."
        ),
        epilog=f"devices: {', '.join(DEVICE_SPECS)}",
    )
    option = partial(parser.add_argument, metavar="N")
    default = "(default: %(default)s)"
    option(
        "--model",
        metavar="MODEL",
        required=True,
        help="name or hub id of the catalogue, folder or file of a config.json, or any hub id",
    )
    option("--device", metavar="NAME", default="h100-80gb", help=default)
    option("--num-devices", type=positive_int, default=8, help=default)
    in_flight = f"responses in flight in each engine {default}"
    option("--responses", type=positive_int, default=32, help=in_flight)
    option(
        "--context",
        metavar="LOW:HIGH",
        type=read_contexts,
        default=read_contexts("1k:64k"),
        help="tokens of a response, by doublings; also 8k or 1k,3k (default: 1k:64k)",
    )
    valid = "degrees (default: all that split the model over the devices)"
    option("--tp", metavar="N,N", type=_read_degrees, help=valid)
    dtypes = f"of weights and cache: {', '.join(_VALUE_BYTES)} {default}"
    option("--dtype", metavar="NAME", choices=list(_VALUE_BYTES), default="bfloat16", help=dtypes)
    share = f"share of a device's memory that an engine takes {default}"
    option("--utilisation", metavar="SHARE", type=_read_share, default=0.9, help=share)
    gigabytes = partial(option, metavar="GB", type=positive_number)
    gigabytes("--memory-gb", help="memory of a device in 10^9 bytes (default: the catalogue's)")
    gigabytes(
        "--reserve-gb",
        help="10^9 bytes of a rank besides weights and cache (default: estimated from the model)",
    )
    option(
        "--plot",
        metavar="FILE",
        type=Path,
        default=Path("plan_tp.png"),
        help=f"picture to draw: .png, .svg or .pdf, or {_NO_PLOT} {default}",
    )
    return parser
