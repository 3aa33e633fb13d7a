"""What a profile is a profile of: this model on this machine with this engine."""

import hashlib
import json
import os
import platform
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Final

import torch
from earl_selector import ModelShape, ProfileSubject
from transformers import PreTrainedModel

_CPU_FACTS: Final = Path("/proc/cpuinfo")
_PACKAGES: Final = ("earl-trainer", "torch", "transformers")


def subject_of(model: PreTrainedModel, *, memory_bytes: int, engine: str) -> ProfileSubject:
    """Describe what is measured, such that whatever changes its speed changes the description.

    Weights do not: two models of one shape and precision are the same subject.

    Args:
        model: In the precision and on the device it is run with.
        memory_bytes: What one rank may use; it says where responses begin to queue.
        engine: Its name, how it is laid out, and its version if it comes from elsewhere.
    """
    config = model.config.to_dict()
    shape = ModelShape.from_config(config, name=str(config.get("model_type")))
    sizes = json.dumps(asdict(shape), sort_keys=True)
    precision = str(model.dtype).removeprefix("torch.")
    versions = (f"{package} {version(package)}" for package in _PACKAGES)
    return ProfileSubject(
        model=f"{shape.name} {shape.num_parameters / 1e6:.3g}M {precision} {digest(sizes)}",
        device=f"{describe_device(model.device)}, {memory_bytes:,} bytes a rank",
        engine=", ".join((engine, *versions)),
    )


def describe_device(device: torch.device) -> str:
    """Name a device and how much of it there is."""
    if device.type == "cuda":
        return f"{torch.cuda.device_count()} x {torch.cuda.get_device_name(device)}"
    num_cores = len(os.sched_getaffinity(0))
    return f"{_name_cpu()}, {num_cores} cores, {torch.get_num_threads()} threads"


def digest(text: str) -> str:
    """Shorten a text to eight characters."""
    return hashlib.blake2b(text.encode(), digest_size=4).hexdigest()


def _name_cpu() -> str:
    lines = _CPU_FACTS.read_text().splitlines() if _CPU_FACTS.is_file() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine() or "cpu")
