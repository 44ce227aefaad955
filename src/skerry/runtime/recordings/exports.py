"""Exports recordings as JSON lines, and as MCAP files for viewers."""

from __future__ import annotations

import errno
import json
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final, Literal

from skerry.codec.envelope import GAP, Update
from skerry.errors import LimitExceeded, RecordingError
from skerry.recording.json_rows import json_row, json_schema
from skerry.recording.selection import ALL_ROWS, RowSelection
from skerry.recording.updates import is_description
from skerry.runtime.recordings.files.folders import open_private
from skerry.runtime.recordings.reader import Recording
from skerry.runtime.recordings.updates import Progress, read_united_types, read_updates
from skerry.schema.fingerprint import fingerprint
from skerry.schema.model import StructType

RECORDING_CHANNEL_COUNT_MAX: Final = 65_535
"""Channels of one MCAP file, which numbers them with 16 bits."""

ChannelsBy = Literal["type", "subject"]


def json_lines(
    recordings: Sequence[Recording],
    selection: RowSelection = ALL_ROWS,
    *,
    on_progress: Progress | None = None,
) -> Iterator[str]:
    """One line of JSON for each update and gap."""
    known = read_united_types(recordings)
    for update in read_updates(recordings, selection, on_progress=on_progress):
        if not is_description(update):
            yield json.dumps(json_row(update, known.get(update.fingerprint)), allow_nan=False)


def export_json_lines(
    recordings: Sequence[Recording],
    target: Path,
    selection: RowSelection = ALL_ROWS,
    *,
    on_progress: Progress | None = None,
) -> int:
    """Write a file with one line of JSON for each update and gap; the number of lines."""
    count = 0
    with _new_file(target) as file:
        for line in json_lines(recordings, selection, on_progress=on_progress):
            file.write(line.encode() + b"\n")
            count += 1
    return count


def export_mcap(
    recordings: Sequence[Recording],
    target: Path,
    selection: RowSelection = ALL_ROWS,
    *,
    channels_by: ChannelsBy = "type",
    on_progress: Progress | None = None,
) -> int:
    """Write an MCAP file with one message for each update and gap; the number of messages.

    Messages are JSON with a JSON schema, which common viewers display. There is one channel for
    each type, or for each subject.
    """
    try:
        from mcap.writer import Writer
    except ImportError as error:
        missing = RecordingError("the mcap package is not installed")
        missing.hint = "install skerry[recording]"
        raise missing from error
    count = 0
    known = read_united_types(recordings)
    with _new_file(target) as file:
        writer: Any = Writer(file)
        writer.start(profile="", library="skerry")
        channels = _Channels(writer, channels_by)
        for update in read_updates(recordings, selection, on_progress=on_progress):
            if is_description(update):
                continue
            type_ = known.get(update.fingerprint)
            channels.add_message(update, type_)
            count += 1
        writer.finish()
    return count


class _Channels:
    """Channels of an MCAP file, each created with its first message."""

    def __init__(self, writer: Any, channels_by: ChannelsBy) -> None:
        self._writer = writer
        self._by_subject = channels_by == "subject"
        self._schemas: dict[int, int] = {}
        self._channels: dict[tuple[str, int], int] = {}

    def add_message(self, update: Update, type_: StructType | None) -> None:
        # MCAP has no times before 1970.
        time_ns = max(update.time_ns, 0)
        self._writer.add_message(
            channel_id=self._channel(update, type_),
            log_time=time_ns,
            publish_time=max(update.sent_ns, 0) if update.sent_ns != -1 else time_ns,
            sequence=update.sequence & 0xFFFFFFFF,
            data=json.dumps(json_row(update, type_), allow_nan=False).encode(),
        )

    def _channel(self, update: Update, type_: StructType | None) -> int:
        topic = self._topic(update)
        number = fingerprint(type_) if type_ is not None else 0
        known = self._channels.get((topic, number))
        if known is not None:
            return known
        if len(self._channels) >= RECORDING_CHANNEL_COUNT_MAX:
            error = LimitExceeded(
                what="count of channels of an MCAP file",
                value=len(self._channels) + 1,
                limit=RECORDING_CHANNEL_COUNT_MAX,
            )
            error.hint = "export one channel per type, or select fewer subjects"
            raise error
        schema = 0 if type_ is None else self._schema(number, type_)
        made: int = self._writer.register_channel(
            topic=topic, message_encoding="json", schema_id=schema
        )
        self._channels[topic, number] = made
        return made

    def _topic(self, update: Update) -> str:
        if update.operation == GAP:
            return "/gaps"
        if self._by_subject:
            return update.subject
        return f"/{update.type_name}"

    def _schema(self, number: int, type_: StructType) -> int:
        known = self._schemas.get(number)
        if known is None:
            known = self._schemas[number] = self._writer.register_schema(
                name=type_.name,
                encoding="jsonschema",
                data=json.dumps(json_schema(type_)).encode(),
            )
        return known


@contextmanager
def _new_file(target: Path) -> Iterator[IO[bytes]]:
    """A temporary file that is renamed to the target on success and removed after a failure.

    A new file is private, like the recording. A replaced one keeps its mode.
    """
    if target.is_dir():
        error = RecordingError(f"cannot write {target}: it is a folder")
        error.hint = "name a file"
        raise error
    part = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}.part")
    try:
        with open(part, "wb", opener=open_private) as file:
            yield file
            if target.exists():
                os.fchmod(file.fileno(), target.stat().st_mode & 0o777)
        part.replace(target)
    except OSError as error:
        failure = RecordingError(f"cannot write {target}: {error.strerror or error}")
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        failure.hint = "free disk space" if is_full else "name a file in a writable folder"
        raise failure from error
    finally:
        part.unlink(missing_ok=True)
