"""What a policy asks of memory."""

from typing import Protocol, runtime_checkable

from earl_selector.devices import DeviceSpec


@runtime_checkable
class CapacityModel(Protocol):
    """Anything that knows how many tokens one engine holds at each degree."""

    @property
    def device(self) -> DeviceSpec:
        """Return the device of each rank."""
        ...

    def check_degree(self, tp: int) -> None:
        """Refuse a degree by which the model cannot be split.

        Raises:
            ValueError: With the rule, the offending number and the degrees that are valid.
        """
        ...

    def capacity_tokens(self, tp: int) -> int:
        """Return how many tokens one engine holds at once, 0 where not even its weights fit."""
        ...

    def required_memory_bytes(self, tp: int, num_tokens: int) -> int:
        """Return the least memory per device with which so many tokens fit."""
        ...
