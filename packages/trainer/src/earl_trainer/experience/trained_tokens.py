"""The trained tokens of a batch of rows, seen as the trajectories of its episodes."""

from dataclasses import dataclass

import torch
from earl_dispatch import Columns
from jaxtyping import Bool, Float, Int64
from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedTokens:
    """Where the trained tokens of each episode are; rows of an episode follow one another."""

    places: Int64[Tensor, " trained"]
    """Among all tokens, ascending."""
    episodes: Int64[Tensor, " episodes"]
    """Identity of each episode that has a row, in the order of the rows."""
    of_rows: Int64[Tensor, " rows"]
    """Place of each row's episode among them."""
    mask: Bool[Tensor, "episodes steps"]
    """True at an episode's trained tokens, in order; False behind them. At least one step."""
    turns: Int64[Tensor, "episodes steps"]
    """Number of each token's reply, from 0: a reply ends where tokens are not trained."""
    num_tokens: int
    """Of all rows."""

    @classmethod
    def of(cls, columns: Columns) -> "TrainedTokens":
        """Find them.

        Args:
            columns: With `mask` per token and `episode` per row.
        """
        trained = columns.per_token["mask"]
        episodes, of_rows = columns.per_row["episode"].unique_consecutive(return_inverse=True)
        places = trained.nonzero()[:, 0]
        owners = of_rows.repeat_interleave(columns.lengths)[places]
        counts = torch.bincount(owners, minlength=len(episodes))
        most = max(1, int(counts.max())) if len(counts) else 1
        mask = torch.arange(most) < counts[:, None]
        # The first token of a row is never trained, so that replies of two rows do not touch.
        begins = trained & ~torch.cat([trained.new_zeros(1), trained[:-1]])
        numbers = begins.cumsum(0)[places]
        turns = torch.zeros(mask.shape, dtype=torch.int64).masked_scatter(mask, numbers)
        return cls(
            places=places,
            episodes=episodes.long(),
            of_rows=of_rows,
            mask=mask,
            turns=torch.where(mask, turns - turns[:, :1], 0),
            num_tokens=columns.num_tokens,
        )

    def to_steps(self, values: Float[Tensor, " tokens"]) -> Float[Tensor, "episodes steps"]:
        """Lay a column out by episode, 0 at padding."""
        steps = torch.zeros(self.mask.shape)
        return steps.masked_scatter(self.mask, values[self.places].float())

    def to_tokens(self, steps: Float[Tensor, "episodes steps"]) -> Float[Tensor, " tokens"]:
        """Lay steps out as a column, 0 at tokens that are not trained."""
        column = torch.zeros(self.num_tokens)
        column[self.places] = steps[self.mask]
        return column

    def last_of_rows(self, values: Float[Tensor, " rows"]) -> Float[Tensor, " episodes"]:
        """Return what stands in the last row of each episode."""
        rows_of_each = torch.bincount(self.of_rows, minlength=len(self.episodes))
        return values[rows_of_each.cumsum(0) - 1]
