"""Input of commands: an argument, or standard input until its end or a signal."""

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

_WAIT_S: Final = 0.1
"""Interval at which a stop request is polled while no input arrives."""
_CHUNK_BYTES: Final = 65536


def input_lines(stop: Stop) -> Iterator[bytes]:
    """Yield the lines of standard input that are not blank, each as soon as it is complete.

    LimitExceeded if a line is longer than PAYLOAD_BYTES_MAX.
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
    """The whole standard input; LimitExceeded if it is longer than PAYLOAD_BYTES_MAX."""
    content = bytearray()
    for chunk in _chunks(stop):
        content += chunk
        _check_size(content)
    return bytes(content)


def input_contents(data: str | None, stop: Stop) -> Iterator[bytes]:
    """Yield the contents to publish: `data`, or each line of standard input if it is None.

    `data` is text, `@FILE`, `hex:DIGITS`, or `-` for the whole standard input.
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
            raise click.UsageError(f"{data[:60]!r} is not hex: with pairs of digits") from None
    else:
        # Arguments that are not valid UTF-8 are passed on as bytes.
        yield data.encode("utf-8", "surrogateescape")


def _chunks(stop: Stop) -> Iterator[bytes]:
    # The descriptor is read directly, and only when it is readable: a blocking read would continue
    # after a signal, and select() does not see what Python's own buffer holds.
    if sys.stdin is None or sys.stdin.closed:
        raise OSError(errno.EBADF, "standard input is closed")
    descriptor = sys.stdin.fileno()
    while not stop.is_requested:
        readable, _, _ = select.select([descriptor], [], [], _WAIT_S)
        if not readable:
            continue
        chunk = os.read(descriptor, _CHUNK_BYTES)
        if not chunk:
            return
        yield chunk


def _check_size(content: bytearray) -> None:
    if len(content) > PAYLOAD_BYTES_MAX:
        raise LimitExceeded(
            what="size of a piece of standard input in bytes",
            value=len(content),
            limit=PAYLOAD_BYTES_MAX,
        )
