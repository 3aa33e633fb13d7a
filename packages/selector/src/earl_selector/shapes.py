"""What the models know of a language model."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple, cast, final


class _Family(NamedTuple):
    """What transformers writes into the code of a model type rather than into its config."""

    qkv_bias: bool = False
    qk_norm: bool = False
    num_mlp_matrices: int = 3
    mlp_bias: bool = False
    norms_per_layer: int = 2
    norm_bias: bool = False
    # Defaults of its config class, for fields that a file leaves out.
    tie_embeddings: bool = False
    attention_bias: bool = False
    head_dim: int | None = None


# Read from transformers' modeling and configuration files of each type.
_FAMILIES: Final[Mapping[str, _Family]] = MappingProxyType({
    "gemma": _Family(tie_embeddings=True, head_dim=256),
    "gemma2": _Family(norms_per_layer=4, tie_embeddings=True, head_dim=256),
    "gpt_neox": _Family(num_mlp_matrices=2, mlp_bias=True, norm_bias=True, attention_bias=True),
    "granite": _Family(),
    "llama": _Family(),
    "mistral": _Family(),
    "mixtral": _Family(),
    "phi3": _Family(),
    "qwen2": _Family(qkv_bias=True),
    "qwen3": _Family(qk_norm=True),
    "qwen3_moe": _Family(qk_norm=True),
    "smollm3": _Family(tie_embeddings=True),
})
# Fields that say that there is more, or less, than `num_parameters` counts.
_UNCOUNTED: Final = (
    "mlp_bias",
    "kv_lora_rank",
    "n_shared_experts",
    "shared_expert_intermediate_size",
    "mlp_only_layers",
    "first_k_dense_replace",
)
_CACHING_LAYERS: Final = ("full_attention", "sliding_attention")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """The sizes of a decoder with grouped-query attention and an MLP, dense or of experts.

    Example:
        >>> from earl_selector import MODEL_SHAPES
        >>> MODEL_SHAPES["smollm2-135m"].num_parameters
        134515008
    """

    name: str
    """What people call the model; no rule depends on it."""
    num_layers: int
    hidden_size: int
    intermediate_size: int
    """Width of the MLP, or of one expert."""
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    tie_embeddings: bool
    """Whether the input embedding is also the output projection, and so is stored once."""
    qkv_bias: bool
    """Whether the query, key and value projections add a bias (Qwen2 does, Llama does not)."""
    output_bias: bool = False
    """Whether the attention's output projection adds a bias."""
    qk_norm: bool = False
    """Whether each head's query and key are normalised (Qwen3 does)."""
    num_mlp_matrices: int = 3
    """Of each MLP: 3 where a gate is one of them, else 2."""
    mlp_bias: bool = False
    """Whether they add biases."""
    norms_per_layer: int = 2
    norm_bias: bool = False
    """Whether norms have a bias besides their gain (LayerNorm has, RMSNorm has not)."""
    num_experts: int = 1
    """MLPs of each layer."""
    num_active_experts: int = 1
    """MLPs that one token passes through."""

    def __post_init__(self) -> None:
        sizes = (
            *(self.num_layers, self.hidden_size, self.intermediate_size, self.vocab_size),
            *(self.num_heads, self.num_kv_heads, self.head_dim, self.num_active_experts),
        )
        if min(sizes) < 1:
            raise ValueError(f"every size of a model shape must be >= 1, got {self}")
        if self.num_heads % self.num_kv_heads != 0:
            raise ValueError(
                f"num_kv_heads must divide num_heads, got {self.num_kv_heads} KV heads "
                f"and {self.num_heads} attention heads"
            )
        if self.num_active_experts > self.num_experts:
            raise ValueError(
                f"a token passes at most all experts, got {self.num_active_experts} of "
                f"{self.num_experts}"
            )

    @classmethod
    def from_config(cls, config: Mapping[str, object], *, name: str | None = None) -> "ModelShape":
        """Read the content of a Hugging Face `config.json`.

        Absent or null `num_key_value_heads`, `head_dim`, `tie_word_embeddings` and
        `attention_bias` mean what they mean to the config class of the model type. Sliding windows
        are ignored, which counts too much cache rather than too little.

        Args:
            config: The parsed file, or what `PreTrainedConfig.to_dict()` returns.
            name: What to call the model; the config's `_name_or_path` or its type by default.

        Raises:
            ValueError: If the model type is not known, a size is missing or not an integer, or the
                config asks for something that the counts would leave out.
        """
        model_type = str(config.get("model_type"))
        if model_type not in _FAMILIES:
            raise ValueError(
                f"model_type {model_type!r} is not known, and its parameters would be miscounted "
                f"(known: {', '.join(_FAMILIES)})"
            )
        family = _FAMILIES[model_type]
        _refuse_uncounted(config)
        hidden_size = _read_size(config, "hidden_size")
        num_heads = _read_size(config, "num_attention_heads")
        num_experts = _read_size(
            config, "num_experts", default=_read_size(config, "num_local_experts", default=1)
        )
        width = _read_size(config, "intermediate_size")
        attention_bias = _read_flag(config, "attention_bias", default=family.attention_bias)
        return cls(
            name=name or str(config.get("_name_or_path") or model_type),
            num_layers=_read_size(config, "num_hidden_layers"),
            hidden_size=hidden_size,
            intermediate_size=_read_size(config, "moe_intermediate_size", default=width)
            if num_experts > 1
            else width,
            num_heads=num_heads,
            num_kv_heads=_read_size(config, "num_key_value_heads", default=num_heads),
            head_dim=_read_size(
                config, "head_dim", default=family.head_dim or hidden_size // num_heads
            ),
            vocab_size=_read_size(config, "vocab_size"),
            tie_embeddings=_read_flag(config, "tie_word_embeddings", default=family.tie_embeddings),
            qkv_bias=family.qkv_bias or attention_bias,
            output_bias=attention_bias,
            qk_norm=family.qk_norm,
            num_mlp_matrices=family.num_mlp_matrices,
            mlp_bias=family.mlp_bias,
            norms_per_layer=family.norms_per_layer,
            norm_bias=family.norm_bias,
            num_experts=num_experts,
            num_active_experts=_read_size(config, "num_experts_per_tok") if num_experts > 1 else 1,
        )

    @property
    def num_parameters(self) -> int:
        """Count every stored weight.

        Per layer, with hidden size h, head size d, n query heads, m KV heads, MLP width f and E
        experts:

            2hnd + 2hmd    query and output; key and value projections
            (n + 2m)d, h   their biases, where the model has them
            3hf E          gate, up and down projections; 2hf where there is no gate
            (f + h) E      their biases, where an MLP without gate has them
            hE             the router, where there is more than one expert
            2h             the two RMSNorm gains; 4h where there are four, or biases besides
            2d             the gains of query and key norm, where the model has them

        and once Vh for the embedding, Vh again for an untied output projection, h (with a bias 2h)
        for the last norm. Source: module definitions of transformers' `modeling_llama`, `_qwen2`,
        `_qwen3`, `_mixtral`, `_qwen3_moe`, `_gemma2`, `_gpt_neox`; grouped heads as in Ainslie et
        al. 2023, arXiv:2305.13245.
        """
        num_vocab_matrices = 1 if self.tie_embeddings else 2
        return (
            self.num_layers * self.count_layer_parameters(self.num_experts)
            + num_vocab_matrices * self.vocab_size * self.hidden_size
            + self._num_norm_values
        )

    @property
    def _num_norm_values(self) -> int:
        return (1 + self.norm_bias) * self.hidden_size

    def count_layer_parameters(self, num_experts: float | int) -> int:
        """Count the weights of one layer, with this many of its experts (see `num_parameters`)."""
        query_size, kv_size = self.num_heads * self.head_dim, self.num_kv_heads * self.head_dim
        attention = 2 * self.hidden_size * (query_size + kv_size)
        biases = self.qkv_bias * (query_size + 2 * kv_size) + self.output_bias * self.hidden_size
        mlp_weights = self.num_mlp_matrices * self.hidden_size * self.intermediate_size
        mlp_biases = self.mlp_bias * (self.intermediate_size + self.hidden_size)
        mlp = round((mlp_weights + mlp_biases) * num_experts)
        router = self.hidden_size * self.num_experts if self.num_experts > 1 else 0
        norms = self.norms_per_layer * self._num_norm_values + self.qk_norm * 2 * self.head_dim
        return attention + biases + mlp + router + norms

    @property
    def num_kv_values_per_token(self) -> int:
        """Count the cached numbers of one token: 2 (key and value) x layers x KV heads x head size.

        Source: Kwon et al. 2023, arXiv:2309.06180, section 3 (2 x hidden size x layers), with the
        KV heads of Ainslie et al. 2023, arXiv:2305.13245, in place of the whole hidden size.
        """
        return 2 * self.num_layers * self.num_kv_heads * self.head_dim


def _refuse_uncounted(config: Mapping[str, object]) -> None:
    for key in _UNCOUNTED:
        if config.get(key):
            raise ValueError(
                f"{key} must be absent, or parameters would be miscounted, got {config[key]!r}"
            )
    if "text_config" in config:
        raise ValueError("a model with a text_config has towers that would go uncounted")
    sparse_step = config.get("decoder_sparse_step", 1)
    if sparse_step != 1:
        raise ValueError(f"every layer must have experts, got decoder_sparse_step {sparse_step}")
    layer_types = cast("list[str]", config.get("layer_types") or [])
    unknown = sorted(set(layer_types) - set(_CACHING_LAYERS))
    if unknown:
        raise ValueError(f"every layer must cache keys and values, got layer_types {unknown}")


def _read_flag(config: Mapping[str, object], key: str, *, default: bool) -> bool:
    value = config.get(key)
    return default if value is None else bool(value)


def _read_size(config: Mapping[str, object], key: str, default: int | None = None) -> int:
    value = config.get(key)
    if value is None:
        value = default
    if not isinstance(value, int) or isinstance(value, bool):
        # A file of the user's is wrong, not the type that a caller passed.
        raise ValueError(f"{key} of the model config must be an integer, got {value!r}")  # noqa: TRY004
    return value
