"""A model's weights on their way to a process that generates with them."""

import zlib
from collections.abc import Sequence

import torch
from torch import nn

from earl_trainer.parallel.exchange import Packed
from earl_trainer.types import RunFailedError


def pack_weights(model: nn.Module) -> Packed:
    """Return the bytes of every parameter, tied ones once."""
    return [
        parameter.detach().contiguous().cpu().view(-1).view(torch.uint8).numpy()
        for parameter in model.parameters()
    ]


@torch.no_grad()
def unpack_weights(packed: Packed, model: nn.Module) -> None:
    """Overwrite a model's parameters, in place, by those of another of its kind."""
    for parameter, content in zip(model.parameters(), packed, strict=True):
        # Copied, as what came through shared memory is read-only.
        flat = torch.from_numpy(content.copy()).view(parameter.dtype)
        parameter.copy_(flat.view(parameter.shape))


def checksums(packed: Packed) -> list[int]:
    """Return the CRC-32 of each parameter's bytes."""
    return [zlib.crc32(content.data) for content in packed]


def require_checksums(model: nn.Module, expected: Sequence[int]) -> None:
    """Compare a model's parameters with what they were when they were packed.

    Raises:
        RunFailedError: Naming the first that differs.
    """
    found = checksums(pack_weights(model))
    for (name, _), own, sent in zip(model.named_parameters(), found, expected, strict=True):
        if own != sent:
            raise RunFailedError(f"{name} arrived with checksum {own:08x}, sent was {sent:08x}")
