"""What commands read: what they were given, or the standard input, until its end or a signal."""

from __future__ import annotations

import errno
import os
import select
import sys
from collections.abc import Iterator
from typing import Final

import click

from skerry.cli.stopping import Stop
from skerry.errors import LimitExceeded
from skerry.limits import PAYLOAD_BYTES_MAX

__all__ = ["input_bytes", "input_contents", "input_lines"]

_WAIT_S: Final = 0.1
"""How soon a request to stop is seen while nothing comes."""
_CHUNK_BYTES: Final = 65536


def input_lines(stop: Stop) -> Iterator[bytes]:
    """Lines of the standard input that are not blank, each as soon as it is there.

    A line may be as long as an object; LimitExceeded if one is longer.
    """
    rest = bytearray()
    for chunk in _chunks(stop):
        *ends, begin = chunk.split(b"\n")
        for end in ends:
            rest += end
            _check_size(rest)
            line = bytes(rest)
            rest.clear()
            if line.strip():
                yield line
        rest += begin
        _check_size(rest)
    if rest.strip() and not stop.is_requested:
        yield bytes(rest)


def input_bytes(stop: Stop) -> bytes:
    """The whole standard input, which may be as long as an object."""
    content = bytearray()
    for chunk in _chunks(stop):
        content += chunk
        _check_size(content)
    return bytes(content)


def input_contents(data: str | None, stop: Stop) -> Iterator[bytes]:
    """What a command is to publish: what it was given, or each line of the standard input.

    Given are text, `@FILE`, `hex:DIGITS`, or `-` for the whole standard input.
    """
    if data is None:
        yield from input_lines(stop)
    elif data == "-":
        yield input_bytes(stop)
    elif data.startswith("@"):
        from skerry.runtime.whole_files import read_whole

        yield read_whole(data[1:], bytes_max=PAYLOAD_BYTES_MAX)
    elif data.startswith("hex:"):
        try:
            yield bytes.fromhex(data[4:])
        except ValueError:
            raise click.UsageError(f"{data[:60]!r} is not hex: and pairs of digits") from None
    else:
        # Bytes that are no text come by the command line as they are.
        yield data.encode("utf-8", "surrogateescape")


def _chunks(stop: Stop) -> Iterator[bytes]:
    # Read by its number, and only when there is something: a read that waits would go on waiting
    # after a signal, and Python's own buffer would hide what is there already.
    if sys.stdin is None or sys.stdin.closed:
        raise OSError(errno.EBADF, "standard input is closed")
    number = sys.stdin.fileno()
    while not stop.is_requested:
        readable, _, _ = select.select([number], [], [], _WAIT_S)
        if not readable:
            continue
        chunk = os.read(number, _CHUNK_BYTES)
        if not chunk:
            return
        yield chunk


def _check_size(content: bytearray) -> None:
    if len(content) > PAYLOAD_BYTES_MAX:
        raise LimitExceeded(
            what="size of a piece of the standard input in bytes",
            value=len(content),
            limit=PAYLOAD_BYTES_MAX,
        )
