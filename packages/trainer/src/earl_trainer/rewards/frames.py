"""Messages between a reward process and its owner: bytes with their length in front."""

import socket
import struct
import time

_LENGTH = struct.Struct("!I")


def send_frame(channel: socket.socket, body: bytes, *, timeout_s: float | int | None) -> None:
    """Send a message.

    Raises:
        TimeoutError: If the other side does not take it in time.
        OSError: If there is no other side.
    """
    channel.settimeout(timeout_s)
    channel.sendall(_LENGTH.pack(len(body)) + body)


def receive_frame(
    channel: socket.socket, *, timeout_s: float | int | None, max_bytes: int
) -> bytes:
    """Receive a whole message.

    Raises:
        TimeoutError: If it does not come in time.
        EOFError: If the other side is gone, or sends more than it may.
        OSError: If the connection breaks.
    """
    deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
    (num_bytes,) = _LENGTH.unpack(_receive(channel, _LENGTH.size, deadline_s))
    if num_bytes > max_bytes:
        raise EOFError(f"a message of {num_bytes} bytes, more than {max_bytes}")
    return _receive(channel, num_bytes, deadline_s)


def _receive(channel: socket.socket, num_bytes: int, deadline_s: float | None) -> bytes:
    parts: list[bytes] = []
    while num_bytes:
        if deadline_s is not None:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0.0:
                raise TimeoutError
            channel.settimeout(left_s)
        part = channel.recv(num_bytes)
        if not part:
            raise EOFError("the other side is gone")
        parts.append(part)
        num_bytes -= len(part)
    return b"".join(parts)
