# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, annotation_typing=False
"""The same as `columnar.py`, walking the bytes of each row and writing into columns as it goes.

A type is laid out as **nodes**, one a column, each with the buffers of its Arrow array: a bit for
each value that is there, and numbers, or offsets and bytes. No Python object is made for a value.
A row that turns out to be no object of the type is taken back: the offsets of every node tell what
was there before it. Wherever bytes are read, it was looked before whether they are there.
"""

from functools import lru_cache

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.math cimport rint
from libc.stdint cimport (
    int8_t,
    int16_t,
    int32_t,
    int64_t,
    uint8_t,
    uint32_t,
    uint64_t,
)
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset

import pyarrow as pa

from skerry import limits
from skerry.schema.model import INTEGER_RANGES, EnumType, Kind, RefType, StructType, VectorType
from skerry.spark.source.decode import exact
from skerry.spark.lake.schema import UNKNOWN, payload_schema

__all__ = ["decode"]

cdef enum:
    # How a node is read, and what its column is.
    BOOL = 1
    INTEGER
    DECIMAL
    HALF
    SINGLE
    DOUBLE
    TIME
    TEXT
    BYTES
    UUID
    ENUM
    ANY
    REF
    STRUCT
    LIST

cdef enum:
    TAG_COUNT = 32
    NAME_TABLE_SIZE = 1024
    REFUSED = -1

cdef int64_t STRUCT_COUNT_MAX = limits.STRUCT_COUNT_MAX
cdef uint64_t ENTRY_COUNT_MAX = limits.STRUCT_ENTRY_COUNT_MAX
cdef uint64_t VECTOR_COUNT_MAX = limits.VECTOR_COUNT_MAX
cdef int SKIP_DEPTH_MAX = limits.SKIP_DEPTH_MAX
cdef uint64_t UNKNOWN_TAG_MAX = exact.UNKNOWN_TAG_MAX
cdef int32_t WHOLE = exact.WHOLE
cdef double TIME_S_MIN = exact.TIME_S_MIN
cdef double TIME_S_MAX = exact.TIME_S_MAX
cdef const char* HEX = "0123456789abcdef"

assert SKIP_DEPTH_MAX <= 64


cdef struct Node:
    int form
    int tag
    int width  # of a number in its column; 0 if the column has no numbers
    int info_max
    int is_signed
    uint64_t high
    int first_child
    int child_count
    int is_wanted
    int by_tag[TAG_COUNT]
    int32_t* name_table  # enum: place of the name of each low tag, or -1
    const uint8_t** names  # enum: the names; reference: that of the type, if it is fixed
    Py_ssize_t* name_sizes
    Py_ssize_t length
    Py_ssize_t capacity
    uint8_t* valid
    uint8_t* values
    int32_t* offsets
    uint8_t* data
    Py_ssize_t data_length
    Py_ssize_t data_capacity


class Spec:
    """One node as Python knows it."""

    def __init__(self, type_, tag):
        self.type = type_
        self.tag = tag
        self.children = []
        self.names = []
        self.numbers = {}


def decode(reader, payload, columns):
    """These columns of encoded objects, in this order."""
    cdef Walk walk = Walk(specs_of(reader), len(payload), frozenset(columns))
    walk.read(payload)
    schema = payload_schema(reader)
    places = {field.name: index + 1 for index, field in enumerate(reader.fields)}
    return [
        walk.unknown(schema.field(name).type)
        if name == UNKNOWN
        else walk.array(places[name], schema.field(name).type)
        for name in columns
    ]


@lru_cache(maxsize=256)
def specs_of(reader):
    """The nodes of a type: the children of each stand behind each other, the root is the first."""
    specs = [Spec(reader, 0)]
    for spec in specs:
        for type_, tag in parts_of(spec.type):
            spec.children.append(len(specs))
            specs.append(Spec(type_, tag))
        if isinstance(spec.type, EnumType):
            for element in spec.type.elements:
                # The first of two with one tag, as everywhere.
                spec.numbers.setdefault(element.tag, len(spec.names))
                spec.names.append(element.name.encode())
        elif isinstance(spec.type, RefType) and spec.type.target is not None:
            spec.names.append(spec.type.target.encode())
    return specs


def parts_of(type_):
    """The types inside one, with their tags. A plain string stands for a kind of its own."""
    if isinstance(type_, StructType):
        return [(field.type, field.tag) for field in type_.fields]
    if isinstance(type_, VectorType):
        return [(type_.element, 0)]
    if not isinstance(type_, int) and type_.kind in (Kind.ANY, Kind.REF):
        return [(TEXT, 0), (BYTES, 0)]
    return []


FORMS = {
    Kind.BOOL: BOOL,
    Kind.UINT64: DECIMAL,
    Kind.FLOAT16: HALF,
    Kind.FLOAT32: SINGLE,
    Kind.FLOAT64: DOUBLE,
    Kind.STRING: TEXT,
    Kind.BYTES: BYTES,
    Kind.UUID: UUID,
    Kind.TIMEPOINT: TIME,
    Kind.STEADY_TIMEPOINT: DOUBLE,
    Kind.DURATION: DOUBLE,
    Kind.ANY: ANY,
    Kind.REF: REF,
    Kind.ENUM: ENUM,
    Kind.STRUCT: STRUCT,
    Kind.VECTOR: LIST,
}
WIDTHS = {
    Kind.INT8: 1,
    Kind.INT16: 2,
    Kind.INT32: 4,
    Kind.INT64: 8,
    Kind.UINT8: 2,
    Kind.UINT16: 4,
    Kind.UINT32: 8,
    Kind.PROPERTY_SET: 8,
    Kind.UINT64: 16,
    Kind.FLOAT16: 4,
    Kind.FLOAT32: 4,
    Kind.FLOAT64: 8,
    Kind.TIMEPOINT: 8,
    Kind.STEADY_TIMEPOINT: 8,
    Kind.DURATION: 8,
}


# -- bytes


cdef inline Py_ssize_t read_argument(
    const uint8_t* data, Py_ssize_t pos, Py_ssize_t end, uint64_t* argument
) noexcept nogil:
    """The argument of the head at `pos`, and where the head ends; REFUSED if it is none."""
    cdef int info
    if pos >= end:
        return REFUSED
    info = data[pos] & 0x1F
    if info < 24:
        argument[0] = info
        return pos + 1
    if info == 24:
        if pos + 2 > end:
            return REFUSED
        argument[0] = data[pos + 1]
        return pos + 2
    if info == 25:
        if pos + 3 > end:
            return REFUSED
        argument[0] = (<uint64_t>data[pos + 1] << 8) | data[pos + 2]
        return pos + 3
    if info == 26:
        if pos + 5 > end:
            return REFUSED
        argument[0] = read_u32(data + pos + 1)
        return pos + 5
    if info == 27:
        if pos + 9 > end:
            return REFUSED
        argument[0] = read_u64(data + pos + 1)
        return pos + 9
    return REFUSED


cdef inline uint64_t read_u32(const uint8_t* data) noexcept nogil:
    return (
        (<uint64_t>data[0] << 24) | (<uint64_t>data[1] << 16) | (<uint64_t>data[2] << 8) | data[3]
    )


cdef inline uint64_t read_u64(const uint8_t* data) noexcept nogil:
    # In one expression, which compilers know as one load.
    return (
        (<uint64_t>data[0] << 56)
        | (<uint64_t>data[1] << 48)
        | (<uint64_t>data[2] << 40)
        | (<uint64_t>data[3] << 32)
        | (<uint64_t>data[4] << 24)
        | (<uint64_t>data[5] << 16)
        | (<uint64_t>data[6] << 8)
        | <uint64_t>data[7]
    )


cdef inline double read_f64(const uint8_t* data) noexcept nogil:
    cdef uint64_t bits = read_u64(data)
    cdef double value
    memcpy(&value, &bits, 8)
    return value


cdef inline float read_f32(const uint8_t* data) noexcept nogil:
    cdef uint32_t bits = <uint32_t>read_u32(data)
    cdef float value
    memcpy(&value, &bits, 4)
    return value


cdef inline float read_f16(const uint8_t* data) noexcept nogil:
    """A half: sign, five bits of exponent, ten of fraction."""
    cdef uint32_t half = (<uint32_t>data[0] << 8) | data[1]
    cdef uint32_t sign = (half & 0x8000) << 16
    cdef uint32_t exponent = (half >> 10) & 0x1F
    cdef uint32_t fraction = half & 0x3FF
    cdef uint32_t bits
    cdef float value
    if exponent == 0x1F:
        bits = sign | 0x7F800000 | (fraction << 13)
    elif exponent:
        bits = sign | ((exponent + 112) << 23) | (fraction << 13)
    else:
        # Smaller than the smallest normal one: so many steps of 2**-24.
        value = <float>fraction * <float>5.9604644775390625e-08
        return -value if sign else value
    memcpy(&value, &bits, 4)
    return value


cdef inline bint is_utf8(const uint8_t* text, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t i = 0
    cdef uint64_t eight
    cdef uint8_t first, second
    while i + 8 <= size:
        memcpy(&eight, text + i, 8)
        if eight & <uint64_t>0x8080808080808080:
            break
        i += 8
    while i < size:
        first = text[i]
        if first < 0x80:
            i += 1
            continue
        if first < 0xC2 or first > 0xF4 or i + 1 >= size:
            return False
        second = text[i + 1]
        if second & 0xC0 != 0x80:
            return False
        if first < 0xE0:
            i += 2
            continue
        if i + 2 >= size or text[i + 2] & 0xC0 != 0x80:
            return False
        if first < 0xF0:
            # Not in the shortest form, or half of a pair.
            if (first == 0xE0 and second < 0xA0) or (first == 0xED and second > 0x9F):
                return False
            i += 3
            continue
        if i + 3 >= size or text[i + 3] & 0xC0 != 0x80:
            return False
        if (first == 0xF0 and second < 0x90) or (first == 0xF4 and second > 0x8F):
            return False
        i += 4
    return True


cdef Py_ssize_t skip(const uint8_t* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    """Where the item at `pos` ends, whatever it is."""
    cdef uint64_t pending[64]
    cdef int depth = 0
    cdef uint64_t left = 1
    cdef uint64_t argument = 0
    cdef uint64_t inside
    cdef int major
    while True:
        while left == 0:
            if depth == 0:
                return pos
            depth -= 1
            left = pending[depth]
        left -= 1
        if pos >= end:
            return REFUSED
        major = data[pos] >> 5
        pos = read_argument(data, pos, end, &argument)
        if pos < 0:
            return REFUSED
        inside = 0
        if major == 2 or major == 3:
            if argument > <uint64_t>(end - pos):
                return REFUSED
            pos += <Py_ssize_t>argument
        elif major == 4 or major == 5:
            if argument > <uint64_t>(end - pos):
                return REFUSED
            inside = argument if major == 4 else argument * 2
        elif major == 6:
            inside = 1
        if inside:
            if depth >= SKIP_DEPTH_MAX:
                return REFUSED
            pending[depth] = left
            depth += 1
            left = inside


cdef Py_ssize_t skip_key(const uint8_t* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    """Where the canonical key at `pos` ends: only shortest heads pass."""
    cdef Py_ssize_t stop, before
    cdef uint64_t argument = 0
    cdef int first, major, size
    if pos >= end or data[pos] & 0xE0 != 0x80:
        return REFUSED
    stop = skip(data, pos, end)
    while 0 <= pos < stop:
        first = data[pos]
        major = first >> 5
        before = pos
        pos = read_argument(data, pos, stop, &argument)
        if pos < 0 or major == 6 or first == 0xF6:
            return REFUSED
        if argument < 24:
            size = 1
        elif argument < 0x100:
            size = 2
        elif argument < 0x10000:
            size = 3
        elif argument < <uint64_t>0x100000000:
            size = 5
        else:
            size = 9
        if major != 7 and size != pos - before:
            return REFUSED
        if major == 2 or major == 3:
            pos += <Py_ssize_t>argument
    return stop


# -- columns


cdef int grow(Node* node) except -1:
    """Room for more values than there are."""
    cdef Py_ssize_t capacity = max(64, node.capacity * 2)
    cdef Py_ssize_t size
    cdef void* place
    place = realloc(node.valid, (capacity + 7) // 8)
    if place == NULL:
        raise MemoryError
    node.valid = <uint8_t*>place
    size = (capacity + 7) // 8 if node.form == BOOL else capacity * node.width
    if size:
        place = realloc(node.values, size)
        if place == NULL:
            raise MemoryError
        node.values = <uint8_t*>place
    if has_offsets(node):
        place = realloc(node.offsets, (capacity + 1) * 4)
        if place == NULL:
            raise MemoryError
        node.offsets = <int32_t*>place
        node.offsets[0] = 0
    node.capacity = capacity
    return 0


cdef inline bint has_offsets(const Node* node) noexcept nogil:
    return node.form in (TEXT, BYTES, UUID, ENUM, LIST)


cdef inline int put_there(Node* node) except -1:
    """A value that is there; what it is follows."""
    if node.length == node.capacity:
        grow(node)
    node.valid[node.length >> 3] |= <uint8_t>(1 << (node.length & 7))
    return 0


cdef inline int put_bytes(Node* node, const uint8_t* start, Py_ssize_t size) except -1:
    """A string that is there."""
    cdef Py_ssize_t capacity
    cdef void* place
    put_there(node)
    if not node.is_wanted:
        size = 0
    if node.data_length + size > node.data_capacity:
        if node.data_length + size > 0x7FFFFFFF:
            raise OverflowError("more than two gigabytes of text in one batch")
        capacity = max(4096, node.data_capacity * 2, node.data_length + size)
        place = realloc(node.data, capacity)
        if place == NULL:
            raise MemoryError
        node.data = <uint8_t*>place
        node.data_capacity = capacity
    if size:
        memcpy(node.data + node.data_length, start, size)
    node.data_length += size
    node.length += 1
    node.offsets[node.length] = <int32_t>node.data_length
    return 0


cdef inline void clear_bit(Node* node) noexcept nogil:
    node.valid[node.length >> 3] &= <uint8_t>~(1 << (node.length & 7))


cdef class Walk:
    """The columns of one batch while they are being filled."""

    cdef Node* nodes
    cdef int node_count
    cdef list specs
    cdef Py_ssize_t row_count
    cdef const uint8_t* data
    cdef Py_ssize_t end
    cdef int64_t struct_count
    cdef bint is_exact
    cdef Node keys
    cdef Node rests
    cdef int32_t* unknown_offsets

    def __cinit__(self, list specs, Py_ssize_t row_count, wanted):
        cdef int index
        self.specs = specs
        self.row_count = row_count
        self.node_count = len(specs)
        self.nodes = <Node*>calloc(self.node_count, sizeof(Node))
        self.unknown_offsets = <int32_t*>calloc(row_count + 1, 4)
        if self.nodes == NULL or self.unknown_offsets == NULL:
            raise MemoryError
        self.keys.form = INTEGER
        self.keys.width = 4
        self.rests.form = BYTES
        self.rests.is_wanted = 1
        for index in range(self.node_count):
            self.lay_out(index, specs[index])
        names = [field.name for field in specs[0].type.fields]
        for index, name in zip(specs[0].children, names):
            self.want(index, name in wanted)
            # As many as rows, so that they never have to grow.
            self.nodes[index].capacity = (row_count + 1) // 2
            grow(&self.nodes[index])

    def __dealloc__(self):
        cdef int index
        if self.nodes != NULL:
            for index in range(self.node_count):
                release(&self.nodes[index])
            free(self.nodes)
        release(&self.keys)
        release(&self.rests)
        free(self.unknown_offsets)

    cdef int lay_out(self, int index, spec) except -1:
        cdef Node* node = &self.nodes[index]
        cdef int place
        node.tag = spec.tag
        node.first_child = spec.children[0] if spec.children else 0
        node.child_count = len(spec.children)
        for place in range(TAG_COUNT):
            node.by_tag[place] = -1
        for child in spec.children:
            node.by_tag[self.specs[child].tag] = child
        if isinstance(spec.type, int):
            node.form = spec.type
            return 0
        kind = spec.type.kind
        node.width = WIDTHS.get(kind, 0)
        node.form = FORMS.get(kind, INTEGER)
        if kind in INTEGER_RANGES:
            low, high = INTEGER_RANGES[kind]
            node.is_signed = low < 0
            node.high = high
            node.info_max = {8: 24, 16: 25, 32: 26, 64: 27}[(high - low).bit_length()]
        if spec.names:
            self.lay_out_names(node, spec.names)
        if node.form == ENUM:
            node.name_table = <int32_t*>malloc(NAME_TABLE_SIZE * 4)
            if node.name_table == NULL:
                raise MemoryError
            memset(node.name_table, 0xFF, NAME_TABLE_SIZE * 4)
            for tag, place in spec.numbers.items():
                if tag < NAME_TABLE_SIZE:
                    node.name_table[tag] = place
        return 0

    cdef int lay_out_names(self, Node* node, list names) except -1:
        cdef Py_ssize_t place
        node.names = <const uint8_t**>malloc(len(names) * sizeof(void*))
        node.name_sizes = <Py_ssize_t*>malloc(len(names) * sizeof(Py_ssize_t))
        if node.names == NULL or node.name_sizes == NULL:
            raise MemoryError
        for place in range(len(names)):
            # The bytes stay where they are: the specs hold them.
            node.names[place] = <const uint8_t*>PyBytes_AS_STRING(names[place])
            node.name_sizes[place] = PyBytes_GET_SIZE(names[place])
        return 0

    cdef void want(self, int index, bint is_wanted) noexcept:
        cdef int child
        cdef Node* node = &self.nodes[index]
        node.is_wanted = is_wanted
        for child in range(node.first_child, node.first_child + node.child_count):
            self.want(child, is_wanted)

    def read(self, payload):
        """All rows."""
        cdef Py_ssize_t row
        cdef const int32_t* places
        cdef Py_ssize_t first = payload.offset
        cdef Py_ssize_t size
        if not self.row_count:
            return
        _, offsets, data = payload.buffers()
        if offsets.size < (first + self.row_count + 1) * 4:
            raise ValueError("the offsets of the payloads are too short")
        places = <const int32_t*><size_t>offsets.address + first
        size = 0 if data is None else data.size
        if data is not None:
            self.data = <const uint8_t*><size_t>data.address
        for row in range(self.row_count):
            if not 0 <= places[row] <= places[row + 1] <= size:
                raise ValueError("the offsets of the payloads lead elsewhere")
            self.row(row, places[row], places[row + 1])
            self.unknown_offsets[row + 1] = <int32_t>self.keys.length

    cdef int row(self, Py_ssize_t row, Py_ssize_t start, Py_ssize_t end) except -1:
        cdef Node* root = &self.nodes[0]
        cdef int child
        cdef Py_ssize_t pos
        if start >= end:
            self.nothing(row)
            return 0
        self.end = end
        self.struct_count = 1
        pos = self.fields(root, start, row)
        if pos != end:
            self.take_back(row)
            self.nothing(row)
            self.keep(WHOLE, start, end)
        return 0

    cdef int nothing(self, Py_ssize_t row) except -1:
        cdef int child
        for child in range(1, 1 + self.nodes[0].child_count):
            self.put_null(child)
        return 0

    cdef int take_back(self, Py_ssize_t row) except -1:
        """Undo what the row has written."""
        cdef int child
        cdef Py_ssize_t kept = self.unknown_offsets[row]
        for child in range(1, 1 + self.nodes[0].child_count):
            self.shorten(child, row)
        self.keys.length = kept
        if self.rests.length > kept:
            self.rests.length = kept
            self.rests.data_length = self.rests.offsets[kept]
        return 0

    cdef void shorten(self, int index, Py_ssize_t length) noexcept:
        cdef Node* node = &self.nodes[index]
        cdef int child
        if node.form == LIST:
            # Elements of a vector that was not finished are there before the vector is.
            self.shorten(node.first_child, node.offsets[length] if node.offsets != NULL else 0)
        elif node.offsets != NULL:
            node.data_length = node.offsets[length]
        else:
            for child in range(node.first_child, node.first_child + node.child_count):
                self.shorten(child, length)
        node.length = length

    cdef int keep(self, int32_t tag, Py_ssize_t start, Py_ssize_t stop) except -1:
        """Bytes that the columns do not tell."""
        put_there(&self.keys)
        (<int32_t*>self.keys.values)[self.keys.length] = tag
        self.keys.length += 1
        put_bytes(&self.rests, self.data + start, stop - start)
        return 0

    cdef int put_null(self, int index) except -1:
        cdef Node* node = &self.nodes[index]
        cdef int child
        if node.length == node.capacity:
            grow(node)
        clear_bit(node)
        if node.form == LIST:
            node.offsets[node.length + 1] = node.offsets[node.length]
        elif has_offsets(node):
            node.offsets[node.length + 1] = <int32_t>node.data_length
        elif node.width:
            memset(node.values + node.length * node.width, 0, node.width)
        elif node.form == BOOL:
            node.values[node.length >> 3] &= <uint8_t>~(1 << (node.length & 7))
        else:
            for child in range(node.first_child, node.first_child + node.child_count):
                self.put_null(child)
        node.length += 1
        return 0

    # -- structs

    cdef Py_ssize_t fields(self, Node* root, Py_ssize_t pos, Py_ssize_t row) except -2:
        """The entries of a row's own map; each that is not told wholly is kept."""
        cdef uint64_t count = 0
        cdef uint64_t tag = 0
        cdef uint32_t seen = 0
        cdef Py_ssize_t start, earlier
        cdef int child
        if self.data[pos] >> 5 != 5:
            return REFUSED
        pos = read_argument(self.data, pos, self.end, &count)
        if pos < 0 or count > ENTRY_COUNT_MAX or count > <uint64_t>(self.end - pos):
            return REFUSED
        while count:
            count -= 1
            if pos >= self.end or self.data[pos] >> 5 != 0:
                return REFUSED
            pos = read_argument(self.data, pos, self.end, &tag)
            if pos < 0 or tag > UNKNOWN_TAG_MAX:
                return REFUSED
            start = pos
            self.is_exact = True
            child = root.by_tag[tag] if tag < TAG_COUNT else -1
            if child >= 0:
                if seen >> tag & 1:
                    return REFUSED
                seen |= <uint32_t>1 << tag
                pos = self.value(child, pos)
            else:
                for earlier in range(self.unknown_offsets[row], self.keys.length):
                    if (<int32_t*>self.keys.values)[earlier] == <int32_t>tag:
                        return REFUSED
                pos = skip(self.data, pos, self.end)
                self.is_exact = False
            if pos < 0:
                return REFUSED
            if not self.is_exact:
                if tag == <uint64_t>WHOLE:
                    return REFUSED
                self.keep(<int32_t>tag, start, pos)
        for child in range(1, 1 + root.child_count):
            if not seen >> self.nodes[child].tag & 1:
                self.put_null(child)
        return pos

    cdef Py_ssize_t struct(self, int index, Py_ssize_t pos) except -2:
        cdef Node* node = &self.nodes[index]
        cdef uint64_t count = 0
        cdef uint64_t tag = 0
        cdef uint32_t seen = 0
        cdef int child
        self.struct_count += 1
        if self.struct_count > STRUCT_COUNT_MAX or self.data[pos] >> 5 != 5:
            return REFUSED
        pos = read_argument(self.data, pos, self.end, &count)
        if pos < 0 or count > ENTRY_COUNT_MAX or count > <uint64_t>(self.end - pos):
            return REFUSED
        while count:
            count -= 1
            if pos >= self.end or self.data[pos] >> 5 != 0:
                return REFUSED
            pos = read_argument(self.data, pos, self.end, &tag)
            if pos < 0 or tag > UNKNOWN_TAG_MAX:
                return REFUSED
            child = node.by_tag[tag] if tag < TAG_COUNT else -1
            if child >= 0:
                if seen >> tag & 1:
                    return REFUSED
                seen |= <uint32_t>1 << tag
                pos = self.value(child, pos)
            else:
                pos = skip(self.data, pos, self.end)
                self.is_exact = False
            if pos < 0:
                return REFUSED
        for child in range(node.first_child, node.first_child + node.child_count):
            if not seen >> self.nodes[child].tag & 1:
                self.put_null(child)
        put_there(node)
        node.length += 1
        return pos

    # -- values

    cdef Py_ssize_t value(self, int index, Py_ssize_t pos) except -2:
        """Read the value at `pos` into a column; where it ends."""
        cdef Node* node = &self.nodes[index]
        cdef uint64_t argument = 0
        cdef int first
        cdef int form = node.form
        cdef double seconds = 0
        cdef int64_t number
        if pos >= self.end:
            return REFUSED
        first = self.data[pos]
        if form == INTEGER or form == DECIMAL:
            if first & 0x1F > node.info_max or first >> 5 > node.is_signed:
                return REFUSED
            pos = read_argument(self.data, pos, self.end, &argument)
            if pos < 0 or argument > node.high:
                return REFUSED
            put_there(node)
            number = <int64_t>argument
            if first >= 0x20:
                number = -1 - number
            if node.width == 8:
                (<int64_t*>node.values)[node.length] = number
            elif node.width == 4:
                (<int32_t*>node.values)[node.length] = <int32_t>number
            elif node.width == 2:
                (<int16_t*>node.values)[node.length] = <int16_t>number
            elif node.width == 1:
                (<int8_t*>node.values)[node.length] = <int8_t>number
            else:
                (<uint64_t*>node.values)[2 * node.length] = argument
                (<uint64_t*>node.values)[2 * node.length + 1] = 0
            node.length += 1
            return pos
        if HALF <= form <= TIME:
            pos = self.floating(form, pos, &seconds)
            if pos < 0:
                return REFUSED
            if form == TIME:
                if not (TIME_S_MIN <= seconds <= TIME_S_MAX):
                    self.is_exact = False
                    self.put_null(index)
                    return pos
                put_there(node)
                (<int64_t*>node.values)[node.length] = <int64_t>rint(seconds * 1e6)
            elif form == DOUBLE:
                put_there(node)
                (<double*>node.values)[node.length] = seconds
            else:
                put_there(node)
                (<float*>node.values)[node.length] = <float>seconds
            node.length += 1
            return pos
        if form == TEXT:
            return self.text(node, pos)
        if form == ENUM:
            return self.enumerated(index, pos)
        if form == BOOL:
            if first != 0xF4 and first != 0xF5:
                return REFUSED
            put_there(node)
            if first == 0xF5:
                node.values[node.length >> 3] |= <uint8_t>(1 << (node.length & 7))
            else:
                node.values[node.length >> 3] &= <uint8_t>~(1 << (node.length & 7))
            node.length += 1
            return pos + 1
        if form == STRUCT:
            return self.struct(index, pos)
        if form == LIST:
            return self.vector(index, pos)
        if form == BYTES or form == UUID:
            return self.blob(node, pos)
        return self.pair(index, pos)

    cdef inline Py_ssize_t floating(self, int form, Py_ssize_t pos, double* value) noexcept:
        cdef int first = self.data[pos]
        if first == 0xFB and form >= DOUBLE:
            if pos + 9 > self.end:
                return REFUSED
            value[0] = read_f64(self.data + pos + 1)
            return pos + 9
        if first == 0xFA and form != HALF:
            if pos + 5 > self.end:
                return REFUSED
            value[0] = read_f32(self.data + pos + 1)
            return pos + 5
        if first == 0xF9:
            if pos + 3 > self.end:
                return REFUSED
            value[0] = read_f16(self.data + pos + 1)
            return pos + 3
        return REFUSED

    cdef inline Py_ssize_t span(self, int major, Py_ssize_t pos, uint64_t* size) noexcept:
        """Where the content of a string begins, and how long it is."""
        if pos >= self.end or self.data[pos] >> 5 != major:
            return REFUSED
        pos = read_argument(self.data, pos, self.end, size)
        if pos < 0 or size[0] > <uint64_t>(self.end - pos):
            return REFUSED
        return pos

    cdef Py_ssize_t text(self, Node* node, Py_ssize_t pos) except -2:
        cdef uint64_t size = 0
        pos = self.span(3, pos, &size)
        if pos < 0:
            return REFUSED
        if is_utf8(self.data + pos, <Py_ssize_t>size):
            put_bytes(node, self.data + pos, <Py_ssize_t>size)
        else:
            self.is_exact = False
            self.put_python(
                node,
                PyUnicode_DecodeUTF8(
                    <const char*>self.data + pos, <Py_ssize_t>size, "replace"
                ).encode(),
            )
        return pos + <Py_ssize_t>size

    cdef int put_python(self, Node* node, bytes text) except -1:
        put_bytes(node, <const uint8_t*>PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))
        return 0

    cdef Py_ssize_t blob(self, Node* node, Py_ssize_t pos) except -2:
        cdef uint64_t size = 0
        cdef uint8_t text[36]
        cdef int i, place
        pos = self.span(2, pos, &size)
        if pos < 0:
            return REFUSED
        if node.form == BYTES:
            put_bytes(node, self.data + pos, <Py_ssize_t>size)
            return pos + <Py_ssize_t>size
        if size != 16:
            return REFUSED
        place = 0
        for i in range(16):
            if i == 4 or i == 6 or i == 8 or i == 10:
                text[place] = c"-"
                place += 1
            text[place] = HEX[self.data[pos + i] >> 4]
            text[place + 1] = HEX[self.data[pos + i] & 15]
            place += 2
        put_bytes(node, text, 36)
        return pos + 16

    cdef Py_ssize_t enumerated(self, int index, Py_ssize_t pos) except -2:
        cdef Node* node = &self.nodes[index]
        cdef uint64_t tag = 0
        cdef int place
        if self.data[pos] >> 5 != 0:
            return REFUSED
        pos = read_argument(self.data, pos, self.end, &tag)
        if pos < 0:
            return REFUSED
        if tag < NAME_TABLE_SIZE:
            place = node.name_table[tag]
        else:
            place = self.specs[index].numbers.get(tag, -1)
        if place >= 0:
            put_bytes(node, node.names[place], node.name_sizes[place])
        else:
            self.put_python(node, str(tag).encode())
        return pos

    cdef Py_ssize_t vector(self, int index, Py_ssize_t pos) except -2:
        cdef Node* node = &self.nodes[index]
        cdef uint64_t count = 0
        if self.data[pos] >> 5 != 4:
            return REFUSED
        pos = read_argument(self.data, pos, self.end, &count)
        if pos < 0 or count > VECTOR_COUNT_MAX or count > <uint64_t>(self.end - pos):
            return REFUSED
        while count:
            count -= 1
            pos = self.value(node.first_child, pos)
            if pos < 0:
                return REFUSED
        put_there(node)
        node.length += 1
        node.offsets[node.length] = <int32_t>self.nodes[node.first_child].length
        return pos

    cdef Py_ssize_t pair(self, int index, Py_ssize_t pos) except -2:
        """A name of a type, and an object or a key of it."""
        cdef Node* node = &self.nodes[index]
        cdef Node* name = &self.nodes[node.first_child]
        cdef Node* content = &self.nodes[node.first_child + 1]
        cdef Py_ssize_t start
        if node.names != NULL:
            put_bytes(name, node.names[0], node.name_sizes[0])
        else:
            if self.data[pos] != 0x82:
                return REFUSED
            pos = self.text(name, pos + 1)
            if pos < 0:
                return REFUSED
        if node.form == ANY:
            pos = self.blob(content, pos)
        else:
            start = pos
            pos = skip_key(self.data, pos, self.end)
            if pos >= 0:
                put_bytes(content, self.data + start, pos - start)
        if pos < 0:
            return REFUSED
        put_there(node)
        node.length += 1
        return pos

    # -- arrays

    def array(self, int index, type_):
        """The column of a node."""
        cdef Node* node = &self.nodes[index]
        cdef Py_ssize_t count = node.length
        buffers = [validity(node)]
        children = None
        if node.form == LIST:
            buffers.append(offsets_of(node))
            children = [self.array(node.first_child, type_.value_type)]
        elif has_offsets(node):
            buffers += [offsets_of(node), buffer_of(node.data, node.data_length)]
        elif node.form == BOOL:
            buffers.append(buffer_of(node.values, (count + 7) // 8))
        elif node.width:
            buffers.append(buffer_of(node.values, count * node.width))
        else:
            children = [
                self.array(child, type_.field(child - node.first_child).type)
                for child in range(node.first_child, node.first_child + node.child_count)
            ]
        return pa.Array.from_buffers(type_, count, buffers, children=children)

    def unknown(self, type_):
        """What the columns do not tell; null for rows of which they tell all."""
        if not self.keys.length:
            return pa.nulls(self.row_count, type_)
        keys = pa.Array.from_buffers(
            pa.int32(),
            self.keys.length,
            [None, buffer_of(self.keys.values, self.keys.length * 4)],
        )
        values = pa.Array.from_buffers(
            pa.binary(),
            self.rests.length,
            [None, offsets_of(&self.rests), buffer_of(self.rests.data, self.rests.data_length)],
        )
        fields = [type_.key_field, type_.item_field]
        entries = pa.StructArray.from_arrays([keys, values], fields=fields)
        places = buffer_of(<uint8_t*>self.unknown_offsets, (self.row_count + 1) * 4)
        bits = bytearray((self.row_count + 7) // 8)
        cdef Py_ssize_t row
        for row in range(self.row_count):
            if self.unknown_offsets[row + 1] > self.unknown_offsets[row]:
                bits[row >> 3] |= 1 << (row & 7)
        return pa.Array.from_buffers(
            type_, self.row_count, [pa.py_buffer(bytes(bits)), places], children=[entries]
        )


cdef void release(Node* node) noexcept:
    free(node.valid)
    free(node.values)
    free(node.offsets)
    free(node.data)
    free(node.name_table)
    free(node.names)
    free(node.name_sizes)


cdef object buffer_of(const uint8_t* start, Py_ssize_t size):
    return pa.py_buffer(PyBytes_FromStringAndSize(<const char*>start, size) if size else b"")


cdef object offsets_of(const Node* node):
    if node.offsets == NULL:
        return pa.py_buffer(b"\0\0\0\0")
    return buffer_of(<const uint8_t*>node.offsets, (node.length + 1) * 4)


cdef object validity(const Node* node):
    """The bits of what is there; None if all is."""
    cdef Py_ssize_t index
    cdef Py_ssize_t whole = node.length >> 3
    cdef int rest = node.length & 7
    cdef uint8_t last
    for index in range(whole):
        if node.valid[index] != 0xFF:
            break
    else:
        last = <uint8_t>((1 << rest) - 1)
        if not rest or node.valid[whole] & last == last:
            return None
    return buffer_of(node.valid, (node.length + 7) // 8)
