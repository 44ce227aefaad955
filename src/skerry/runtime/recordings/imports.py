"""Makes recordings of the logs of other systems: Goby logs, and records of DOTS programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from skerry.codec.envelope import ACCESS, CREATE, PORTAL, REMOVE, UPDATE, Update
from skerry.codec.frame import PREFIX_BYTES, FrameCutter
from skerry.codec.pieces import canonical_key, split
from skerry.codec.subjects import default_subject
from skerry.errors import CodecError, DecodeError, RecordingError, SchemaError
from skerry.ids import hash64
from skerry.limits import CACHE_OBJECT_COUNT_MAX
from skerry.objects.base import codec_of
from skerry.objects.classes import class_of
from skerry.objects.descriptors import from_description
from skerry.objects.internal import internal_class
from skerry.objects.times import ns_of_seconds
from skerry.protocol.access.header import NEVER, Header, read_header
from skerry.protocol.portal.mapping.portal_mapping import NotMapped, PortalMapping, SpaceItem
from skerry.protocol.portal.mapping.rules import PortalRule
from skerry.recording.columns import DESCRIPTOR_TYPES
from skerry.recording.gaps import Gap
from skerry.recording.rows import NO_SENT_TIME
from skerry.runtime.clock import monotonic_ns
from skerry.runtime.goby_logs import GobyLogFile
from skerry.runtime.recordings.copying import new_recording
from skerry.runtime.recordings.files.remote_paths import RemotePath
from skerry.runtime.recordings.updates import Progress
from skerry.runtime.recordings.writer import RecordingWriter
from skerry.schema.fingerprint import fingerprint
from skerry.schema.internal import internal_types
from skerry.schema.model import NamedType, StructType

IMPORTED_OBJECT_COUNT_MAX: Final = CACHE_OBJECT_COUNT_MAX
"""Objects that an import remembers to distinguish a create from an update. Beyond it, an object
that is not remembered is recorded as updated."""

OBJECT_RULES: Final = (PortalRule(scheme="PROTOBUF"), PortalRule(scheme="*"))
"""The rules of an import without others: messages to objects, everything else to bytes."""
_BYTES_RULES: Final = (PortalRule(scheme="*", opaque=True),)
"""What becomes of publications that the rules select and cannot map."""

_IDENTITY_BYTES: Final = 256
"""The bytes at the beginning of a log that identify it: its first names, with times and CRC."""
_TIME_US_STOP: Final = 2**63 // 1000
"""Logs have times of 64 bits in microseconds, recordings have signed ones in nanoseconds."""
_CHUNK_BYTES: Final = 256 * 1024
_PROGRESS_COUNT: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """Counts of what was imported."""

    rows: int
    """Updates that were written."""
    objects: int
    """Those of them that are objects; the others are bytes."""
    unmapped: int
    """Publications that a rule maps to objects and that could only be imported as bytes."""
    skipped: int
    """Entries that are not part of the space: descriptors, the hold, and those of no rule."""
    damaged: int
    """Damaged places, each of which is a gap in the recording."""
    lost_bytes: int
    """Bytes of the damaged places."""


def import_goby_log(
    log: GobyLogFile,
    target: Path | RemotePath,
    rules: tuple[PortalRule, ...] = OBJECT_RULES,
    *,
    types: Mapping[str, StructType] | None = None,
    descriptor_sets: tuple[Path, ...] = (),
    space: str = "local",
    report: Callable[[str], None] = lambda _text: None,
    on_progress: Progress | None = None,
) -> Imported:
    """Make a recording of a Goby log. What cannot be an object becomes bytes, and is reported.

    The rows of one log have equal origins in every import, so the tables have each of them once.
    """
    protobuf, faults = log.protobuf_types(*descriptor_sets)
    for fault in faults:
        report(fault)
    mapping = PortalMapping(rules, protobuf, types)
    rest = PortalMapping(_BYTES_RULES)
    reader = log.reader()
    if not reader.has_times:
        report("the log has no times (version 1 or 2); all rows have the time 1970-01-01")
    skipped = unmapped = damaged = count = mistimed = 0
    last_ns = 0
    with new_recording(target, space=space) as writer:
        rows = _ImportedRows(writer, source=PORTAL, node=hash64(log.content[:_IDENTITY_BYTES]))
        for entry in reader:
            before_ns = last_ns
            if entry.time_us < _TIME_US_STOP:
                last_ns = entry.time_us * 1000
            else:
                mistimed += 1
            if reader.damage_count > damaged:
                damaged = reader.damage_count
                rows.append_gap(before_ns, last_ns)
            count += 1
            if on_progress is not None and count % _PROGRESS_COUNT == 0:
                on_progress(reader.offset, log.size)
            if entry.is_descriptor or entry.is_internal:
                skipped += 1
                continue
            facts = (entry.group, entry.scheme, entry.type_name, entry.data)
            before = mapping.statistics().unmapped_count
            item = mapping.item_of(*facts)
            if item is None and mapping.statistics().unmapped_count > before:
                unmapped += 1
                item = rest.item_of(*facts)
            if item is None:
                skipped += 1
                continue
            rows.append_item(item, last_ns)
        if reader.damage_count > damaged:
            damaged = reader.damage_count
            rows.append_gap(last_ns, last_ns)
        for event in mapping.take_events():
            if isinstance(event, NotMapped):
                report(f"{event.what} become bytes: {event.detail}")
    if mistimed:
        report(
            f"{mistimed:,} entries have times after the year 2262, which recordings cannot have;"
            " they have the time of the entry before them"
        )
    for damage in reader.damages:
        report(f"{log.path}: {damage}")
    return Imported(
        rows=rows.row_count,
        objects=rows.object_count,
        unmapped=unmapped,
        skipped=skipped,
        damaged=damaged,
        lost_bytes=reader.lost_byte_count,
    )


def import_dots_record(
    path: Path,
    target: Path | RemotePath,
    *,
    space: str = "local",
    report: Callable[[str], None] = lambda _text: None,
    on_progress: Progress | None = None,
) -> Imported:
    """Make a recording of a record of DOTS programs (`.dots.rec`): frames of version 2."""
    skipped = damaged = lost = 0
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            frames = _DotsFrames(file.read, on_progress, size)
            identity = hash64(file.read(_IDENTITY_BYTES))
            file.seek(0)
            with new_recording(target, space=space) as writer:
                rows = _ImportedRows(writer, source=ACCESS, node=identity)
                types = _DescribedTypes()
                troubles: Counter[str] = Counter()
                for header, payload in frames:
                    fault = types.learn(header, payload)
                    if fault is None:
                        fault = rows.append_frame(header, payload, types)
                    if fault:
                        troubles[fault] += 1
                    skipped += fault is not None
                if frames.fault:
                    damaged, lost = 1, size - frames.offset
                    rows.append_gap(rows.time_ns, rows.time_ns)
                    report(f"{path}: {frames.fault}; the rest of the file is left out")
    except OSError as error:
        raise RecordingError(f"cannot read {path}: {error.strerror or error}") from error
    for text, times in troubles.items():
        report(f"{times:,} frames are left out: {text}")
    return Imported(
        rows=rows.row_count,
        objects=rows.object_count,
        unmapped=0,
        skipped=skipped,
        damaged=damaged,
        lost_bytes=lost,
    )


class _ImportedRows:
    """Writes rows of one log, which counts as one node."""

    def __init__(self, writer: RecordingWriter, *, source: str, node: int) -> None:
        self._writer = writer
        self._source = source
        self._node = node
        self._position = 0
        self._there: set[tuple[str, bytes]] = set()
        self._described: set[int] = set()
        self.row_count = 0
        self.object_count = 0
        self.time_ns = 0
        """Time of the last row."""

    def append_item(self, item: SpaceItem, time_ns: int) -> None:
        """Write what a publication is mapped to."""
        obj = item.obj if item.obj is not None else internal_class("SkerryBytes")(data=item.data)
        struct: StructType = type(obj).descriptor
        # A publication is the whole object.
        present = struct.mask if struct.flags.cached else int(obj.attributes)
        self._append(struct, obj.encode(), present, item.subject, time_ns)
        self.object_count += item.obj is not None

    def append_frame(self, header: Header, payload: bytes, types: _DescribedTypes) -> str | None:
        """Write the object of a frame; what is wrong with it, or None."""
        struct = types.structs.get(header.type_name)
        if struct is None:
            return f"the type {header.type_name:.100} is not described before its objects"
        if header.attributes < 0:
            return "the header has no property set"
        sent_ns = _time_ns(header.sent_time)
        time_ns = _time_ns(header.server_sent_time)
        if time_ns == NO_SENT_TIME:
            time_ns = max(sent_ns, 0)
        try:
            self._append(
                struct,
                payload,
                int(header.attributes),
                header.subject,
                time_ns,
                sent_ns=sent_ns,
                sender=max(int(header.sender), 0),
                is_remove=header.remove_obj == 1,
            )
        except CodecError as error:
            return str(error)
        self.object_count += 1
        return None

    def append_gap(self, first_ns: int, last_ns: int) -> None:
        """Write that an unknown number of updates is missing here."""
        gap = Gap(count=0, reason="the log is damaged", first_ns=first_ns, last_ns=last_ns)
        self._writer.append_gap(gap, node=self._node)

    def _append(
        self,
        struct: StructType,
        payload: bytes,
        present: int,
        subject: str,
        time_ns: int,
        *,
        sent_ns: int = NO_SENT_TIME,
        sender: int = 0,
        is_remove: bool = False,
    ) -> None:
        plan = codec_of(class_of(struct)).plan
        pieces = split(plan, payload, 0)
        key = canonical_key(plan, pieces)
        number = fingerprint(struct)
        if number not in self._described:
            self._described.add(number)
            self._writer.describe(struct)
        self._position += 1
        self._writer.append(
            Update(
                type_name=struct.name,
                subject=subject or default_subject(plan, pieces),
                operation=self._operation(struct, key, is_remove=is_remove),
                present=present,
                key=key,
                payload=payload,
                space=self._writer.space,
                fingerprint=number,
                sender=sender,
                node=self._node,
                sequence=self._position,
                position=self._position,
                sent_ns=sent_ns,
                time_ns=time_ns,
                source=self._source,
            )
        )
        self.time_ns = time_ns
        self.row_count += 1
        if self._writer.is_full:
            self._writer.flush_if_due(monotonic_ns())

    def _operation(self, struct: StructType, key: bytes, *, is_remove: bool) -> int:
        if not struct.flags.cached:
            return CREATE
        place = (struct.name, key)
        if is_remove:
            self._there.discard(place)
            return REMOVE
        if place in self._there:
            return UPDATE
        if len(self._there) >= IMPORTED_OBJECT_COUNT_MAX:
            return UPDATE
        self._there.add(place)
        return CREATE


class _DescribedTypes:
    """The types that a record describes, by name."""

    def __init__(self) -> None:
        self._known: dict[str, NamedType] = dict(internal_types())
        self.structs: dict[str, StructType] = {
            type_.name: type_
            for type_ in internal_types().values()
            if isinstance(type_, StructType)
        }

    def learn(self, header: Header, payload: bytes) -> str | None:
        """Learn a described type. None if the frame has an object; else a fault, or ""."""
        name = header.type_name
        if name == "DotsRecordHeader":
            return ""
        if name not in DESCRIPTOR_TYPES:
            return None
        try:
            message: Any = internal_class(name).decode(payload)
            type_ = from_description(message, self._known)
        except (CodecError, SchemaError) as error:
            return str(error)
        if type_.name not in internal_types():
            self._known[type_.name] = type_
            if isinstance(type_, StructType):
                self.structs[type_.name] = type_
        return ""


class _DotsFrames:
    """Header and payload of each frame of a record, up to its first fault."""

    def __init__(
        self, read: Callable[[int], bytes], on_progress: Progress | None, size: int
    ) -> None:
        self._read = read
        self._on_progress = on_progress
        self._size = size
        self.offset = 0
        """Where the next frame begins."""
        self.fault = ""
        """Why the rest of the record cannot be read."""

    def __iter__(self) -> Iterator[tuple[Header, bytes]]:
        cutter = FrameCutter()
        is_over = False
        while not is_over:
            data = self._read(_CHUNK_BYTES)
            is_over = not data
            try:
                # Without data, this raises a fault after the frames that were returned.
                for body in cutter.feed(data):
                    header, start = read_header(body, 0)
                    self.offset += PREFIX_BYTES + len(body)
                    yield header, body[start:]
            except DecodeError as error:
                self.fault = str(error)
                return
            if self._on_progress is not None:
                self._on_progress(self.offset, self._size)
        if self.offset < self._size:
            self.fault = "the file ends in a frame"


def _time_ns(seconds: float) -> int:
    if seconds == NEVER or not -9e9 < seconds < 9e9:
        return NO_SENT_TIME
    return int(ns_of_seconds(seconds))
