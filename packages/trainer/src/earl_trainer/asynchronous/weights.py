"""A model's weights on their way to a process that generates with them."""

import zlib
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor, nn

from earl_trainer.parallel.exchange import Packed
from earl_trainer.types import RunFailedError


def distinct_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return every parameter by its name, of those that share their storage the first alone."""
    found: dict[tuple[int, int], str] = {}
    for name, parameter in model.named_parameters():
        found.setdefault((parameter.data_ptr(), parameter.nbytes), name)
    return {name: model.get_parameter(name) for name in found.values()}


def pack_weights(model: nn.Module) -> Packed:
    """Return the bytes of every parameter, tied ones once."""
    return [
        parameter.detach().contiguous().cpu().view(-1).view(torch.uint8).numpy()
        for parameter in distinct_parameters(model).values()
    ]


@torch.no_grad()
def unpack_weights(
    packed: Sequence[UInt8[np.ndarray, "_"] | UInt8[Tensor, "_"]], model: nn.Module
) -> None:
    """Overwrite a model's parameters, in place, by those of another of its kind."""
    for parameter, content in zip(distinct_parameters(model).values(), packed, strict=True):
        # Copied, as what came through shared memory is read-only.
        row = content if isinstance(content, Tensor) else torch.from_numpy(content.copy())
        parameter.copy_(row.view(parameter.dtype).view(parameter.shape))


def checksums(packed: Packed) -> list[int]:
    """Return the CRC-32 of each parameter's bytes."""
    return [zlib.crc32(content.data) for content in packed]


def require_checksums(model: nn.Module, expected: Sequence[int]) -> None:
    """Compare a model's parameters with what they were when they were packed.

    Raises:
        RunFailedError: Naming the first that differs.
    """
    found = checksums(pack_weights(model))
    for name, own, sent in zip(distinct_parameters(model), found, expected, strict=True):
        if own != sent:
            raise RunFailedError(f"{name} arrived with checksum {own:08x}, sent was {sent:08x}")
