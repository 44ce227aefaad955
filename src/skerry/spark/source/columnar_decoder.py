"""Decodes many payloads at once with numpy: each step processes one field of all rows.

Rows of one type mostly have the same fields in the same order, so one step reads a field of all
rows, at a different position in each. A row that is not *regular* (another order of fields, unknown
fields, malformed bytes) is decoded by `payload_decoder` instead.

A step returns how to build the column (done only if the column is wanted), the next position of
each row, and which rows are still regular. Rows are contiguous, and no step moves the position of a
row past its end, so positions always ascend from row to row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from skerry.limits import STRUCT_COUNT_MAX, VECTOR_COUNT_MAX
from skerry.schema.model import (
    INTEGER_RANGES,
    EnumType,
    FieldType,
    Kind,
    RefType,
    ScalarType,
    StructType,
    VectorType,
)
from skerry.spark.lake.schema import UNKNOWN, arrow_type, payload_schema
from skerry.spark.source.payload_decoder import TIME_S_MAX, TIME_S_MIN, decode_payload

_Numbers: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

_PADDING: Final = 64
"""Bytes behind the last payload, so that reads past the end of a row stay within the array."""
_ELEMENT_STEPS_MAX: Final = 64
"""Maximum number of elements read in steps; rows with longer vectors are decoded one by one."""

_WIDTHS: Final = np.zeros(256, np.int64)
_SHIFTS: Final = np.zeros(256, np.uint64)
for _head in range(256):
    _info = _head & 0x1F
    if 24 <= _info <= 27:
        _WIDTHS[_head] = 1 << (_info - 24)
        _SHIFTS[_head] = 64 - 8 * (1 << (_info - 24))
_HEX: Final = np.array([list(f"{byte:02x}".encode()) for byte in range(256)], np.uint8)
_UUID_DIGITS: Final = np.array([i for i in range(36) if i not in (8, 13, 18, 23)])
_FLOAT_HEADS: Final = {0xF9: (2, ">f2"), 0xFA: (4, ">f4"), 0xFB: (8, ">f8")}
_FLOAT_HEAD_MAX: Final = {Kind.FLOAT16: 0xF9, Kind.FLOAT32: 0xFA}
_FLOAT_KINDS: Final = (
    Kind.FLOAT16,
    Kind.FLOAT32,
    Kind.FLOAT64,
    Kind.TIMEPOINT,
    Kind.STEADY_TIMEPOINT,
    Kind.DURATION,
)
_NUMPY_KINDS: Final = {
    Kind.INT8: np.int8,
    Kind.INT16: np.int16,
    Kind.INT32: np.int32,
    Kind.INT64: np.int64,
    Kind.UINT8: np.int16,
    Kind.UINT16: np.int32,
    Kind.UINT32: np.int64,
    Kind.PROPERTY_SET: np.int64,
}


class _Step(NamedTuple):
    build: Callable[[], pa.Array]
    pos: _Numbers
    is_regular: _Numbers


class _StructStep(NamedTuple):
    columns: dict[str, Callable[[], pa.Array]]
    pos: _Numbers
    is_regular: _Numbers


def decode_payloads(
    reader: StructType, payload: pa.BinaryArray, columns: Sequence[str] | None = None
) -> pa.RecordBatch:
    """The columns of encoded objects of one type, optionally only some of them.

    `reader` is that of a `TypedSchema`. The columns are those of `payload_schema`.
    """
    count = len(payload)
    rows = _Rows(payload)
    step = rows.struct(reader, rows.starts, rows.stops)
    is_regular = step.is_regular & (step.pos == rows.stops)
    is_regular &= rows.stops - rows.starts <= STRUCT_COUNT_MAX
    irregular = np.flatnonzero(~is_regular)
    schema = payload_schema(reader)
    names = schema.names if columns is None else list(columns)
    arrays = [_column(step.columns, schema, name, count) for name in names]
    if len(irregular):
        sources = np.arange(count)
        sources[irregular] = count + np.arange(len(irregular))
        slow = [decode_payload(reader, payload[index].as_py()) for index in irregular.tolist()]
        arrays = [
            pa.concat_arrays([array, _slow_column(slow, schema, name)]).take(pa.array(sources))
            for name, array in zip(names, arrays, strict=True)
        ]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([schema.field(n) for n in names]))


def _column(
    fields: dict[str, Callable[[], pa.Array]], schema: pa.Schema, name: str, count: int
) -> pa.Array:
    if name == UNKNOWN:
        # A row with unknown fields is not regular.
        return pa.nulls(count, schema.field(name).type)
    return fields[name]()


def _slow_column(
    slow: list[tuple[list[Any], dict[int, bytes]]], schema: pa.Schema, name: str
) -> pa.Array:
    if name == UNKNOWN:
        items = [list(unknown.items()) or None for _, unknown in slow]
    else:
        index = schema.get_field_index(name)
        items = [values[index] for values, _ in slow]
    return pa.array(items, schema.field(name).type)


class _Rows:
    """The bytes of all rows, and the steps that decode them."""

    def __init__(self, payload: pa.BinaryArray) -> None:
        _, offsets, data = payload.buffers()
        stop = payload.offset + len(payload) + 1
        ends = np.frombuffer(b"" if offsets is None else offsets, np.int32)[payload.offset : stop]
        size = 0 if data is None else data.size
        if not len(payload):
            ends = np.zeros(1, np.int32)
        elif ends[0] < 0 or ends[-1] > size or (np.diff(ends) < 0).any():
            raise ValueError("the offsets of the payloads are outside of the data or descend")
        first, last = int(ends[0]), int(ends[-1])
        raw = np.zeros(last - first + _PADDING, np.uint8)
        if last > first:
            raw[: last - first] = np.frombuffer(data, np.uint8)[first:last]
        self.data = raw
        self.starts = ends[:-1].astype(np.int64) - first
        self.stops = ends[1:].astype(np.int64) - first
        self._buffer = pa.py_buffer(raw)
        # Overlapping elements: a number can be read at any byte.
        self._at = {
            form: np.ndarray((len(raw) - 8,), form, raw.data, strides=(1,))
            for form in (">u2", ">u4", ">u8", ">f2", ">f4", ">f8")
        }

    # -- structs

    def struct(self, type_: StructType, pos: _Numbers, stops: _Numbers) -> _StructStep:
        heads = self.data[pos]
        is_regular = (heads >= 0xA0) & (heads < 0xA0 + 24)
        left = (heads & 0x1F).astype(np.int64)
        pos = pos + 1
        parts: dict[int, list[_Part]] = {field.tag: [] for field in type_.fields}
        seen = np.zeros(len(pos), np.int64)
        before = -1
        # Writers of another definition may order the fields differently: the next round reads
        # fields that this one could not.
        while (rest := int(left[is_regular].sum())) and rest != before:
            before = rest
            for field in type_.fields:
                self._field(field.tag, field.type, _Here(pos, left, seen, is_regular, stops), parts)
        is_regular &= left == 0
        count = len(pos)
        columns = {
            field.name: _joined(parts[field.tag], count, arrow_type(field.type))
            for field in type_.fields
        }
        return _StructStep(columns, pos, is_regular)

    def _field(
        self, tag: int, type_: FieldType, here: _Here, parts: dict[int, list[_Part]]
    ) -> None:
        """Read one field of the rows in which it is the next one."""
        pos, left, seen, is_regular, stops = here
        size = 1 if tag < 24 else 2
        is_here = is_regular & (left > 0) & (self.data[pos] == (min(24, tag)))
        if size == 2:
            is_here &= self.data[pos + 1] == tag
        rows = np.flatnonzero(is_here)
        if not len(rows):
            return
        bit = 1 << tag
        is_regular[rows] &= seen[rows] & bit == 0
        seen[rows] |= bit
        left[rows] -= 1
        step = self.value(type_, pos[rows] + size, stops[rows])
        pos[rows] = np.where(step.is_regular, step.pos, pos[rows])
        is_regular[rows] &= step.is_regular
        parts[tag].append(_Part(rows, step.build))

    # -- values

    def value(self, type_: FieldType, pos: _Numbers, stops: _Numbers) -> _Step:
        kind = type_.kind
        if kind in INTEGER_RANGES:
            return self._integer(kind, pos, stops)
        if kind in _FLOAT_KINDS:
            return self._float(kind, pos, stops)
        if isinstance(type_, EnumType):
            return self._enum(type_, pos, stops)
        if isinstance(type_, StructType):
            inner = self.struct(type_, pos, stops)
            return _Step(lambda: _struct_array(inner, arrow_type(type_)), *inner[1:])
        if isinstance(type_, VectorType):
            return self._vector(type_, pos, stops)
        scalars = {
            Kind.BOOL: self._bool,
            Kind.STRING: self._text,
            Kind.BYTES: self._bytes,
            Kind.UUID: self._uuid,
            Kind.ANY: self._any,
        }
        return scalars.get(kind, self._nothing)(pos, stops)

    def _nothing(self, pos: _Numbers, stops: _Numbers) -> _Step:
        """References: finding the end of a key needs a look at every byte of it."""
        return _Step(
            lambda: pa.nulls(len(pos), arrow_type(RefType())), pos, np.zeros(len(pos), bool)
        )

    def _argument(self, pos: _Numbers) -> tuple[_Numbers, _Numbers, _Numbers]:
        """The head, the argument, and the position of the content."""
        heads = self.data[pos]
        infos = heads & 0x1F
        if (infos < 24).all():
            return heads, infos.astype(np.uint64), pos + 1
        wide = self._at[">u8"][pos + 1].astype(np.uint64) >> _SHIFTS[heads]
        return heads, np.where(infos < 24, infos, wide), pos + 1 + _WIDTHS[heads]

    def _integer(self, kind: Kind, pos: _Numbers, stops: _Numbers) -> _Step:
        heads, arguments, after = self._argument(pos)
        low, high = INTEGER_RANGES[kind]
        info_max = {8: 24, 16: 25, 32: 26, 64: 27}[(high - low).bit_length()]
        is_regular = (heads & 0x1F <= info_max) & (after <= stops)
        is_regular &= heads < (0x40 if low else 0x20)
        is_regular &= arguments <= high

        def build() -> pa.Array:
            if kind == Kind.UINT64:
                return _decimals(arguments)
            values = arguments.astype(np.int64)
            if low:
                values = np.where(heads >= 0x20, -1 - values, values)
            return pa.array(values.astype(_NUMPY_KINDS[kind]))

        return _Step(build, after, is_regular)

    def _float(self, kind: Kind, pos: _Numbers, stops: _Numbers) -> _Step:
        heads = self.data[pos]
        is_regular = (heads >= 0xF9) & (heads <= _FLOAT_HEAD_MAX.get(kind, 0xFB))
        form = np.float32 if kind in (Kind.FLOAT16, Kind.FLOAT32) else np.float64
        values: _Numbers
        if len(heads) and heads[0] in _FLOAT_HEADS and (heads == heads[0]).all():
            width, wire = _FLOAT_HEADS[int(heads[0])]
            values, after = self._at[wire][pos + 1].astype(form), pos + 1 + width
        else:
            values, after = np.zeros(len(pos), form), pos.copy()
            for head, (width, wire) in _FLOAT_HEADS.items():
                rows = np.flatnonzero(heads == head)
                with np.errstate(over="ignore"):
                    values[rows] = self._at[wire][pos[rows] + 1].astype(form)
                after[rows] += 1 + width
        is_regular &= after <= stops
        if kind != Kind.TIMEPOINT:
            return _Step(lambda: pa.array(values), after, is_regular)
        is_regular &= (values >= TIME_S_MIN) & (values <= TIME_S_MAX)

        def build() -> pa.Array:
            micros = np.rint(np.where(is_regular, values, 0.0) * 1e6).astype(np.int64)
            return pa.array(micros).view(arrow_type(ScalarType(kind)))

        return _Step(build, after, is_regular)

    def _enum(self, type_: EnumType, pos: _Numbers, stops: _Numbers) -> _Step:
        heads, numbers, after = self._argument(pos)
        is_regular = (heads < 28) & (after <= stops)
        return _Step(lambda: _names(type_, numbers), after, is_regular)

    def _bool(self, pos: _Numbers, stops: _Numbers) -> _Step:
        heads = self.data[pos]
        is_regular = ((heads == 0xF4) | (heads == 0xF5)) & (pos < stops)
        return _Step(lambda: pa.array(heads == 0xF5), pos + 1, is_regular)

    def _span(
        self, major: int, pos: _Numbers, stops: _Numbers
    ) -> tuple[_Numbers, _Numbers, _Numbers]:
        """The start and stop of the content of a string, and which rows have one."""
        heads, lengths, start = self._argument(pos)
        is_regular = (heads & 0xE0 == major) & (heads & 0x1F < 28) & (start <= stops)
        room = np.maximum(stops - start, 0)
        is_regular &= lengths <= room.astype(np.uint64)
        if not is_regular.all():
            # Rows without a string keep their position and get an empty one.
            start = np.where(is_regular, start, pos)
            lengths = np.where(is_regular, lengths, 0)
        return start, start + lengths.astype(np.int64), is_regular

    def _bytes(self, pos: _Numbers, stops: _Numbers) -> _Step:
        start, stop, is_regular = self._span(0x40, pos, stops)
        return _Step(lambda: self._slices(start, stop), stop, is_regular)

    def _text(self, pos: _Numbers, stops: _Numbers) -> _Step:
        start, stop, is_regular = self._span(0x60, pos, stops)
        slices = self._slices(start, stop)
        try:
            texts = slices.cast(pa.string())
        except pa.ArrowInvalid:
            is_text = np.array([_is_utf8(raw) for raw in slices.to_pylist()], bool)
            is_regular = is_regular & is_text
            texts = self._slices(start, np.where(is_text, stop, start)).cast(pa.string())
        return _Step(lambda: texts, stop, is_regular)

    def _slices(self, start: _Numbers, stop: _Numbers) -> pa.Array:
        """The bytes from each start to its stop.

        Every second element of an array that also has the bytes between the slices, so that Arrow
        does the copying.
        """
        if not len(start):
            return pa.array([], pa.binary())
        edges = np.empty(2 * len(start), np.int32)
        edges[::2], edges[1::2] = start, stop
        buffers = [None, pa.py_buffer(edges), self._buffer]
        both = pa.Array.from_buffers(pa.binary(), len(edges) - 1, buffers)
        return both.take(pa.array(np.arange(0, len(edges), 2)))

    def _uuid(self, pos: _Numbers, stops: _Numbers) -> _Step:
        start, stop, is_regular = self._span(0x40, pos, stops)
        is_regular = is_regular & (stop - start == 16)
        return _Step(lambda: self._uuid_texts(start), stop, is_regular)

    def _uuid_texts(self, start: _Numbers) -> pa.Array:
        raw = self.data[start[:, None] + np.arange(16)]
        text = np.full((len(start), 36), ord("-"), np.uint8)
        text[:, _UUID_DIGITS] = _HEX[raw].reshape(len(start), 32)
        offsets = np.arange(0, 36 * len(start) + 1, 36, dtype=np.int32)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(text)]
        return pa.Array.from_buffers(pa.string(), len(start), buffers)

    def _any(self, pos: _Numbers, stops: _Numbers) -> _Step:
        is_pair = (self.data[pos] == 0x82) & (pos < stops)
        name = self._text(np.where(is_pair, pos + 1, pos), stops)
        content = self._bytes(np.where(name.is_regular, name.pos, pos), stops)
        is_regular = is_pair & name.is_regular & content.is_regular

        def build() -> pa.Array:
            kind = arrow_type(ScalarType(Kind.ANY))
            return pa.StructArray.from_arrays([name.build(), content.build()], fields=list(kind))

        return _Step(build, content.pos, is_regular)

    # -- vectors

    def _vector(self, type_: VectorType, pos: _Numbers, stops: _Numbers) -> _Step:
        heads, counts, start = self._argument(pos)
        is_regular = (heads & 0xE0 == 0x80) & (heads & 0x1F < 28) & (start <= stops)
        room = np.minimum(np.maximum(stops - start, 0), VECTOR_COUNT_MAX)
        is_regular &= counts <= room.astype(np.uint64)
        numbers = np.where(is_regular, counts, 0).astype(np.int64)
        at_once = self._equal_elements(type_, start, stops, numbers, is_regular)
        if at_once is not None:
            return at_once
        is_regular &= numbers <= _ELEMENT_STEPS_MAX
        return self._elements(type_, start, stops, np.where(is_regular, numbers, 0), is_regular)

    def _equal_elements(
        self,
        type_: VectorType,
        start: _Numbers,
        stops: _Numbers,
        counts: _Numbers,
        is_regular: _Numbers,
    ) -> _Step | None:
        """Decode vectors of numbers of equal width; None if the widths differ."""
        head = {Kind.FLOAT32: 0xFA, Kind.FLOAT64: 0xFB, Kind.DURATION: 0xFB}.get(type_.element.kind)
        if head is None:
            return None
        size = 1 + _FLOAT_HEADS[head][0]
        after = start + counts * size
        if not (after <= stops).all():
            return None
        offsets = _offsets(counts)
        within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts)
        pos = np.repeat(start, counts) + within * size
        if not (self.data[pos] == head).all():
            return None
        inner = self._float(type_.element.kind, pos, np.repeat(stops, counts))
        return _Step(lambda: _list_array(offsets, inner.build(), type_), after, is_regular)

    def _elements(
        self,
        type_: VectorType,
        start: _Numbers,
        stops: _Numbers,
        counts: _Numbers,
        is_regular: _Numbers,
    ) -> _Step:
        """Decode element by element, for all rows that have one more."""
        pos = start.copy()
        offsets = _offsets(counts)
        order = np.empty(offsets[-1], np.int64)
        builds: list[Callable[[], pa.Array]] = []
        done = 0
        for index in range(int(counts.max(initial=0))):
            rows = np.flatnonzero(counts > index)
            step = self.value(type_.element, pos[rows], stops[rows])
            pos[rows] = np.where(step.is_regular, step.pos, pos[rows])
            is_regular[rows] &= step.is_regular
            order[offsets[rows] + index] = done + np.arange(len(rows))
            builds.append(step.build)
            done += len(rows)

        def build() -> pa.Array:
            empty = pa.array([], arrow_type(type_.element))
            inner = pa.concat_arrays([empty, *(build() for build in builds)])
            return _list_array(offsets, inner.take(pa.array(order)), type_)

        return _Step(build, pos, is_regular)


class _Here(NamedTuple):
    """The positions of the rows of a struct, and the fields left and seen."""

    pos: _Numbers
    left: _Numbers
    seen: _Numbers
    is_regular: _Numbers
    stops: _Numbers


class _Part(NamedTuple):
    """One field of some of the rows."""

    rows: _Numbers
    build: Callable[[], pa.Array]


def _joined(parts: list[_Part], count: int, kind: pa.DataType) -> Callable[[], pa.Array]:
    """The column of a field from its parts; null for rows in no part."""

    def build() -> pa.Array:
        if not parts:
            return pa.nulls(count, kind)
        if len(parts) == 1 and len(parts[0].rows) == count:
            return parts[0].build()
        arrays = [part.build() for part in parts]
        sources = np.full(count, -1, np.int64)
        start = 0
        for part in parts:
            sources[part.rows] = start + np.arange(len(part.rows))
            start += len(part.rows)
        return pa.concat_arrays(arrays).take(pa.array(sources, mask=sources < 0))

    return build


def _struct_array(step: _StructStep, kind: pa.DataType) -> pa.Array:
    return pa.StructArray.from_arrays([b() for b in step.columns.values()], fields=list(kind))


def _offsets(counts: _Numbers) -> _Numbers:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])


def _list_array(offsets: _Numbers, inner: pa.Array, type_: VectorType) -> pa.Array:
    kind = arrow_type(type_)
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), inner, type=kind)


def _names(type_: EnumType, numbers: _Numbers) -> pa.Array:
    by_tag = {element.tag: element.name for element in reversed(type_.elements)}
    distinct, indices = np.unique(numbers, return_inverse=True)
    names = [by_tag.get(number, str(number)) for number in distinct.tolist()]
    return pa.array(names, pa.string()).take(pa.array(indices))


def _decimals(numbers: _Numbers) -> pa.Array:
    wide = np.zeros((len(numbers), 2), np.uint64)
    wide[:, 0] = numbers
    kind = arrow_type(ScalarType(Kind.UINT64))
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(wide)])


def _is_utf8(raw: bytes) -> bool:
    return raw.decode("utf-8", "ignore").encode() == raw
