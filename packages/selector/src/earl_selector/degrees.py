"""Which degrees an engine may run at, by memory alone."""

from typing import Final

from earl_selector.capacity import CapacityModel

_MIB: Final = 2**20


def list_usable_degrees(
    memory: CapacityModel, degrees: tuple[int, ...], *, max_context_tokens: int
) -> tuple[int, ...]:
    """Return the degrees that hold at least one context of full length, ascending.

    At any other the engine could run out of memory in the middle of an episode; a load beyond the
    capacity of a usable degree only queues.
    """
    return tuple(tp for tp in sorted(degrees) if memory.capacity_tokens(tp) >= max_context_tokens)


def check_degrees(
    memory: CapacityModel, degrees: tuple[int, ...], *, num_devices: int, max_context_tokens: int
) -> None:
    """Refuse degrees that cannot run.

    Raises:
        ValueError: With the rule and the value: no degree, a degree twice, one by which the model
            cannot be split or that exceeds the devices, or none that holds one full context, then
            with the least memory and the longest context that would do.
    """
    if not degrees or len(set(degrees)) != len(degrees):
        raise ValueError(f"degrees must be distinct and at least one, got {degrees}")
    for tp in degrees:
        memory.check_degree(tp)
        if tp > num_devices:
            raise ValueError(f"tp {tp} needs {tp} devices, more than the {num_devices} there are")
    if max_context_tokens < 1:
        raise ValueError(f"max_context_tokens must be >= 1, got {max_context_tokens}")
    if not list_usable_degrees(memory, degrees, max_context_tokens=max_context_tokens):
        raise ValueError(_explain_infeasible(memory, degrees, max_context_tokens))


def _explain_infeasible(
    memory: CapacityModel, degrees: tuple[int, ...], max_context_tokens: int
) -> str:
    needs = {tp: memory.required_memory_bytes(tp, max_context_tokens) for tp in degrees}
    best_tp = min(needs, key=lambda tp: needs[tp])
    longest_tokens = max(memory.capacity_tokens(tp) for tp in degrees)
    device = memory.device
    return (
        f"no tp of {degrees} holds one context of {max_context_tokens:,} tokens on {device.name} "
        f"with {device.memory_bytes:,} bytes; the least that does is {needs[best_tp]:,} bytes "
        f"({-(-needs[best_tp] // _MIB):,} MiB) per device at tp {best_tp}, and the longest context "
        f"that fits these devices is {longest_tokens:,} tokens"
    )
