"""How vLLM is started: what all degrees share, and what follows from it for one of them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import torch
from earl_selector import MemoryModel

# vLLM asks for multiples of 32 on a CPU; on GPUs its own default is kept.
_CPU_BLOCK_TOKENS = 32


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class VllmTimeouts:
    """The longest time that each thing may take."""

    start_s: float = 600.0
    """From new processes to the first request."""
    generate_s: float = 1800.0
    """One batch of replies."""
    call_s: float = 300.0
    """New weights, sleeping, waking."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class VllmSettings:
    """What the configurations of one engine have in common."""

    memory: MemoryModel
    """Of one rank; what the weights leave of it is the cache."""
    stop_ids: frozenset[int]
    max_context_tokens: int
    """Longest prompt and reply together."""
    num_threads: int
    """Of all ranks together, where they compute on a CPU."""
    dtype: torch.dtype
    timeouts: VllmTimeouts = VllmTimeouts()

    def __post_init__(self) -> None:
        if self.memory.bytes_per_kv_value != self.dtype.itemsize:
            raise ValueError(
                f"vLLM keeps keys and values in the model's {self.dtype}, but the memory counts "
                f"{self.memory.bytes_per_kv_value} bytes each"
            )

    def cache_bytes(self, tp: int) -> int:
        """Return what the weights leave of a rank's memory for keys and values."""
        return self.memory.capacity_tokens(tp) * self.memory.kv_bytes_per_token(tp)

    def longest_context(self, tp: int) -> int:
        """Return the limit of one context: vLLM refuses one that its cache would not hold.

        One block of the cache is never given out. Source: vllm 0.32, vllm/v1/core/block_pool.py,
        `null_block`.

        Raises:
            ValueError: If the memory does not hold two blocks.
        """
        num_blocks = self.memory.capacity_tokens(tp) // _CPU_BLOCK_TOKENS
        if num_blocks < 2:
            raise ValueError(
                f"vLLM needs memory for two blocks of {_CPU_BLOCK_TOKENS} tokens on every rank, "
                f"got {self.cache_bytes(tp):,} bytes at tp {tp}"
            )
        return min(self.max_context_tokens, (num_blocks - 1) * _CPU_BLOCK_TOKENS)

    def arguments(self, tp: int, folder: Path, *, on_gpu: bool) -> dict[str, Any]:
        """Return the engine's arguments. Source: vllm 0.32, vllm/engine/arg_utils.py."""
        return {
            "model": str(folder),
            "skip_tokenizer_init": True,
            "generation_config": "vllm",
            "tensor_parallel_size": tp,
            "dtype": str(self.dtype).removeprefix("torch."),
            "max_model_len": self.longest_context(tp),
            "kv_cache_memory_bytes": self.cache_bytes(tp),
            "block_size": None if on_gpu else _CPU_BLOCK_TOKENS,
            # The log-probs of the law that is sampled from, and not of the one at temperature 1.
            "logprobs_mode": "processed_logprobs",
            "enable_sleep_mode": on_gpu,
            "enforce_eager": not on_gpu,
            # On a CPU a prompt that is read in parts ends vLLM if its reply has a seed: "CPU
            # Generator does not use offset", vllm/v1/worker/gpu_model_runner.py.
            "enable_chunked_prefill": on_gpu,
            "disable_log_stats": True,
            "use_tqdm_on_load": False,
            "seed": 0,
        }

    def variables(self, tp: int, *, on_gpu: bool) -> dict[str, str]:
        """Return what vLLM reads from the environment. Source: vllm 0.32, vllm/envs.py."""
        shared = {"VLLM_ENGINE_READY_TIMEOUT_S": str(int(self.timeouts.start_s))}
        if on_gpu:
            return shared
        return shared | {
            # The learner uses the same cores at other times; pinned threads would be in its way.
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "OMP_NUM_THREADS": str(max(1, self.num_threads // tp)),
            # A function of the sampler would be compiled for half a minute at the first reply.
            "TORCH_COMPILE_DISABLE": "1",
        }
