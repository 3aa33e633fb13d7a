"""What a rank needs to know of a model to build it without its weights."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, PretrainedConfig, PreTrainedModel

from earl_trainer.models.attention import ATTENTION


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Blueprint:
    """A causal language model without its weights."""

    config: PretrainedConfig
    dtype: torch.dtype
    buffers: Mapping[str, Tensor]
    """Constants, such as the frequencies of rotary embeddings, which no checkpoint holds."""

    @classmethod
    def of(cls, model: PreTrainedModel) -> "Blueprint":
        """Describe a model."""
        return cls(
            # A model that is built sets its own attention there.
            config=copy.deepcopy(model.config),
            dtype=model.dtype,
            buffers={name: buffer.detach().cpu() for name, buffer in model.named_buffers()},
        )

    def build(self, device: torch.device) -> PreTrainedModel:
        """Build the model in eval mode, its parameters without storage, its buffers on `device`."""
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(
                self.config, dtype=self.dtype, attn_implementation=ATTENTION
            )
        for name, buffer in self.buffers.items():
            owner, _, own_name = name.rpartition(".")
            setattr(nn.Module.get_submodule(model, owner), own_name, buffer.to(device))
        model.eval()
        return model
