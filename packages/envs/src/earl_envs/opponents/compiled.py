"""Which searches have a compiled kernel."""

from functools import cache

from earl_envs.kernels.names import is_usual_connect_four

__all__ = ["has_numba", "is_usual_connect_four"]


@cache
def has_numba() -> bool:
    """Return whether kernels can be compiled: numba comes with `earl-envs[fast]`."""
    try:
        import numba as _  # noqa: F401
    except ImportError:
        return False
    return True
