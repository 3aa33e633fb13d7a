"""Rows padded to one width, and back."""

import torch
from jaxtyping import Bool, Int64, Shaped
from torch import Tensor

from earl_dispatch.columns import spread


def pad(
    values: Shaped[Tensor, "tokens"],
    starts: Int64[Tensor, "rows"],
    lengths: Int64[Tensor, "rows"],
    *,
    width: int,
    fill: float | int = 0,
) -> Shaped[Tensor, "rows {width}"]:
    """Write each row's values from its start on, and `fill` elsewhere.

    Args:
        values: Rows end to end.
        starts: Place of each row's first value in the padded row.
        lengths: Values of each row.
        width: Of the padded rows.
        fill: Written where there is no value.
    """
    padded = values.new_full((len(lengths), width), fill)
    padded.view(-1)[_places(starts, lengths, width)] = values
    return padded


def unpad(
    padded: Shaped[Tensor, "rows width"],
    starts: Int64[Tensor, "rows"],
    lengths: Int64[Tensor, "rows"],
) -> Shaped[Tensor, "tokens"]:
    """Return the values that `pad` wrote, end to end."""
    return padded.reshape(-1)[_places(starts, lengths, padded.shape[1])]


def padding_mask(
    starts: Int64[Tensor, "rows"], lengths: Int64[Tensor, "rows"], *, width: int
) -> Bool[Tensor, "rows {width}"]:
    """Return where padded rows have values."""
    places = torch.arange(width, device=lengths.device)
    return (places >= starts[:, None]) & (places < (starts + lengths)[:, None])


def position_ids(mask: Shaped[Tensor, "rows width"]) -> Int64[Tensor, "rows width"]:
    """Count the tokens of each row from 0; padding has the number of the token before, or 0."""
    return (mask.long().cumsum(1) - 1).clamp(min=0)


def find_runs(
    mask: Shaped[Tensor, "rows width"],
) -> tuple[Int64[Tensor, "rows"], Int64[Tensor, "rows"]]:
    """Return where each row's values begin, 0 for rows without any, and how many they are.

    Raises:
        ValueError: If the values of a row are not next to one another.
    """
    lengths = mask.long().sum(1)
    places = torch.arange(mask.shape[1], device=mask.device)
    starts = places.where(mask.bool(), mask.shape[1]).amin(1) if mask.shape[1] else lengths
    starts = starts.where(lengths > 0, 0)
    apart = (padding_mask(starts, lengths, width=mask.shape[1]) != mask.bool()).any(1)
    if bool(apart.any()):
        raise ValueError(
            "the attention mask of a row is one run of ones, that of row "
            f"{int(apart.nonzero()[0])} has gaps"
        )
    return starts, lengths


def _places(starts: Tensor, lengths: Tensor, width: int) -> Tensor:
    rows = torch.arange(len(lengths), device=lengths.device)
    return spread(rows * width + starts, lengths)
