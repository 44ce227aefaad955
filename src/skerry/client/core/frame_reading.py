"""Reads the bytes that a space receives from its node.

Ordinary objects, which are nearly all of the traffic, go directly to the intake. The other frames
are returned one by one, and the space processes them. Each of them may end the connection; the
caller then stops iterating.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from skerry.client.core.update_intake import UpdateIntake
from skerry.errors import CodecError, DecodeError
from skerry.protocol.access.client import ClientConnection
from skerry.protocol.access.connection import ConnectionBroken, ReceivedFrame, broken_by
from skerry.protocol.access.handshake import ConnectionStage
from skerry.protocol.access.header import Header, read_header


@dataclass(frozen=True, slots=True, kw_only=True)
class Misread:
    """A payload that does not decode as its type."""

    header: Header
    error: CodecError


@dataclass(frozen=True, slots=True, kw_only=True)
class TooLarge:
    """A frame above the limit, which was skipped."""

    name: str
    """The name of the type; empty if it is unknown."""
    size: int


def read(
    connection: ClientConnection, intake: UpdateIntake, data: bytes
) -> Iterable[ReceivedFrame | Misread | TooLarge | ConnectionBroken]:
    """Read bytes. Yields the frames that the space has to process."""
    if connection.wire.version != 2:
        return _read_messages(connection, intake, data)
    if connection.is_over:
        return ()
    cutter = connection.wire.cutter
    try:
        cutter.load(data)
        if connection.stage is ConnectionStage.CONNECTING:
            return _read_frames(connection, intake, is_at_frame=False)
        if not intake.take_frames(cutter):
            return _read_frames(connection, intake, is_at_frame=True)
    except DecodeError as error:
        return (_broken(intake, error),)
    if cutter.skipped or cutter.has_fault:
        return _read_end(connection, intake)
    return ()


def _read_frames(
    connection: ClientConnection, intake: UpdateIntake, *, is_at_frame: bool
) -> Iterator[ReceivedFrame | Misread | TooLarge | ConnectionBroken]:
    """Read frames of version 2.

    With `is_at_frame` the cutter is at a frame that the space has to process.
    """
    cutter = connection.wire.cutter
    try:
        while not connection.is_over:
            if not is_at_frame:
                if connection.stage is ConnectionStage.CONNECTING:
                    if not cutter.step():
                        break
                elif intake.take_frames(cutter):
                    break
            is_at_frame = False
            body = cutter.body()
            header, size = read_header(body, 0)
            if intake.broken is not None:
                yield _misread(header, intake)
            else:
                yield ReceivedFrame(header, body[size:])
    except DecodeError as error:
        yield _broken(intake, error)
        return
    yield from _read_end(connection, intake)


def _read_end(
    connection: ClientConnection, intake: UpdateIntake
) -> Iterator[TooLarge | ConnectionBroken]:
    """Frames that were skipped, and an error after the last complete frame."""
    if not connection.is_over:
        yield from _skipped(connection)
    if not connection.is_over:
        try:
            # The error after complete frames is raised by the next call.
            connection.wire.cutter.load(b"")
        except DecodeError as error:
            yield _broken(intake, error)


def _broken(intake: UpdateIntake, error: DecodeError) -> ConnectionBroken:
    intake.broken = None
    return broken_by(error)


def _read_messages(
    connection: ClientConnection, intake: UpdateIntake, data: bytes
) -> Iterator[ReceivedFrame | Misread | TooLarge | ConnectionBroken]:
    """Read messages of version 1 or of the WebSocket."""
    arrived, fault = connection.feed(data)
    index, count = 0, len(arrived)
    while index < count and not connection.is_over:
        if connection.stage is not ConnectionStage.CONNECTING:
            index = int(intake.take(arrived, index))
            if index >= count or connection.is_over:
                break
        header, payload = arrived[index]
        index += 1
        if intake.broken is not None:
            yield _misread(header, intake)
        else:
            yield ReceivedFrame(header, payload)
    if not connection.is_over:
        yield from _skipped(connection)
    if fault is not None and not connection.is_over:
        yield fault


def _skipped(connection: ClientConnection) -> Iterator[TooLarge]:
    for name, size in connection.wire.take_skipped():
        yield TooLarge(name=name, size=size)


def _misread(header: Header, intake: UpdateIntake) -> Misread:
    error, intake.broken = intake.broken, None
    assert error is not None
    return Misread(header=header, error=error)
