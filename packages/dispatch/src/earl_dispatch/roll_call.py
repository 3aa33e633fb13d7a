"""Who is still there after a group of ranks has broken."""

import time
from collections.abc import Sequence
from concurrent.futures import Future
from threading import Thread
from typing import Protocol, runtime_checkable

ROLL_CALL_S = 2.0
"""Longest time to wait for the others to sign in."""
_POLL_S = 0.02


@runtime_checkable
class Store(Protocol):
    """What is needed of the store of a process group."""

    def set(self, key: str, value: str, /) -> None:
        """Write a value."""
        ...

    def check(self, keys: list[str], /) -> bool:
        """Return at once whether all keys have been written."""
        ...


def absent_ranks(store: Store, *, rank: int, num_ranks: int, timeout_s: float = ROLL_CALL_S) -> str:
    """Sign in at the store of a broken group, wait for the others, and say who does not answer.

    Connections between ranks cannot be trusted any more, and a closed one does not tell whose it
    was. The store that the group was made with is apart from them. When one rank is gone the others
    see their exchange fail at about the same time and all come here.

    Args:
        store: Of the group.
        rank: Of this process.
        num_ranks: In the group.
        timeout_s: Longest time to wait.

    Returns:
        Text that names the ranks.
    """
    answer = Future[str]()
    # A store that is served from a lost host may block for minutes.
    Thread(target=_answer, args=(answer, store, rank, num_ranks, timeout_s), daemon=True).start()
    try:
        return answer.result(timeout=timeout_s + 1.0)
    except TimeoutError:
        return "the group's store does not answer, so its host is gone"


def _answer(answer: Future[str], store: Store, rank: int, num_ranks: int, timeout_s: float) -> None:
    try:
        answer.set_result(_describe(_absent(store, rank, num_ranks, timeout_s)))
    except RuntimeError as error:
        answer.set_result(
            "the group's store is gone with the rank that serves it, rank 0 of the default group "
            f"unless a launcher does ({error})"
        )


def _absent(store: Store, rank: int, num_ranks: int, timeout_s: float) -> list[int]:
    store.set(_key(rank), "here")
    deadline_s = time.monotonic() + timeout_s
    absent = [other for other in range(num_ranks) if other != rank]
    while True:
        absent = [other for other in absent if not store.check([_key(other)])]
        if not absent or time.monotonic() > deadline_s:
            return absent
        time.sleep(_POLL_S)


def _key(rank: int) -> str:
    return f"earl_dispatch/roll_call/{rank}"


def _describe(absent: Sequence[int]) -> str:
    if not absent:
        return "all ranks answer, so the connections between them have failed"
    return f"no answer from rank {', '.join(map(str, absent))}"
