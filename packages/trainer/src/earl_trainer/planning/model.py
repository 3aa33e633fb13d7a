"""What a pipeline of rollout and training devices consists of."""

from dataclasses import dataclass
from math import isfinite
from typing import final

from earl_trainer.planning.lengths import Lengths


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineModel:
    """Devices that generate, devices that train, and what passes between them.

    A rollout device with n sequences in flight adds one token to each of them in
    `decode_s + n decode_s_per_sequence`: reading the weights and starting the kernels costs the
    same for any n, reading keys and values and sampling costs for each (the two terms of a roofline
    of decoding: Williams et al. 2009, doi:10.1145/1498765.1498785, at bounded bandwidth).
    """

    lengths: Lengths
    batch_groups: int
    """Groups of a training step: B of AReaL's admission rule."""
    group_size: int
    """Sequences of a prompt; a group is ready when its last one has ended."""
    num_rollout_devices: int
    num_training_devices: int
    slots_per_device: int
    """Sequences that a rollout device holds in flight at most."""
    decode_s: float | int
    decode_s_per_sequence: float | int
    training_s_per_token: float | int
    """Of one training device; the devices share the tokens of a step evenly."""
    publication_s: float | int = 0.0
    """Handing new weights over, during which no device does anything else."""
    prefill_s_per_token: float | int = 0.0
    """Of one rollout device that reads a context again, as after an interruption."""
    interruption: bool = True
    """New weights reach sequences in flight, whose contexts are read again under them; otherwise
    sequences in flight are waited for, and none begin."""
    strict: bool = False
    """Batches are those submitted together, whatever is ready; otherwise the oldest ready ones."""

    def __post_init__(self) -> None:
        counts = (
            "batch_groups", "group_size", "num_rollout_devices", "num_training_devices",
            "slots_per_device",
        )  # fmt: skip
        for name in counts:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be >= 1, got {getattr(self, name)}")
        for name in ("decode_s", "training_s_per_token"):
            if not getattr(self, name) > 0 or not isfinite(getattr(self, name)):
                raise ValueError(f"{name} must be > 0, got {getattr(self, name)}")
        for name in ("decode_s_per_sequence", "publication_s", "prefill_s_per_token"):
            if not getattr(self, name) >= 0 or not isfinite(getattr(self, name)):
                raise ValueError(f"{name} must be >= 0, got {getattr(self, name)}")
        if self.num_slots < self.group_size:
            raise ValueError(
                f"a group of {self.group_size} sequences needs as many slots, but "
                f"{self.num_rollout_devices} rollout devices have {self.num_slots}"
            )

    @property
    def num_slots(self) -> int:
        """Return the sequences that all rollout devices hold in flight together."""
        return self.num_rollout_devices * self.slots_per_device

    @property
    def batch_tokens(self) -> float:
        """Return the tokens of a training step on average."""
        return self.batch_groups * self.group_size * self.lengths.mean_tokens

    @property
    def training_s(self) -> float:
        """Return how long a training step takes on average, publication apart."""
        return self.batch_tokens * self.training_s_per_token / self.num_training_devices

    @property
    def max_generated_tokens_per_s(self) -> float:
        """Return the rate of generation with every slot in use."""
        return self.num_slots / self.token_s(self.num_slots)

    def token_s(self, num_sequences: int) -> float:
        """Return how long a token takes while so many sequences are in flight on all devices."""
        per_device = num_sequences / self.num_rollout_devices
        return self.decode_s + self.decode_s_per_sequence * per_device
