"""A catalogue of models and devices."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from earl_selector.devices import DeviceSpec
from earl_selector.shapes import ModelShape

__all__ = [
    "DEVICE_SPECS",
    "HUB_IDS",
    "MODEL_SHAPES",
    "DeviceSpec",
    "ModelShape",
    "catalogue_name",
]

_MIB: Final = 2**20
_GIB: Final = 2**30


class _Model(NamedTuple):
    hub_id: str
    model_type: str
    num_hidden_layers: int
    hidden_size: int
    intermediate_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    tie_word_embeddings: bool
    num_experts: int = 1
    num_experts_per_tok: int = 1


# Read from huggingface.co/HUB_ID, config.json; instruction-tuned models have the same sizes.
_MODELS: Final = (
    _Model("Qwen/Qwen2.5-0.5B", "qwen2", 24, 896, 4864, 14, 2, 64, 151936, True),
    _Model("Qwen/Qwen2.5-1.5B", "qwen2", 28, 1536, 8960, 12, 2, 128, 151936, True),
    _Model("Qwen/Qwen2.5-3B", "qwen2", 36, 2048, 11008, 16, 2, 128, 151936, True),
    _Model("Qwen/Qwen2.5-7B", "qwen2", 28, 3584, 18944, 28, 4, 128, 152064, False),
    _Model("Qwen/Qwen2.5-14B", "qwen2", 48, 5120, 13824, 40, 8, 128, 152064, False),
    _Model("Qwen/Qwen2.5-32B", "qwen2", 64, 5120, 27648, 40, 8, 128, 152064, False),
    _Model("Qwen/Qwen2.5-72B", "qwen2", 80, 8192, 29568, 64, 8, 128, 152064, False),
    _Model("Qwen/Qwen3-0.6B", "qwen3", 28, 1024, 3072, 16, 8, 128, 151936, True),
    _Model("Qwen/Qwen3-1.7B", "qwen3", 28, 2048, 6144, 16, 8, 128, 151936, True),
    _Model("Qwen/Qwen3-4B", "qwen3", 36, 2560, 9728, 32, 8, 128, 151936, True),
    _Model("Qwen/Qwen3-8B", "qwen3", 36, 4096, 12288, 32, 8, 128, 151936, False),
    _Model("Qwen/Qwen3-14B", "qwen3", 40, 5120, 17408, 40, 8, 128, 151936, False),
    _Model("Qwen/Qwen3-32B", "qwen3", 64, 5120, 25600, 64, 8, 128, 151936, False),
    _Model("Qwen/Qwen3-30B-A3B", "qwen3_moe", 48, 2048, 768, 32, 4, 128, 151936, False, 128, 8),
    _Model("Qwen/Qwen3-235B-A22B", "qwen3_moe", 94, 4096, 1536, 64, 4, 128, 151936, False, 128, 8),
    _Model("meta-llama/Llama-3.2-1B", "llama", 16, 2048, 8192, 32, 8, 64, 128256, True),
    _Model("meta-llama/Llama-3.2-3B", "llama", 28, 3072, 8192, 24, 8, 128, 128256, True),
    _Model("meta-llama/Llama-3.1-8B", "llama", 32, 4096, 14336, 32, 8, 128, 128256, False),
    _Model("meta-llama/Llama-3.1-70B", "llama", 80, 8192, 28672, 64, 8, 128, 128256, False),
    _Model("meta-llama/Llama-3.3-70B", "llama", 80, 8192, 28672, 64, 8, 128, 128256, False),
    _Model("meta-llama/Llama-3.1-405B", "llama", 126, 16384, 53248, 128, 8, 128, 128256, False),
    _Model("mistralai/Mistral-7B-v0.3", "mistral", 32, 4096, 14336, 32, 8, 128, 32768, False),
    _Model(
        "mistralai/Mistral-Nemo-Base-2407", "mistral", 40, 5120, 14336, 32, 8, 128, 131072, False
    ),
    _Model(
        "mistralai/Mistral-Small-24B-Base-2501",
        "mistral",
        40,
        5120,
        32768,
        32,
        8,
        128,
        131072,
        False,
    ),
    _Model(
        "mistralai/Mixtral-8x7B-v0.1", "mixtral", 32, 4096, 14336, 32, 8, 128, 32000, False, 8, 2
    ),
    _Model("HuggingFaceTB/SmolLM2-135M", "llama", 30, 576, 1536, 9, 3, 64, 49152, True),
    _Model("HuggingFaceTB/SmolLM2-360M", "llama", 32, 960, 2560, 15, 5, 64, 49152, True),
    _Model("HuggingFaceTB/SmolLM2-1.7B", "llama", 24, 2048, 8192, 32, 32, 64, 49152, True),
)


_TUNINGS: Final = ("-instruct", "-base", "-thinking", "-2507")


def catalogue_name(hub_id: str) -> str:
    """Return the name under which a model of this hub id would stand in `MODEL_SHAPES`.

    Lower case, without the owner and without what says how it was tuned.

    Example:
        >>> catalogue_name("Qwen/Qwen2.5-72B-Instruct")
        'qwen2.5-72b'
    """
    name = hub_id.split("/")[-1].lower()
    for tuning in _TUNINGS:
        name = name.replace(tuning, "")
    return name


HUB_IDS: Final[Mapping[str, str]] = MappingProxyType({
    catalogue_name(model.hub_id): model.hub_id for model in _MODELS
})
"""Name in `MODEL_SHAPES` -> where the sizes were read."""

MODEL_SHAPES: Final[Mapping[str, ModelShape]] = MappingProxyType({
    name: ModelShape.from_config(model._asdict(), name=name)
    for name, model in zip(HUB_IDS, _MODELS, strict=True)
})
"""Model shapes by name; any other comes through `ModelShape.from_config`."""

# memory_bytes is what CUDA shows of the card, which is what engines take their fraction of: the
# capacity in PyTorch's out-of-memory messages, as in vllm-project/vllm issue 27508 (H100, 79.11
# GiB), PyTorch issue trackers (A100 80GB, 79.15; H200, 139.80; B200, 178.35), the device query in
# bottlerocket-os/bottlerocket pull request 3873 (A100 40GB, 40,339 MiB), QwenLM/Qwen3-VL issue 2097
# (L40S, 44.40) and ali-vilab/VGen issue 104 (RTX 4090, 23.64).
# Rates come from NVIDIA's data sheets "H100 Tensor Core GPU" (SXM), "H200 Tensor Core GPU" (SXM),
# "A100 Tensor Core GPU" (SXM), "L40S" and "DGX B200", and from appendix A of the whitepaper "NVIDIA
# Ada GPU Architecture" (RTX 4090, accumulating in float32). Sheets that count both directions of a
# link and sparse products are halved. The latency of a message is an assumption: 4 us where NVLink
# carries it, 8 us over PCIe.
DEVICE_SPECS: Final[Mapping[str, DeviceSpec]] = MappingProxyType(
    {
        name: DeviceSpec(
            name=name,
            memory_bytes=memory_bytes,
            memory_bytes_per_s=memory_tb_per_s * 1e12,
            flops_per_s=tflops_per_s * 1e12,
            link_bytes_per_s=link_gb_per_s * 1e9,
            link_latency_s=latency_us * 1e-6,
        )
        for name, memory_bytes, memory_tb_per_s, tflops_per_s, link_gb_per_s, latency_us in (
            ("a100-40gb", 40_339 * _MIB, 1.555, 312, 300, 4),
            ("a100-80gb", int(79.15 * _GIB), 2.039, 312, 300, 4),
            ("h100-80gb", 81_008 * _MIB, 3.35, 989, 450, 4),
            ("h200-141gb", int(139.80 * _GIB), 4.8, 989, 450, 4),
            ("b200", int(178.35 * _GIB), 8.0, 2250, 900, 4),
            ("l40s", int(44.40 * _GIB), 0.864, 362, 32, 8),
            ("rtx4090-24gb", int(23.64 * _GIB), 1.008, 165, 32, 8),
        )
    }
    | {"cpu": DeviceSpec.cpu(4 * _GIB)}
)
"""Devices by name; `DeviceSpec.cpu` describes a CPU process with another memory than 4 GiB."""
