"""Exports recordings as JSON lines, as MCAP files for viewers, and as records of DOTS programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from skerry.codec.envelope import GAP, REMOVE, SNAPSHOT, Update
from skerry.codec.frame import frame
from skerry.codec.pieces import split
from skerry.codec.subjects import default_subject
from skerry.engine.carriage.distributor.types import describing
from skerry.errors import CodecError, LimitExceeded, RecordingError
from skerry.objects.base import codec_of
from skerry.objects.classes import class_of
from skerry.objects.internal import internal_class
from skerry.objects.times import seconds_of_ns
from skerry.protocol.access.header import Header, write_header
from skerry.recording.json_rows import json_row, json_schema
from skerry.recording.selection import ALL_ROWS, RowSelection
from skerry.recording.updates import is_description
from skerry.runtime.recordings.files.new_files import new_file
from skerry.runtime.recordings.reader import Recording
from skerry.runtime.recordings.updates import (
    Progress,
    read_all_types,
    read_united_types,
    read_updates,
)
from skerry.schema.fingerprint import fingerprint
from skerry.schema.internal import internal_types
from skerry.schema.model import StructType, dependencies

RECORDING_CHANNEL_COUNT_MAX: Final = 65_535
"""Channels of one MCAP file, which numbers them with 16 bits."""

_SENDER_SPAN: Final = 2**32
"""A header has 32 bits for the sender; the senders of a multicast group have more."""

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
    with new_file(target) as file:
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
    with new_file(target) as file:
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


def export_dots(
    recordings: Sequence[Recording],
    target: Path,
    selection: RowSelection = ALL_ROWS,
    *,
    on_progress: Progress | None = None,
) -> tuple[int, int]:
    """Write a record of DOTS programs; the number of objects in it, and of rows left out.

    It is a sequence of frames of version 2: a DotsRecordHeader, and objects with their times and
    senders, each after the descriptions of its type. Gaps and rows of unknown types are left out.
    """
    known = read_all_types(recordings)
    described: dict[str, int] = {}
    count = left_out = 0
    with new_file(target) as file:
        for update in read_updates(recordings, selection, on_progress=on_progress):
            if is_description(update):
                continue
            type_ = known.get(update.fingerprint, internal_types().get(update.type_name))
            if update.operation == GAP or not isinstance(type_, StructType):
                left_out += 1
                continue
            if not count:
                file.write(_record_header(recordings, update, selection))
            if described.get(type_.name) != update.fingerprint:
                described[type_.name] = update.fingerprint
                for part in (*dependencies(type_), type_):
                    if part.name not in internal_types():
                        _, data = describing(part)
                        file.write(frame(data))
            file.write(frame(write_header(_dots_header(update, type_)) + update.payload))
            count += 1
    return count, left_out


def _record_header(
    recordings: Sequence[Recording], first: Update, selection: RowSelection
) -> bytes:
    obj = internal_class("DotsRecordHeader")(
        name=recordings[0].identity.space,
        startTime=seconds_of_ns(first.time_ns),
        whitelist=sorted(selection.types or ()),
    )
    header = Header("DotsRecordHeader")
    header.sent_time = seconds_of_ns(first.time_ns)
    header.attributes = int(obj.attributes)
    return frame(write_header(header) + obj.encode())


def _dots_header(update: Update, type_: StructType) -> Header:
    header = Header(update.type_name)
    if update.sent_ns >= 0:
        header.sent_time = seconds_of_ns(update.sent_ns)
    header.server_sent_time = seconds_of_ns(update.time_ns)
    # A snapshot row is the whole object: fields that it lacks must become unset.
    is_whole = update.operation == SNAPSHOT
    header.attributes = update.present | (type_.mask if is_whole else 0)
    if 0 <= update.sender < _SENDER_SPAN:
        header.sender = update.sender
    header.remove_obj = 1 if update.operation == REMOVE else 0
    plan = codec_of(class_of(type_)).plan
    try:
        own = default_subject(plan, split(plan, update.payload, 0))
    except CodecError:
        own = ""
    header.subject = "" if update.subject == own else update.subject
    return header
