"""What the memory model knows of a model and of a device, and a small catalogue of both."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, final

_MIB: Final = 2**20

# transformers writes what follows into the code of a model type rather than into its config: the
# bias of the query, key and value projections (modeling_qwen2.Qwen2Attention) and the norms of
# queries and keys (modeling_qwen3.Qwen3Attention).
_MODEL_TYPES: Final = ("llama", "mistral", "qwen2", "qwen3")
_QKV_BIAS_TYPES: Final = ("qwen2",)
_QK_NORM_TYPES: Final = ("qwen3",)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """The sizes of a dense decoder with grouped-query attention and a gated MLP.

    Example:
        >>> MODEL_SHAPES["smollm2-135m"].num_parameters
        134515008
    """

    name: str
    """What people call the model; no rule depends on it."""
    num_layers: int
    hidden_size: int
    intermediate_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    tie_embeddings: bool
    """Whether the input embedding is also the output projection, and so is stored once."""
    qkv_bias: bool
    """Whether the query, key and value projections add a bias (Qwen2 does, Llama does not)."""
    qk_norm: bool = False
    """Whether each head's query and key are normalised (Qwen3 does)."""

    def __post_init__(self) -> None:
        sizes = (
            *(self.num_layers, self.hidden_size, self.intermediate_size, self.vocab_size),
            *(self.num_heads, self.num_kv_heads, self.head_dim),
        )
        if min(sizes) < 1:
            raise ValueError(f"every size of a model shape must be >= 1, got {self}")
        if self.num_heads % self.num_kv_heads != 0:
            raise ValueError(
                f"num_kv_heads must divide num_heads, got {self.num_kv_heads} KV heads "
                f"and {self.num_heads} attention heads"
            )

    @classmethod
    def from_config(cls, config: Mapping[str, object], *, name: str | None = None) -> "ModelShape":
        """Read the content of a Hugging Face `config.json`.

        Absent or null `num_key_value_heads`, `head_dim` and `tie_word_embeddings` mean what they
        mean to transformers' `LlamaConfig`: the number of attention heads, hidden size over heads,
        and false.

        Args:
            config: The parsed file, or what `PreTrainedConfig.to_dict()` returns.
            name: What to call the model; the config's `_name_or_path` or its type by default.

        Raises:
            ValueError: If the model type is not known here, a size is missing or not an integer,
                or the config asks for biases that the parameter count leaves out.
        """
        model_type = str(config.get("model_type"))
        if model_type not in _MODEL_TYPES:
            known = ", ".join(_MODEL_TYPES)
            raise ValueError(f"the memory model knows model_type {known}, got {model_type!r}")
        for key in ("attention_bias", "mlp_bias"):
            if config.get(key):
                raise ValueError(f"{key} must be false, or parameters would go uncounted, got true")
        hidden_size = _read_size(config, "hidden_size")
        num_heads = _read_size(config, "num_attention_heads")
        return cls(
            name=name or str(config.get("_name_or_path") or model_type),
            num_layers=_read_size(config, "num_hidden_layers"),
            hidden_size=hidden_size,
            intermediate_size=_read_size(config, "intermediate_size"),
            num_heads=num_heads,
            num_kv_heads=_read_size(config, "num_key_value_heads", default=num_heads),
            head_dim=_read_size(config, "head_dim", default=hidden_size // num_heads),
            vocab_size=_read_size(config, "vocab_size"),
            tie_embeddings=bool(config.get("tie_word_embeddings")),
            qkv_bias=model_type in _QKV_BIAS_TYPES,
            qk_norm=model_type in _QK_NORM_TYPES,
        )

    @property
    def num_parameters(self) -> int:
        """Count every stored weight.

        Per layer, with hidden size h, head size d, n query heads, m KV heads, MLP width f:

            2hnd + 2hmd    query and output; key and value projections
            (n + 2m)d      their biases, where the model has them
            3hf            gate, up and down projections
            2h             the two RMSNorm gains
            2d             the gains of query and key norm, where the model has them

        and once Vh for the embedding, Vh again for an untied output projection, h for the last
        norm. Source: module definitions of transformers' `modeling_llama`, `_qwen2`, `_qwen3`;
        grouped heads as in Ainslie et al. 2023, arXiv:2305.13245.
        """
        query_size = self.num_heads * self.head_dim
        kv_size = self.num_kv_heads * self.head_dim
        attention = 2 * self.hidden_size * (query_size + kv_size)
        bias = query_size + 2 * kv_size if self.qkv_bias else 0
        mlp = 3 * self.hidden_size * self.intermediate_size
        norms = 2 * self.hidden_size + (2 * self.head_dim if self.qk_norm else 0)
        num_vocab_matrices = 1 if self.tie_embeddings else 2
        return (
            self.num_layers * (attention + bias + mlp + norms)
            + num_vocab_matrices * self.vocab_size * self.hidden_size
            + self.hidden_size
        )

    @property
    def num_kv_values_per_token(self) -> int:
        """Count the cached numbers of one token: 2 (key and value) x layers x KV heads x head size.

        Source: Kwon et al. 2023, arXiv:2309.06180, section 3 (2 x hidden size x layers), with the
        KV heads of Ainslie et al. 2023, arXiv:2305.13245, in place of the whole hidden size.
        """
        return 2 * self.num_layers * self.num_kv_heads * self.head_dim


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSpec:
    """One accelerator, or one CPU process with the memory it may use."""

    name: str
    memory_bytes: int
    """What a process can see of it, which is less than the number on the box."""

    def __post_init__(self) -> None:
        if self.memory_bytes < 1:
            raise ValueError(f"memory_bytes of a device must be >= 1, got {self.memory_bytes}")

    @classmethod
    def cpu(cls, memory_bytes: int) -> "DeviceSpec":
        """Describe a CPU process that is allowed `memory_bytes` of memory."""
        return cls(name="cpu", memory_bytes=memory_bytes)


def _read_size(config: Mapping[str, object], key: str, default: int | None = None) -> int:
    value = config.get(key)
    if value is None:
        value = default
    if not isinstance(value, int) or isinstance(value, bool):
        # A file of the user's is wrong, not the type that a caller passed.
        raise ValueError(f"{key} of the model config must be an integer, got {value!r}")  # noqa: TRY004
    return value


MODEL_SHAPES: Final[Mapping[str, ModelShape]] = MappingProxyType({
    shape.name: shape
    for shape in (
        # huggingface.co/meta-llama/Llama-3.1-70B, config.json
        ModelShape(
            name="llama-3.1-70b",
            num_layers=80,
            hidden_size=8192,
            intermediate_size=28672,
            num_heads=64,
            num_kv_heads=8,
            head_dim=128,
            vocab_size=128256,
            tie_embeddings=False,
            qkv_bias=False,
        ),
        # huggingface.co/Qwen/Qwen2.5-72B-Instruct, config.json
        ModelShape(
            name="qwen2.5-72b",
            num_layers=80,
            hidden_size=8192,
            intermediate_size=29568,
            num_heads=64,
            num_kv_heads=8,
            head_dim=128,
            vocab_size=152064,
            tie_embeddings=False,
            qkv_bias=True,
        ),
        # huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct, config.json
        ModelShape(
            name="smollm2-135m",
            num_layers=30,
            hidden_size=576,
            intermediate_size=1536,
            num_heads=9,
            num_kv_heads=3,
            head_dim=64,
            vocab_size=49152,
            tie_embeddings=True,
            qkv_bias=False,
        ),
    )
})
"""Model shapes by name; any other Llama or Qwen2 model comes through `ModelShape.from_config`."""

DEVICE_SPECS: Final[Mapping[str, DeviceSpec]] = MappingProxyType({
    # The card carries 80 GiB; nvidia-smi lists 81,559 MiB and CUDA 79.11 GiB, as in the
    # out-of-memory message quoted in vllm-project/vllm issue 27508. Engines take their
    # fraction of the last figure.
    "h100-80gb": DeviceSpec(name="h100-80gb", memory_bytes=81_008 * _MIB),
})
"""Devices by name; `DeviceSpec.cpu` describes a CPU."""
