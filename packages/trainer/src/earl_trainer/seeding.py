"""Every stream of random numbers in a run, derived from its one seed by name."""

import hashlib

import numpy as np
from jaxtyping import Float64, UInt64

_GAMMA = np.uint64(0x9E3779B97F4A7C15)


def derive_seed(*parts: int | str) -> int:
    """Hash a path of names and numbers to a seed below 2**63, the same in every process.

    Args:
        *parts: For example the run's seed, "rollout", the step and the episode.
    """
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def uniforms(seeds: UInt64[np.ndarray, " n"], counter: int) -> Float64[np.ndarray, " n"]:
    """Draw number `counter` of each seed's own stream, uniform in [0, 1).

    Counter-based, so that the draw depends neither on what was drawn before nor on which seeds
    share the batch. SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
    generators", OOPSLA 2014), the seed mixed once so that neighbouring seeds do not share a stream.
    """
    with np.errstate(over="ignore"):
        mixed = _mix(_mix(seeds) + np.uint64(counter + 1) * _GAMMA)
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mix(z: UInt64[np.ndarray, " n"]) -> UInt64[np.ndarray, " n"]:
    with np.errstate(over="ignore"):
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))
