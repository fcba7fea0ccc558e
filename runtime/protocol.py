"""Messages between the user's process and a compiler process: a JSON header and raw bytes.

Loaded by file path inside the compiler process too: standard library only.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any, BinaryIO

_LENGTHS = struct.Struct(">IQ")


class StreamClosed(EOFError):
    """The other side is gone."""


def write_message(stream: BinaryIO, header: dict[str, Any], body: bytes = b"") -> None:
    """Write one message and flush it."""
    text = json.dumps(header).encode()
    message = memoryview(_LENGTHS.pack(len(text), len(body)) + text + body)
    while message:
        message = message[stream.write(message) :]
    stream.flush()


def read_message(stream: BinaryIO) -> tuple[dict[str, Any], bytes]:
    """Read one message; StreamClosed if there is none."""
    header_length, body_length = _LENGTHS.unpack(_read_exactly(stream, _LENGTHS.size))
    header = json.loads(_read_exactly(stream, header_length))
    return header, _read_exactly(stream, body_length)


def pack(parts: Mapping[str, bytes]) -> tuple[dict[str, int], bytes]:
    """Several binaries as one, and the sizes by which ``unpack`` tells them apart."""
    return {name: len(part) for name, part in parts.items()}, b"".join(parts.values())


def unpack(sizes: Mapping[str, int], body: bytes) -> tuple[dict[str, bytes], bytes]:
    """What ``pack`` has put together, and what follows it in ``body``."""
    parts, end = {}, 0
    for name, size in sizes.items():
        parts[name] = body[end : end + size]
        end += size
    return parts, body[end:]


def _read_exactly(stream: BinaryIO, length: int) -> bytes:
    chunks = []
    while length:
        chunk = stream.read(length)
        if not chunk:
            raise StreamClosed("the stream ended inside or before a message")
        chunks.append(chunk)
        length -= len(chunk)
    return b"".join(chunks)
