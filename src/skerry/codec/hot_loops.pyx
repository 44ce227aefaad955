# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, annotation_typing=False, binding=False
# cython: embedsignature=True, embedsignature.format=clinic
"""The classes of `codec.uncompiled`, reading and writing the fields of objects in memory.

This code handles the usual case only. All other cases are left to `encoder`, `decoder` and `pieces`,
which handle them or raise the error, so the rules exist once. A function that does not handle a case
returns NULL, 0 or -1 and sets no Python error. The bounds are checked before any bytes are read.
"""

import time

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.exc cimport PyErr_Clear, PyErr_Occurred
from cpython.object cimport PyObject
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.math cimport isinf, isnan
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcmp, memcpy
from posix.time cimport CLOCK_REALTIME, clock_gettime, timespec

from skerry.codec import decoder, encoder, pieces
from skerry.codec.operation import Operation
from skerry.errors import CodecError, DecodeError
from skerry.limits import (
    HEADER_MEMO_BYTES_MAX,
    HEADER_MEMO_COUNT_MAX,
    PAYLOAD_BYTES_MAX,
    STRUCT_COUNT_MAX,
    VECTOR_COUNT_MAX,
)

__all__ = [
    "AlikeFrames",
    "ReceivedUpdate",
    "DeliveredHeader",
    "ForwardedHeader",
    "Frames",
    "RouteVersion",
    "KnownHeaders",
    "KnownHeader",
    "StructLayout",
    "ObjectState",
    "PublishPath",
    "FrameRelay",
    "FrameDelivery",
    "Template",
    "WaitingFrames",
]

# Functions of Python, declared with bare pointers where Cython's declarations count references or
# raise. Both are done explicitly here, because a call that fails is followed by another attempt.
cdef extern from "Python.h":
    ctypedef struct RawType "PyTypeObject":
        PyObject* (*tp_new)(RawType*, PyObject*, PyObject*)
    RawType PyBaseObject_Type
    RawType PyMemberDescr_Type
    RawType* Py_TYPE(PyObject*)
    bint PyType_IsSubtype(RawType*, RawType*)
    RawType* PyDescr_TYPE(void*)
    Py_ssize_t Py_REFCNT(PyObject*)
    void Py_INCREF(PyObject*)
    void Py_DECREF(PyObject*)
    void Py_XDECREF(PyObject*)
    PyObject* Py_None
    PyObject* Py_True
    PyObject* Py_False
    PyObject* PyObject_CallOneArg(PyObject*, PyObject*)
    ctypedef struct FloatObject "PyFloatObject":
        double ob_fval
    bint PyFloat_Check(PyObject*)
    bint PyFloat_CheckExact(PyObject*)
    double PyFloat_AS_DOUBLE(PyObject*)
    PyObject* PyFloat_FromDouble(double)
    bint PyLong_CheckExact(PyObject*)
    unsigned long long PyLong_AsUnsignedLongLong(PyObject*)
    long long PyLong_AsLongLong(PyObject*)
    PyObject* PyLong_FromUnsignedLongLong(unsigned long long)
    PyObject* PyLong_FromLongLong(long long)
    bint PyUnicode_Check(PyObject*)
    const char* Text_AsUtf8 "PyUnicode_AsUTF8AndSize"(PyObject*, Py_ssize_t*)
    PyObject* PyUnicode_DecodeUTF8(const char*, Py_ssize_t, const char*)
    bint PyBytes_Check(PyObject*)
    PyObject* Bytes_New "PyBytes_FromStringAndSize"(const char*, Py_ssize_t)
    char* Bytes_At "PyBytes_AS_STRING"(PyObject*)
    Py_ssize_t Bytes_Size "PyBytes_GET_SIZE"(PyObject*)
    bint PyList_CheckExact(PyObject*)
    PyObject* Dict_Get "PyDict_GetItem"(PyObject*, PyObject*)
    PyObject* List_New "PyList_New"(Py_ssize_t)
    Py_ssize_t List_Size "PyList_GET_SIZE"(PyObject*)
    PyObject* List_At "PyList_GET_ITEM"(PyObject*, Py_ssize_t)
    void List_Set "PyList_SET_ITEM"(PyObject*, Py_ssize_t, PyObject*)

cdef extern from "structmember.h":
    ctypedef struct Member "PyMemberDef":
        int type
        Py_ssize_t offset
        int flags
    ctypedef struct MemberDescriptor "PyMemberDescrObject":
        Member* d_member
    int T_OBJECT_EX
    int READONLY

cdef enum:
    BOOL = 1
    INT8 = 2
    UINT8 = 6
    UINT64 = 9
    FLOAT32 = 11
    FLOAT64 = 12
    STRING = 13
    BYTES = 14
    TIMEPOINT = 16
    DURATION = 18
    ENUM = 22
    STRUCT = 23
    VECTOR = 24

cdef enum:
    FIELD_COUNT_MAX = 32
    # Space for a tag and a number, or for a tag and the head of a longer value.
    VALUE_BYTES = 12
    PREFIX_BYTES = 5
    ENUM_TAG_COUNT = 64

cdef Py_ssize_t _payload_bytes_max = PAYLOAD_BYTES_MAX
cdef Py_ssize_t _struct_count_max = STRUCT_COUNT_MAX
cdef Py_ssize_t _vector_count_max = VECTOR_COUNT_MAX
cdef object _NOTHING = ()
cdef object CREATE = Operation.CREATE
cdef object UPDATE = Operation.UPDATE
cdef Py_ssize_t _BARE_BYTES = object.__basicsize__


# -- bytes and numbers


cdef inline uint64_t _load(const uint8_t* p, int width) noexcept nogil:
    cdef uint64_t value = 0
    cdef int index
    for index in range(width):
        value = (value << 8) | p[index]
    return value


cdef inline double _load_double(const uint8_t* p) noexcept nogil:
    cdef uint64_t bits = _load(p, 8)
    cdef double value
    memcpy(&value, &bits, 8)
    return value


cdef inline void _store(uint8_t* p, uint64_t value, int width) noexcept nogil:
    cdef int index
    for index in range(width):
        p[index] = <uint8_t>(value >> (8 * (width - 1 - index)))


cdef inline void _store_double(uint8_t* p, double value) noexcept nogil:
    cdef uint64_t bits
    memcpy(&bits, &value, 8)
    _store(p, bits, 8)


cdef inline Py_ssize_t _head(
    const uint8_t* p, Py_ssize_t at, Py_ssize_t end, uint64_t* argument
) noexcept nogil:
    """The end of the head at `at`; -1 if it is not valid or does not end before `end`."""
    cdef int info = p[at] & 0x1F
    cdef int width
    if info < 24:
        argument[0] = info
        return at + 1
    if info > 27:
        return -1
    width = 1 << (info - 24)
    if at + 1 + width > end:
        return -1
    argument[0] = _load(p + at + 1, width)
    return at + 1 + width


cdef inline Py_ssize_t _head_size(uint64_t argument) noexcept nogil:
    if argument < 24:
        return 1
    if argument < 0x100:
        return 2
    if argument < 0x10000:
        return 3
    if argument < 0x100000000ULL:
        return 5
    return 9


cdef inline uint8_t* _put_head(uint8_t* p, int major, uint64_t argument) noexcept nogil:
    """Write the shortest head and return its end."""
    if argument < 24:
        p[0] = <uint8_t>(major | argument)
        return p + 1
    if argument < 0x100:
        p[0] = <uint8_t>(major | 24)
        p[1] = <uint8_t>argument
        return p + 2
    if argument < 0x10000:
        p[0] = <uint8_t>(major | 25)
        _store(p + 1, argument, 2)
        return p + 3
    if argument < 0x100000000ULL:
        p[0] = <uint8_t>(major | 26)
        _store(p + 1, argument, 4)
        return p + 5
    p[0] = <uint8_t>(major | 27)
    _store(p + 1, argument, 8)
    return p + 9


# -- values


@cython.final
cdef class _Value:
    """The encoding of one value."""

    cdef int kind
    cdef int info_max
    # Signed numbers: values below it are in range, and so are as many below zero.
    cdef uint64_t limit
    cdef PyObject* members[ENUM_TAG_COUNT]
    """Enums: the member for each tag, a borrowed reference of the plan."""
    cdef object plan
    cdef StructLayout nested
    cdef _Value element
    # The previous text, which is reused: names of states, of units and the like repeat.
    cdef object last_text
    cdef const char* last_data
    cdef Py_ssize_t last_size
    # Whether this code handles the kind.
    cdef bint is_known
    # The most frequent kinds: whether it is a float of 8 bytes, an unsigned number, or a text.
    cdef bint is_double
    cdef bint is_count
    cdef bint is_text
    cdef int size_max

    def __init__(self, plan):
        cdef int kind = plan.kind
        self.plan = plan
        self.kind = kind
        self.info_max = plan.info_max
        self.limit = 0
        self.last_size = -1
        self.is_known = True
        self.is_double = kind == FLOAT64 or TIMEPOINT <= kind <= DURATION
        self.is_count = UINT8 <= kind <= UINT64
        self.is_text = kind == STRING
        self.size_max = 1 + (1 << (self.info_max - 24))
        if INT8 <= kind < UINT8:
            self.limit = plan.high + 1
        elif UINT8 <= kind <= UINT64 or kind in (BOOL, FLOAT32, FLOAT64, STRING, BYTES):
            pass
        elif TIMEPOINT <= kind <= DURATION:
            pass
        elif kind == ENUM:
            for tag, member in plan.members.items():
                if 0 <= tag < ENUM_TAG_COUNT:
                    self.members[<int>tag] = <PyObject*>member
        elif kind == STRUCT:
            if plan.struct.layout is None:
                plan.struct.layout = StructLayout(plan.struct)
            self.nested = plan.struct.layout
            self.is_known = self.nested.is_known
        elif kind == VECTOR:
            self.element = _Value(plan.element)
            self.is_known = self.element.is_known
        else:
            self.is_known = False

    cdef PyObject* read_text(self, const uint8_t* p, Py_ssize_t size) noexcept:
        """The text of these bytes, whose bounds were checked."""
        cdef PyObject* text
        if size == self.last_size and memcmp(p, self.last_data, size) == 0:
            text = <PyObject*>self.last_text
            Py_INCREF(text)
            return text
        text = PyUnicode_DecodeUTF8(<const char*>p, size, NULL)
        if text == NULL:
            PyErr_Clear()
        elif size <= 64:
            self.last_text = <object>text
            self.last_data = Text_AsUtf8(text, &self.last_size)
            if self.last_data == NULL:
                PyErr_Clear()
                self.last_size = -1
        return text

    cdef PyObject* read(self, const uint8_t* p, Py_ssize_t* place, Py_ssize_t end) noexcept:
        """The value at an offset, which is moved to its end; NULL in unusual cases."""
        cdef Py_ssize_t at = place[0]
        cdef Py_ssize_t after
        cdef uint64_t argument = 0
        cdef int first, kind = self.kind
        cdef uint32_t bits
        cdef float single
        cdef PyObject* found = NULL
        if at >= end:
            return NULL
        first = p[at]
        if self.is_double:
            if first == 0xFB and at + 9 <= end:
                place[0] = at + 9
                found = PyFloat_FromDouble(_load_double(p + at + 1))
        elif kind == FLOAT32:
            if first == 0xFA and at + 5 <= end:
                bits = <uint32_t>_load(p + at + 1, 4)
                memcpy(&single, &bits, 4)
                place[0] = at + 5
                found = PyFloat_FromDouble(single)
        elif kind == BOOL:
            if first == 0xF4 or first == 0xF5:
                place[0] = at + 1
                found = Py_True if first == 0xF5 else Py_False
                Py_INCREF(found)
        elif kind == STRUCT:
            return self.nested.read(p, place, end)
        else:
            after = _head(p, at, end, &argument)
            if after < 0:
                return NULL
            if kind == STRING or kind == BYTES:
                if first >> 5 != (3 if kind == STRING else 2) or argument > <uint64_t>(end - after):
                    return NULL
                place[0] = after + <Py_ssize_t>argument
                if kind == STRING:
                    return self.read_text(p + after, <Py_ssize_t>argument)
                found = Bytes_New(<const char*>p + after, <Py_ssize_t>argument)
            elif kind == ENUM:
                if first >> 5 == 0 and argument < ENUM_TAG_COUNT:
                    place[0] = after
                    found = self.members[argument]
                    if found != NULL:
                        Py_INCREF(found)
            elif kind == VECTOR:
                if first >> 5 == 4:
                    place[0] = after
                    return self.read_vector(p, place, end, argument)
            elif first & 0x1F > self.info_max:
                pass
            elif self.limit == 0:
                if first >> 5 == 0:
                    place[0] = after
                    found = PyLong_FromUnsignedLongLong(argument)
            elif first >> 5 <= 1 and argument < self.limit:
                place[0] = after
                found = PyLong_FromLongLong(
                    <int64_t>argument if first < 0x20 else -1 - <int64_t>argument
                )
        if found == NULL:
            PyErr_Clear()
        return found

    cdef PyObject* read_vector(
        self, const uint8_t* p, Py_ssize_t* place, Py_ssize_t end, uint64_t count
    ) noexcept:
        cdef PyObject* items
        cdef PyObject* item
        cdef Py_ssize_t index
        # Each takes at least a byte: a count past the end is rejected before memory is allocated.
        if count > <uint64_t>(end - place[0]) or count > <uint64_t>_vector_count_max:
            return NULL
        items = List_New(<Py_ssize_t>count)
        if items == NULL:
            PyErr_Clear()
            return NULL
        for index in range(<Py_ssize_t>count):
            item = self.element.read(p, place, end)
            if item == NULL:
                Py_DECREF(items)
                return NULL
            List_Set(items, index, item)
        return items

    cdef inline Py_ssize_t check(self, const uint8_t* p, Py_ssize_t at, Py_ssize_t end) noexcept:
        """The end of the value at an offset; -1 if it is incomplete or not in canonical form."""
        cdef Py_ssize_t after
        cdef uint64_t argument = 0
        if self.is_double:
            return at + 9 if at + 9 <= end and p[at] == 0xFB else -1
        if at >= end:
            return -1
        if not self.is_count:
            if self.is_text and 0x60 <= p[at] < 0x78:
                at += 1 + p[at] - 0x60
                return at if at <= end else -1
            return self.check_other(p, at, end)
        if p[at] < 24:
            return at + 1
        if p[at] & 0x1F > self.info_max or p[at] >= 0x20:
            return -1
        after = _head(p, at, end, &argument)
        return after if after - at == _head_size(argument) else -1

    cdef Py_ssize_t check_other(self, const uint8_t* p, Py_ssize_t at, Py_ssize_t end) noexcept:
        cdef Py_ssize_t after
        cdef uint64_t argument = 0
        cdef int first = p[at]
        cdef int kind = self.kind
        if kind == FLOAT32:
            return at + 5 if first == 0xFA and at + 5 <= end else -1
        if kind == BOOL:
            return at + 1 if first == 0xF4 or first == 0xF5 else -1
        if kind == STRUCT:
            return -1 if self.nested.present(p, &at, end) < 0 else at
        after = _head(p, at, end, &argument)
        if after < 0 or after - at != _head_size(argument):
            return -1
        if kind == STRING or kind == BYTES:
            if first >> 5 != (3 if kind == STRING else 2) or argument > <uint64_t>(end - after):
                return -1
            return after + <Py_ssize_t>argument
        if kind == ENUM:
            if first >> 5 or argument >= ENUM_TAG_COUNT or self.members[argument] == NULL:
                return -1
            return after
        if kind == VECTOR:
            if first >> 5 != 4 or argument > <uint64_t>(end - after):
                return -1
            if argument > <uint64_t>_vector_count_max:
                return -1
            while argument > 0 and after >= 0:
                argument -= 1
                after = self.element.check(p, after, end)
            return after
        if first & 0x1F > self.info_max:
            return -1
        return after if first >> 5 <= 1 and argument < self.limit else -1

    cdef inline int write(self, Frames out, PyObject* value) except -1:
        """Append a value; 0 in unusual cases, after which the appended bytes are undefined."""
        cdef uint8_t* p
        cdef uint64_t argument
        if not self.is_double and not self.is_count:
            return self.write_other(out, value)
        out.reserve(VALUE_BYTES)
        p = out.data + out.size
        if self.is_double:
            if not PyFloat_Check(value):
                return 0
            p[0] = 0xFB
            _store_double(p + 1, PyFloat_AS_DOUBLE(value))
            out.size += 9
            return 1
        if not PyLong_CheckExact(value):
            return 0
        argument = PyLong_AsUnsignedLongLong(value)
        if argument == <uint64_t>-1 and PyErr_Occurred() != NULL:
            PyErr_Clear()
            return 0
        if _head_size(argument) > self.size_max:
            return 0
        out.size = _put_head(p, 0x00, argument) - out.data
        return 1

    cdef int write_other(self, Frames out, PyObject* value) except -1:
        cdef uint8_t* p
        cdef Py_ssize_t size = 0
        cdef Py_ssize_t index
        cdef uint64_t argument
        cdef int64_t number
        cdef int kind = self.kind
        cdef const char* data
        cdef float single
        cdef uint32_t bits
        out.reserve(VALUE_BYTES)
        p = out.data + out.size
        if kind == FLOAT32:
            if not PyFloat_Check(value):
                return 0
            single = <float>PyFloat_AS_DOUBLE(value)
            # Numbers out of range and NaN have special rules.
            if isinf(single) or isnan(single):
                return 0
            memcpy(&bits, &single, 4)
            p[0] = 0xFA
            _store(p + 1, bits, 4)
            p += 5
        elif kind == BOOL:
            if value != Py_True and value != Py_False:
                return 0
            p[0] = 0xF5 if value == Py_True else 0xF4
            p += 1
        elif kind == STRING or kind == BYTES:
            if kind == STRING:
                if not PyUnicode_Check(value):
                    return 0
                data = Text_AsUtf8(value, &size)
                if data == NULL:
                    PyErr_Clear()
                    return 0
            else:
                if not PyBytes_Check(value):
                    return 0
                data = Bytes_At(value)
                size = Bytes_Size(value)
            out.reserve(size + VALUE_BYTES)
            p = _put_head(out.data + out.size, 0x60 if kind == STRING else 0x40, size)
            memcpy(p, data, size)
            p += size
        elif kind == ENUM:
            for index in range(ENUM_TAG_COUNT):
                if self.members[index] == value:
                    break
            else:
                return 0
            p = _put_head(p, 0x00, index)
        elif kind == STRUCT:
            return self.nested.write(out, value)
        elif kind == VECTOR:
            if not PyList_CheckExact(value) or List_Size(value) > _vector_count_max:
                return 0
            out.size = _put_head(p, 0x80, List_Size(value)) - out.data
            index = 0
            # Read in each step, because the list may change.
            while index < List_Size(value):
                if not self.element.write(out, List_At(value, index)):
                    return 0
                index += 1
            return 1
        else:
            if not PyLong_CheckExact(value):
                return 0
            number = PyLong_AsLongLong(value)
            if number == -1 and PyErr_Occurred() != NULL:
                PyErr_Clear()
                return 0
            argument = <uint64_t>(number if number >= 0 else -1 - number)
            if argument >= self.limit:
                return 0
            p = _put_head(p, 0x00 if number >= 0 else 0x20, argument)
        out.size = p - out.data
        return 1


# -- objects


cdef struct _Field:
    int tag
    Py_ssize_t offset
    PyObject* value


@cython.final
cdef class StructLayout:
    """The offsets of the fields in objects of a class, and their encoding."""

    cdef object plan
    cdef object cls
    cdef list values
    cdef _Field fields[FIELD_COUNT_MAX]
    cdef signed char index_of[FIELD_COUNT_MAX]
    cdef int field_count
    cdef uint64_t mask
    cdef uint64_t key_mask
    # An object without other references, which is reused for the next one.
    cdef object spare
    cdef bint is_bare
    # Whether this code handles all of its kinds. If not, encoder and decoder do all the work.
    cdef readonly bint is_known
    cdef readonly bint is_reached
    """Whether, in addition, the fields of its objects can be accessed in memory."""

    def __init__(self, plan):
        cdef _Value value
        cdef int index
        self.plan = plan
        self.cls = plan.cls
        self.values = []
        self.mask = plan.mask & 0xFFFFFFFF
        self.key_mask = plan.key_mask & 0xFFFFFFFF
        self.field_count = len(plan.fields)
        self.is_known = self.field_count < FIELD_COUNT_MAX
        for index in range(FIELD_COUNT_MAX):
            self.index_of[index] = -1
        if not self.is_known:
            return
        self.is_reached = _has_plain_attributes(plan.cls)
        for index, field in enumerate(plan.fields):
            value = _Value(field.value)
            self.values.append(value)
            self.index_of[<int>field.tag] = index
            self.fields[index].tag = field.tag
            self.fields[index].offset = _offset(plan.cls, field.attribute)
            self.fields[index].value = <PyObject*>value
            if self.fields[index].offset < 0:
                self.is_reached = False
            if not value.is_known:
                self.is_known = False
        if not self.is_known:
            self.is_reached = False
        # Only an object without further attributes can be reused: the next one would inherit them.
        self.is_bare = (
            self.is_reached
            and plan.cls.__basicsize__ == _BARE_BYTES + self.field_count * sizeof(void*)
            # Since Python 3.12 neither is part of the size: both are before the object.
            and plan.cls.__dictoffset__ == 0
            and plan.cls.__weakrefoffset__ == 0
            and not hasattr(plan.cls, "__del__")
        )

    def decode(self, data):
        """Decode an object. Raises DecodeError if the bytes are not an object of the type."""
        cdef Py_ssize_t at = 0
        cdef Py_ssize_t size
        cdef PyObject* found
        if type(data) is bytes:
            size = PyBytes_GET_SIZE(data)
            found = self.read_whole(<const uint8_t*>PyBytes_AS_STRING(data), size)
            if found != NULL:
                obj = <object>found
                Py_DECREF(found)
                return obj
        return self._decode(data)

    def encode(self, obj):
        """Encode all set fields of an object."""
        cdef Frames out
        if self.is_reached:
            out = _spare()
            if self.write(out, <PyObject*>obj) and out.size <= _payload_bytes_max:
                return out.done()
        return encoder.encode(self.plan, obj, -1)

    def check(self, bytes data not None, Py_ssize_t start):
        """Property set of the object that begins at `start`, if it is in canonical form.

        -1 for all others, and for some valid but unusual ones.
        """
        cdef Py_ssize_t size = PyBytes_GET_SIZE(data)
        if not 0 <= start <= size:
            return -1
        return self.present_whole(<const uint8_t*>PyBytes_AS_STRING(data) + start, size - start)

    cdef object _decode(self, data):
        if len(data) > _struct_count_max:
            # Fewer bytes cannot hold more structs. They are counted before objects are created.
            pieces.split_whole(self.plan, data)
        return decoder.decode(self.plan, data)

    cdef PyObject* read_whole(self, const uint8_t* p, Py_ssize_t size) noexcept:
        """The object of all these bytes; NULL in unusual cases."""
        cdef Py_ssize_t at = 0
        cdef PyObject* found
        if not self.is_reached or size > _struct_count_max:
            return NULL
        found = self.read(p, &at, size)
        if found != NULL and at != size:
            Py_DECREF(found)
            return NULL
        return found

    cdef PyObject* read(self, const uint8_t* p, Py_ssize_t* place, Py_ssize_t end) noexcept:
        """The object at an offset, which is moved to its end; NULL in unusual cases."""
        cdef Py_ssize_t at = place[0]
        cdef uint64_t seen = 0
        cdef int count, tag, index
        cdef _Field* field
        cdef PyObject* obj
        cdef PyObject* value
        cdef PyObject* former
        cdef PyObject** slot
        if not self.is_reached or at >= end:
            return NULL
        count = p[at] - 0xA0
        if count < 0 or count > 23:
            return NULL
        at += 1
        if self.spare is not None:
            obj = <PyObject*>self.spare
            Py_INCREF(obj)
            self.spare = None
        else:
            obj = PyBaseObject_Type.tp_new(
                <RawType*><PyObject*>self.cls, <PyObject*>_NOTHING, NULL
            )
            if obj == NULL:
                PyErr_Clear()
                return NULL
        while count > 0:
            count -= 1
            # At least a byte for the tag and a byte for the value.
            if at + 2 > end:
                Py_DECREF(obj)
                return NULL
            tag = p[at]
            index = self.index_of[tag] if tag < 24 else -1
            if index < 0 or seen >> tag & 1:
                Py_DECREF(obj)
                return NULL
            at += 1
            seen |= <uint64_t>1 << tag
            field = &self.fields[index]
            slot = <PyObject**>(<char*>obj + field.offset)
            former = slot[0]
            if former != NULL and Py_REFCNT(former) == 1 and PyFloat_CheckExact(former):
                if (<_Value>field.value).is_double and p[at] == 0xFB and at + 9 <= end:
                    # The number has no other references either, so it is overwritten.
                    (<FloatObject*>former).ob_fval = _load_double(p + at + 1)
                    at += 9
                    continue
            value = (<_Value>field.value).read(p, &at, end)
            if value == NULL:
                Py_DECREF(obj)
                return NULL
            former = slot[0]
            slot[0] = value
            Py_XDECREF(former)
        if seen != self.mask:
            for index in range(self.field_count):
                if not seen >> self.fields[index].tag & 1:
                    slot = <PyObject**>(<char*>obj + self.fields[index].offset)
                    former = slot[0]
                    Py_INCREF(Py_None)
                    slot[0] = Py_None
                    Py_XDECREF(former)
        place[0] = at
        return obj

    cdef int64_t present_whole(self, const uint8_t* p, Py_ssize_t size) noexcept:
        """Property set of the object of all these bytes, if it is in canonical form; else -1."""
        cdef Py_ssize_t at = 0
        cdef int64_t found
        if size > _struct_count_max or size > _payload_bytes_max:
            return -1
        found = self.present(p, &at, size)
        return found if at == size else -1

    cdef int64_t present(self, const uint8_t* p, Py_ssize_t* place, Py_ssize_t end) noexcept:
        """Property set of the object at an offset, which is moved to its end; -1 if it is
        incomplete or not in canonical form."""
        cdef Py_ssize_t at = place[0]
        cdef uint64_t seen = 0
        cdef int count, tag, index
        cdef int previous = -1
        if not self.is_known or at >= end:
            return -1
        count = p[at] - 0xA0
        if count < 0 or count > 23:
            return -1
        at += 1
        while count > 0:
            count -= 1
            if at + 2 > end:
                return -1
            tag = p[at]
            index = self.index_of[tag] if tag < 24 else -1
            # In the order of declaration, so each field occurs at most once.
            if index <= previous:
                return -1
            previous = index
            at += 1
            seen |= <uint64_t>1 << tag
            at = (<_Value>self.fields[index].value).check(p, at, end)
            if at < 0:
                return -1
        place[0] = at
        return <int64_t>seen

    cdef bytes key_of(self, const uint8_t* p, Py_ssize_t size):
        """The canonical key of an object that `present` accepted and that has its whole key."""
        cdef Py_ssize_t starts[FIELD_COUNT_MAX]
        cdef Py_ssize_t stops[FIELD_COUNT_MAX]
        cdef uint64_t left = self.key_mask
        cdef Py_ssize_t at = 1
        cdef Py_ssize_t total = 0
        cdef int tag, count = 0
        cdef bytes key
        cdef uint8_t* q
        while left:
            tag = p[at]
            starts[tag] = at + 1
            at = (<_Value>self.fields[self.index_of[tag]].value).check(p, at + 1, size)
            stops[tag] = at
            if left >> tag & 1:
                left &= ~(<uint64_t>1 << tag)
                total += at - starts[tag]
                count += 1
        total += 1 if count < 24 else 2
        key = PyBytes_FromStringAndSize(NULL, total)
        q = _put_head(<uint8_t*>PyBytes_AS_STRING(key), 0x80, count)
        tag = 0
        while count > 0:
            if self.key_mask >> tag & 1:
                memcpy(q, p + starts[tag], stops[tag] - starts[tag])
                q += stops[tag] - starts[tag]
                count -= 1
            tag += 1
        return key

    cdef int64_t fields_of(self, PyObject* obj) noexcept:
        """Property set of an object of this class; -1 if a field of it was deleted."""
        cdef uint64_t found = 0
        cdef int index
        cdef PyObject* value
        for index in range(self.field_count):
            value = (<PyObject**>(<char*>obj + self.fields[index].offset))[0]
            if value == NULL:
                return -1
            if value != Py_None:
                found |= <uint64_t>1 << self.fields[index].tag
        return <int64_t>found

    cdef int write(self, Frames out, PyObject* obj) except -1:
        """Append an object; 0 in unusual cases, after which the appended bytes are undefined.
        """
        cdef Py_ssize_t start
        cdef int index, count = 0
        cdef _Field* field
        cdef PyObject* value
        if not self.is_reached or Py_TYPE(obj) != <RawType*><PyObject*>self.cls:
            return 0
        if self.field_count > 23:
            return 0
        start = out.size
        out.reserve(self.field_count * VALUE_BYTES + 1)
        out.size += 1
        for index in range(self.field_count):
            field = &self.fields[index]
            value = (<PyObject**>(<char*>obj + field.offset))[0]
            if value == Py_None:
                continue
            if value == NULL or field.tag > 23:
                return 0
            count += 1
            # There is room for the tag: each value leaves VALUE_BYTES.
            out.data[out.size] = <uint8_t>field.tag
            out.size += 1
            if not (<_Value>field.value).write(out, value):
                return 0
        out.data[start] = <uint8_t>(0xA0 + count)
        return 1


cdef bint _has_plain_attributes(cls):
    """Whether attribute access reads and writes the slots directly."""
    return (
        cls.__setattr__ is object.__setattr__
        and cls.__getattribute__ is object.__getattribute__
        and cls.__new__ is object.__new__
    )


cdef Py_ssize_t _offset(cls, attribute):
    """Offset of the slot of an attribute in objects of a class; -1 without a slot."""
    cdef PyObject* descriptor
    cdef Member* member
    for base in cls.__mro__:
        found = base.__dict__.get(attribute)
        if found is None:
            continue
        descriptor = <PyObject*>found
        if Py_TYPE(descriptor) != &PyMemberDescr_Type:
            return -1
        if not PyType_IsSubtype(<RawType*><PyObject*>cls, PyDescr_TYPE(descriptor)):
            return -1
        member = (<MemberDescriptor*>descriptor).d_member
        if member.type != T_OBJECT_EX or member.flags & READONLY:
            return -1
        return member.offset
    return -1


# -- frames


@cython.final
cdef class Frames:
    """A buffer of consecutive frames to be sent."""

    cdef uint8_t* data
    cdef Py_ssize_t size
    cdef Py_ssize_t room

    def __dealloc__(self):
        free(self.data)

    def __len__(self):
        return self.size

    def add(self, bytes frame not None):
        """Append a frame."""
        cdef Py_ssize_t size = PyBytes_GET_SIZE(frame)
        self.reserve(size)
        memcpy(self.data + self.size, PyBytes_AS_STRING(frame), size)
        self.size += size

    def add_object(self, Template template not None, obj, double time_s):
        """Append a frame with an object and return its size.

        For an unusual object, or one without a key, nothing is appended and -1 is returned.
        """
        return self.put_object(template, <PyObject*>obj, time_s)

    cdef Py_ssize_t put_object(self, Template template, PyObject* obj, double time_s) except -2:
        cdef StructLayout layout = template.layout
        cdef Py_ssize_t start = self.size
        cdef uint8_t* p
        cdef int64_t present
        if not layout.is_reached or Py_TYPE(obj) != <RawType*><PyObject*>layout.cls:
            return -1
        present = layout.fields_of(obj)
        if present < 0 or layout.key_mask & ~<uint64_t>present:
            return -1
        p = self.begin(template.head, time_s, template.rest_size)
        p = _put(p, template.before)
        p = _put_head(p, 0x00, <uint64_t>present)
        p = _put(p, template.after)
        self.size = p - self.data
        return self.finish(layout, obj, start, self.size)

    def add_bytes(self, bytes head not None, double time_s, bytes rest not None, bytes data not None):
        """Append a frame: head, time and rest of the header, and bytes. Returns its size."""
        return self.put_bytes(head, time_s, rest, data)

    cdef Py_ssize_t put_bytes(self, bytes head, double time_s, bytes rest, bytes data) except -2:
        cdef Py_ssize_t start = self.size
        cdef Py_ssize_t size = PyBytes_GET_SIZE(data)
        cdef uint8_t* p
        p = self.begin(head, time_s, PyBytes_GET_SIZE(rest) + size + 9)
        p = _put(p, rest)
        p = _put_head(p, 0x40, size)
        memcpy(p, PyBytes_AS_STRING(data), size)
        self.size = p + size - self.data
        return self.close(start)

    def truncate(self, Py_ssize_t size):
        """Keep only the first `size` bytes."""
        if not 0 <= size <= self.size:
            raise ValueError(f"there are {self.size} bytes, not {size}")
        self.size = size

    def take(self):
        """Return all frames and empty the buffer."""
        cdef bytes taken = PyBytes_FromStringAndSize(<char*>self.data, self.size)
        self.size = 0
        if self.room > _KEPT_BYTES:
            free(self.data)
            self.data = NULL
            self.room = 0
        return taken

    cdef inline int reserve(self, Py_ssize_t size) except -1:
        """Reserve space for `size` more bytes."""
        return 0 if self.size + size <= self.room else self.grow(self.size + size)

    cdef int grow(self, Py_ssize_t room) except -1:
        cdef uint8_t* data
        room = room * 2 if room > 512 else 1024
        data = <uint8_t*>realloc(self.data, room)
        if data == NULL:
            raise MemoryError
        self.data = data
        self.room = room
        return 0

    cdef uint8_t* begin(self, bytes head, double time_s, Py_ssize_t more) except NULL:
        """Begin a frame with the head and a time, and reserve space for `more` bytes."""
        cdef uint8_t* p
        self.reserve(PREFIX_BYTES + PyBytes_GET_SIZE(head) + 8 + more)
        p = _put(self.data + self.size + PREFIX_BYTES, head)
        _store_double(p, time_s)
        return p + 8

    cdef Py_ssize_t close(self, Py_ssize_t start) noexcept:
        """Write the length prefix of a frame and return the size of the frame."""
        cdef Py_ssize_t size = self.size - start
        self.data[start] = 0x1A
        _store(self.data + start + 1, <uint64_t>(size - PREFIX_BYTES), 4)
        return size

    cdef Py_ssize_t finish(
        self, StructLayout layout, PyObject* obj, Py_ssize_t start, Py_ssize_t begin
    ) except -2:
        """Write the object of a frame; -1 in unusual cases, in which the frame is removed."""
        cdef bint is_written = False
        try:
            is_written = layout.write(self, obj) and self.size - begin <= _payload_bytes_max
        finally:
            if not is_written:
                self.size = start
        return self.close(start) if is_written else -1

    cdef bytes done(self):
        """Return all bytes and keep the memory for the next user."""
        global _scratch
        cdef bytes taken = PyBytes_FromStringAndSize(<char*>self.data, self.size)
        if self.room <= _KEPT_BYTES:
            _scratch = self
        return taken


cdef Py_ssize_t _KEPT_BYTES = 262144
cdef Frames _scratch = None


cdef Frames _spare():
    """A buffer that no other caller uses: another thread may run while it is in use."""
    global _scratch
    cdef Frames found = _scratch
    _scratch = None
    if found is None:
        found = Frames()
    found.size = 0
    return found


cdef inline uint8_t* _put(uint8_t* p, bytes data) noexcept:
    cdef Py_ssize_t size = PyBytes_GET_SIZE(data)
    memcpy(p, PyBytes_AS_STRING(data), size)
    return p + size


# -- publishing


cdef class Template:
    """The header of a frame with an object of a class.

    It has head and time, then the property set between `before` and `after`, then the object.
    """

    cdef readonly StructLayout layout
    cdef bytes head
    cdef bytes before
    cdef bytes after
    cdef Py_ssize_t rest_size

    def __init__(self, StructLayout layout not None, bytes head not None, bytes before not None,
                 bytes after not None):
        self.layout = layout
        self.head = head
        self.before = before
        self.after = after
        self.rest_size = PyBytes_GET_SIZE(before) + PyBytes_GET_SIZE(after) + 9


@cython.final
cdef class WaitingFrames:
    """Frames that wait to be sent, up to a bound, and the fast path to append one."""

    cdef readonly Frames frames
    # Replaced in a forked process, where no thread would ever release it.
    cdef public object lock
    # Templates of published objects by class, or by class and subject. Filled by the send buffer.
    cdef readonly dict templates
    # The rest of the header after the time, by subject. Filled by the send buffer.
    cdef readonly dict subjects
    # The previous subject, which most often is also the next one.
    cdef object last_subject
    cdef bytes last_rest
    cdef bytes bytes_head
    cdef readonly Py_ssize_t bytes_max
    cdef public Py_ssize_t size
    cdef public bint is_short
    cdef public bint is_awaited
    cdef public Py_ssize_t added_count
    # The writer is notified again after this many bytes (0: never), at this many waiting bytes.
    cdef Py_ssize_t piece_bytes
    cdef Py_ssize_t notified_bytes

    def __init__(self, Py_ssize_t bytes_max, lock, bytes bytes_head not None):
        self.frames = Frames()
        self.lock = lock
        self.templates = {}
        self.subjects = {}
        self.bytes_head = bytes_head
        self.bytes_max = bytes_max

    def notify_every(self, Py_ssize_t piece_bytes):
        """Notify the writer again after every `piece_bytes` bytes."""
        self.piece_bytes = piece_bytes
        self.notified_bytes = piece_bytes

    def add(self, bytes frame not None):
        """Append a frame; whether the writer must be notified. The caller holds the lock."""
        self.frames.add(frame)
        return self.note(PyBytes_GET_SIZE(frame)) == 1

    def take(self):
        """Return all waiting frames and remove them."""
        self.notified_bytes = self.piece_bytes
        return self.frames.take()

    def forget_subjects(self):
        """Forget the cached subjects."""
        self.subjects.clear()
        self.templates.clear()
        self.last_rest = None

    cpdef int put(self, what, data, subject, double time_s) except -2:
        """Append an object under a subject or None, or bytes under the subject `what`.

        1 if the writer must be notified, 0 if not, -1 if nothing was appended: for what was not
        published before, an unusual object, a value that is not an object, or a full buffer.
        """
        if self.lock is None:
            return self.put_here(what, data, subject, time_s)
        with self.lock:
            return self.put_here(what, data, subject, time_s)

    cdef int put_here(self, what, data, subject, double time_s) except -2:
        cdef Py_ssize_t size
        cdef PyObject* found
        if not self.is_short:
            return -1
        if data is None:
            if subject is None:
                found = Dict_Get(<PyObject*>self.templates, <PyObject*>Py_TYPE(<PyObject*>what))
            elif type(subject) is str:
                named = (type(what), subject)
                found = Dict_Get(<PyObject*>self.templates, <PyObject*>named)
            else:
                return -1
            if found == NULL:
                return -1
            size = self.frames.put_object(<Template?><object>found, <PyObject*>what, time_s)
            if size < 0:
                return -1
        else:
            if type(data) is not bytes or PyBytes_GET_SIZE(data) > _payload_bytes_max - 16:
                return -1
            if self.last_rest is None or what is not self.last_subject:
                if not self.find_subject(what):
                    return -1
            size = self.frames.put_bytes(self.bytes_head, time_s, self.last_rest, <bytes>data)
        # A single frame is accepted at any size, because otherwise it could never be sent.
        if self.size + size > self.bytes_max and self.size > 0:
            self.frames.size -= size
            return -1
        return self.note(size)

    cdef bint find_subject(self, what) except -1:
        if type(what) is not str:
            return False
        rest = self.subjects.get(what)
        if rest is None:
            return False
        self.last_subject, self.last_rest = what, rest
        return True

    cdef inline int note(self, Py_ssize_t size) noexcept:
        """Count `size` more bytes; 1 if the writer must be notified, else 0."""
        self.size += size
        self.added_count += 1
        if self.is_awaited and (self.piece_bytes == 0 or self.frames.size < self.notified_bytes):
            return 0
        self.notified_bytes = self.frames.size + self.piece_bytes
        self.is_awaited = True
        return 1


cdef class PublishPath:
    """The path of a published object to the waiting frames."""

    cdef WaitingFrames waiting
    cdef object first
    cdef object wake
    cdef object clock

    def __init__(self, WaitingFrames waiting not None, first, wake, clock):
        """`first` publishes what the fast path does not handle, `wake` notifies the writer."""
        self.waiting = waiting
        self.first = first
        self.wake = wake
        # The system clock is read without a Python call, because each publish reads it.
        self.clock = None if clock is time.time else clock

    def publish(self, what, data=None, *, only=None, subject=""):
        """Create an object, or update those of its fields that are set or named in `only`.

        Or send bytes under a subject. Raises WouldBlock if too many bytes wait to be sent.
        """
        cdef int is_due = -1
        if only is None and (data is None or not subject):
            is_due = self.waiting.put(what, data, subject or None, self.now_s())
        if is_due < 0:
            is_due = self.first(what, data, only, subject)
        if is_due:
            self.wake()

    cdef inline double now_s(self) except? -1.0:
        cdef timespec now
        if self.clock is None and clock_gettime(CLOCK_REALTIME, &now) == 0:
            return <double>now.tv_sec + 1e-9 * <double>now.tv_nsec
        return (time.time if self.clock is None else self.clock)()


# -- frames that differ only in their times


cdef class AlikeFrames:
    """Frames of version 2 with equal headers except for one time, or two consecutive ones."""

    cdef bytes first
    cdef bytes rest
    cdef Py_ssize_t first_size
    cdef Py_ssize_t rest_size
    cdef Py_ssize_t rest_at
    cdef Py_ssize_t size
    cdef bint has_second
    cdef int second

    def __init__(self, bytes first not None, bytes rest not None, int second):
        """`first` is the header before the first time, `rest` the header after the last.

        `second` is the tag of the second time, or -1.
        """
        self.first = first
        self.rest = rest
        self.first_size = PyBytes_GET_SIZE(first)
        self.rest_size = PyBytes_GET_SIZE(rest)
        self.has_second = second >= 0
        self.second = second
        self.rest_at = self.first_size + (18 if self.has_second else 8)
        self.size = self.rest_at + self.rest_size

    cdef inline Py_ssize_t fits(
        self, const uint8_t* p, Py_ssize_t left, Py_ssize_t bytes_max
    ) noexcept:
        """Size of the frame that begins here, if it is complete and has this header; else 0."""
        cdef Py_ssize_t size
        if left < PREFIX_BYTES or p[0] != 0x1A:
            return 0
        size = <Py_ssize_t>_load(p + 1, 4)
        if size > left - PREFIX_BYTES or size < self.size or size > bytes_max:
            return 0
        p += PREFIX_BYTES
        if memcmp(p, PyBytes_AS_STRING(self.first), self.first_size):
            return 0
        if self.has_second:
            if p[self.first_size + 8] != self.second or p[self.first_size + 9] != 0xFB:
                return 0
        if memcmp(p + self.rest_at, PyBytes_AS_STRING(self.rest), self.rest_size):
            return 0
        return PREFIX_BYTES + size

    def forward(self, bytes buffer not None, Py_ssize_t start, Py_ssize_t bytes_max,
                StructLayout layout not None, int64_t named, double time_s_max,
                Frames plain, bytes plain_head not None, bytes plain_tail not None,
                Frames full, bytes full_head not None, bytes full_tail not None):
        """Forward frames from `start` on, up to one with another header or an unusual object.

        Each is written to `plain`, to `full` or to both, with another header around its first time.
        Returns the offset of the first frame that was not forwarded, and the number of forwarded ones.
        """
        cdef const uint8_t* p = <const uint8_t*>PyBytes_AS_STRING(buffer)
        cdef Py_ssize_t end = PyBytes_GET_SIZE(buffer)
        cdef Py_ssize_t at = start
        cdef Py_ssize_t size
        cdef Py_ssize_t count = 0
        cdef int64_t present
        cdef uint64_t key_mask = layout.key_mask
        cdef double time_s
        if not 0 <= start <= end:
            return start, 0
        while True:
            size = self.fits(p + at, end - at, bytes_max)
            if size == 0:
                break
            present = layout.present_whole(
                p + at + PREFIX_BYTES + self.size, size - PREFIX_BYTES - self.size
            )
            if present < 0 or present & ~named or key_mask & ~<uint64_t>present:
                break
            time_s = _load_double(p + at + PREFIX_BYTES + self.first_size)
            # In this form the comparison is also false for NaN.
            if not -time_s_max <= time_s <= time_s_max:
                break
            if plain is not None:
                self.pass_on(plain, p + at, size, plain_head, plain_tail)
            if full is not None:
                self.pass_on(full, p + at, size, full_head, full_tail)
            at += size
            count += 1
        return at, count

    cdef int pass_on(
        self, Frames out, const uint8_t* p, Py_ssize_t size, bytes head, bytes tail
    ) except -1:
        cdef Py_ssize_t start = out.size
        cdef Py_ssize_t payload = size - PREFIX_BYTES - self.size
        cdef uint8_t* q
        out.reserve(PREFIX_BYTES + PyBytes_GET_SIZE(head) + 8 + PyBytes_GET_SIZE(tail) + payload)
        q = _put(out.data + start + PREFIX_BYTES, head)
        memcpy(q, p + PREFIX_BYTES + self.first_size, 8)
        q = _put(q + 8, tail)
        memcpy(q, p + PREFIX_BYTES + self.size, payload)
        out.size = q + payload - out.data
        out.close(start)
        return 0


# -- known headers


cdef struct _Place:
    # Offsets in one frame: the start of its header, its first time, start and end of the rest of
    # the header, and the start of the object; then the size of the whole frame.
    Py_ssize_t first_at
    Py_ssize_t time_at
    Py_ssize_t rest_at
    Py_ssize_t rest_stop
    Py_ssize_t payload_at
    Py_ssize_t size
    bint has_second
    uint64_t hash


cdef inline Py_ssize_t _text_end(const uint8_t* p, Py_ssize_t at, Py_ssize_t end) noexcept nogil:
    """The end of the text at an offset; -1 if it is not a text or incomplete."""
    cdef uint64_t argument = 0
    if at >= end or p[at] >> 5 != 3:
        return -1
    at = _head(p, at, end, &argument)
    if at < 0 or argument > <uint64_t>(end - at):
        return -1
    return at + <Py_ssize_t>argument


cdef inline Py_ssize_t _entries_end(
    const uint8_t* p, Py_ssize_t at, Py_ssize_t end, int count
) noexcept nogil:
    """The end of `count` entries of a header; -1 for unusual entries."""
    cdef uint64_t argument = 0
    cdef int first
    while count > 0:
        count -= 1
        if at + 2 > end or p[at] > 23:
            return -1
        at += 1
        first = p[at]
        if first == 0xF4 or first == 0xF5:
            at += 1
        elif first == 0xFB:
            at += 9
        elif first < 0x40:
            at = _head(p, at, end, &argument)
        else:
            at = _text_end(p, at, end)
        if at < 0 or at > end:
            return -1
    return at


cdef inline uint64_t _mix(uint64_t hash, const uint8_t* p, Py_ssize_t size) noexcept nogil:
    cdef uint64_t word
    while size >= 8:
        memcpy(&word, p, 8)
        hash = (hash ^ word) * 0x9E3779B97F4A7C15ULL
        hash ^= hash >> 29
        p += 8
        size -= 8
    while size > 0:
        hash = (hash ^ p[0]) * 0x9E3779B97F4A7C15ULL
        p += 1
        size -= 1
    hash = (hash ^ (hash >> 32)) * 0xD6E8FEB86659FD93ULL
    return hash ^ (hash >> 32)


cdef bint _survey(
    const uint8_t* p, Py_ssize_t left, Py_ssize_t bytes_max, int version, _Place* place
) noexcept nogil:
    """Whether a complete frame with a usual header begins here; sets the offsets of its parts."""
    cdef Py_ssize_t at, end, size
    cdef uint64_t argument = 0
    cdef int count
    if version == 1:
        if left < 2:
            return False
        end = 2 + (p[0] | <Py_ssize_t>p[1] << 8)
        # The name of the type, then the header; internal types begin differently.
        if end > left or end < 8 or p[2] != 0xA3 or p[3] != 0x02:
            return False
        place.first_at = 2
        at = _text_end(p, 4, end)
        if at < 0 or at >= end or p[at] != 0x03:
            return False
        at += 1
    else:
        if left < PREFIX_BYTES or p[0] != 0x1A:
            return False
        size = <Py_ssize_t>_load(p + 1, 4)
        if size > left - PREFIX_BYTES or size > bytes_max:
            return False
        place.first_at = at = PREFIX_BYTES
        end = place.size = PREFIX_BYTES + size
    if at + 2 > end or p[at + 1] != 0x01:
        return False
    count = p[at] - 0xA2
    if count < 0 or count > 21:
        return False
    at = _text_end(p, at + 2, end)
    if at < 0 or at + 10 > end or p[at] != 0x02 or p[at + 1] != 0xFB:
        return False
    place.time_at = at + 2
    at += 10
    place.has_second = count > 0 and at + 10 <= end and p[at] == 0x07 and p[at + 1] == 0xFB
    if place.has_second:
        at += 10
        count -= 1
    place.rest_at = at
    at = _entries_end(p, at, end, count)
    if at < 0:
        return False
    place.rest_stop = place.payload_at = at
    if version == 1:
        if at + 2 > end or p[at] != 0x04 or p[at + 1] >= 0x20:
            return False
        if _head(p, at + 1, end, &argument) != end or argument > <uint64_t>(left - end):
            return False
        if <Py_ssize_t>argument + end - 2 > bytes_max:
            return False
        place.payload_at = end
        place.size = end + <Py_ssize_t>argument
    place.hash = _mix(
        _mix(place.has_second, p + place.first_at, place.time_at - place.first_at),
        p + place.rest_at,
        place.rest_stop - place.rest_at,
    )
    return True


cdef class RouteVersion:
    """Version of the facts that are cached about a type. `shut` invalidates them."""

    # Never 0.
    cdef readonly unsigned long long number

    def __init__(self):
        self.number = 1

    def shut(self):
        """Invalidate everything that was cached before."""
        self.number += 1


cdef enum:
    FORM_COUNT = 3
    OLD_FORM = 2


cdef class KnownHeader:
    """A header that was received before, with facts that are valid until its gate is shut."""

    cdef readonly object owner
    cdef bytes first
    cdef bytes rest
    cdef bint has_second
    cdef RouteVersion gate
    cdef unsigned long long number

    def __init__(self, owner, parts):
        """`parts` is the result of `KnownHeaders.parts`."""
        self.owner = owner
        self.first, self.rest, self.has_second = parts

    @property
    def is_open(self):
        """Whether the cached facts are valid."""
        return self.gate is not None and self.gate.number == self.number


cdef class ForwardedHeader(KnownHeader):
    """How objects with a known header are forwarded: in up to three forms.

    The forms are: without a subject, with the subject, and for programs of version 1.
    """

    cdef list heads
    cdef list rests
    cdef StructLayout layout
    cdef int64_t named
    cdef bint is_message
    cdef list outs
    cdef bytes kinds
    cdef bint is_alike_for_all
    cdef Py_ssize_t count

    def __init__(self, owner, parts, list heads not None, list rests not None):
        """Each head ends before the first time of the header, each rest begins after the
        second."""
        if len(heads) != FORM_COUNT or len(rests) != FORM_COUNT:
            raise ValueError("a header has three forms")
        super().__init__(owner, parts)
        self.heads = [<bytes?>head for head in heads]
        self.rests = [<bytes?>rest for rest in rests]
        self.outs = []
        self.kinds = b""

    def open(self, RouteVersion gate not None, StructLayout layout not None, int64_t named, bint is_message,
             list outs not None, bytes kinds not None):
        """Set how objects are forwarded until the gate is shut.

        Frames are written to all of `outs`, to each in the form that `kinds` has for it. Frames of
        messages are forwarded by the relay alone; cached objects are returned to its caller.
        """
        if len(outs) != PyBytes_GET_SIZE(kinds) or any(kind >= FORM_COUNT for kind in kinds):
            raise ValueError("each output needs one form")
        self.gate = gate
        self.number = gate.number
        self.layout = layout
        self.named = named
        self.is_message = is_message
        self.outs = [<Frames?>out for out in outs]
        self.kinds = kinds
        self.is_alike_for_all = OLD_FORM not in kinds

    def frame(self, int kind, double sent_s, double now_s, bytes payload not None):
        """One frame with an object, in the form `kind`."""
        cdef Frames out = Frames()
        cdef uint8_t sent[8]
        cdef uint8_t now[10]
        if not 0 <= kind < FORM_COUNT:
            raise ValueError("there is no such form")
        _store_double(sent, sent_s)
        _put_now(now, now_s)
        self.put(out, kind, sent, now, <const uint8_t*>PyBytes_AS_STRING(payload),
                 PyBytes_GET_SIZE(payload))
        return out.take()

    cdef int put_all(
        self, const uint8_t* sent, const uint8_t* now, const uint8_t* payload, Py_ssize_t size
    ) except -1:
        cdef Py_ssize_t index
        cdef const uint8_t* kinds = <const uint8_t*>PyBytes_AS_STRING(self.kinds)
        for index in range(PyBytes_GET_SIZE(self.kinds)):
            self.put(
                <Frames>List_At(<PyObject*>self.outs, index), kinds[index], sent, now, payload, size
            )
        return 0

    cdef int put(
        self, Frames out, int kind, const uint8_t* sent, const uint8_t* now,
        const uint8_t* payload, Py_ssize_t size
    ) except -1:
        cdef bytes head = <bytes>List_At(<PyObject*>self.heads, kind)
        cdef bytes rest = <bytes>List_At(<PyObject*>self.rests, kind)
        cdef Py_ssize_t start = out.size
        cdef Py_ssize_t outer
        cdef uint8_t* q
        out.reserve(PREFIX_BYTES + PyBytes_GET_SIZE(head) + 28 + PyBytes_GET_SIZE(rest) + size)
        q = _put(out.data + start + (2 if kind == OLD_FORM else PREFIX_BYTES), head)
        memcpy(q, sent, 8)
        memcpy(q + 8, now, 10)
        q = _put(q + 18, rest)
        if kind == OLD_FORM:
            q[0] = 0x04
            q = _put_head(q + 1, 0x00, <uint64_t>size)
            outer = q - out.data - start - 2
            if outer > 0xFFFF:
                raise ValueError("the header is too long")
            out.data[start] = <uint8_t>(outer & 0xFF)
            out.data[start + 1] = <uint8_t>(outer >> 8)
        memcpy(q, payload, size)
        out.size = q + size - out.data
        if kind != OLD_FORM:
            out.close(start)
        return 0


cdef inline void _put_now(uint8_t* p, double now_s) noexcept:
    p[0] = 0x07
    p[1] = 0xFB
    _store_double(p + 2, now_s)


cdef enum:
    # Slots in which a header may be.
    SLOT_WAYS = 8
    # Failed searches for a slot after which an unused header loses its slot.
    STRIKE_COUNT = 16

cdef Py_ssize_t _SLOT_COUNT = HEADER_MEMO_COUNT_MAX
cdef Py_ssize_t _HEADER_BYTES = HEADER_MEMO_BYTES_MAX


cdef struct _Slot:
    uint64_t hash
    int strikes
    # The slot of the header that came after this one the last time; publishers repeat themselves.
    int next


cdef class KnownHeaders:
    """Headers that were received before, found by their bytes.

    Their number is bounded. A header that is no longer used is replaced by another one.
    """

    cdef int version
    # The known headers, and at the same indices the hashes to find them by.
    cdef list known
    cdef _Slot* slots
    # The slot of the header that was found last; -1 if there is none.
    cdef int last
    # The current frame.
    cdef _Place place
    cdef const uint8_t* at
    cdef bytes buffer
    # Whether it is complete and has an unknown header.
    cdef readonly bint is_new
    # Whether its object was checked and is valid; its layout and property set.
    cdef readonly bint is_checked
    cdef StructLayout layout
    cdef int64_t present

    def __dealloc__(self):
        free(self.slots)

    def __len__(self):
        return 0 if self.known is None else sum(one is not None for one in self.known)

    def payload(self):
        """The object of the current frame."""
        self.look()
        return PyBytes_FromStringAndSize(
            <const char*>self.at + self.place.payload_at, self.place.size - self.place.payload_at
        )

    def parts(self):
        """The bytes of its header before and after its times, and whether it has two times."""
        cdef const char* p = <const char*>self.at
        self.look()
        return (
            PyBytes_FromStringAndSize(
                p + self.place.first_at, self.place.time_at - self.place.first_at
            ),
            PyBytes_FromStringAndSize(
                p + self.place.rest_at, self.place.rest_stop - self.place.rest_at
            ),
            bool(self.place.has_second),
        )

    def checked(self):
        """Object, key, property set and first time of the current frame, which has to be checked."""
        self.look()
        if not self.is_checked:
            raise ValueError("the object was not checked")
        return (
            self.payload(),
            self.layout.key_of(
                self.at + self.place.payload_at, self.place.size - self.place.payload_at
            ),
            self.present,
            _load_double(self.at + self.place.time_at),
        )

    def wants(self):
        """Whether its header, which is unknown, should be remembered with `learn`."""
        cdef Py_ssize_t index
        cdef int way
        self.look()
        if self.place.payload_at > _HEADER_BYTES:
            return False
        if self.known is None:
            return True
        for way in range(SLOT_WAYS):
            index = <Py_ssize_t>((self.place.hash + way) % <uint64_t>_SLOT_COUNT)
            if self.slots[index].strikes >= STRIKE_COUNT or self.known[index] is None:
                return True
            self.slots[index].strikes += 1
        return False

    cdef int add(self, KnownHeader one) except -1:
        cdef Py_ssize_t index
        cdef int way
        self.look()
        if self.known is None:
            self.slots = <_Slot*>calloc(_SLOT_COUNT, sizeof(_Slot))
            if self.slots == NULL:
                raise MemoryError
            self.known = [None] * _SLOT_COUNT
            self.last = -1
        for way in range(SLOT_WAYS):
            index = <Py_ssize_t>((self.place.hash + way) % <uint64_t>_SLOT_COUNT)
            if self.known[index] is None or self.slots[index].strikes >= STRIKE_COUNT:
                self.known[index] = one
                self.slots[index].hash = self.place.hash
                self.slots[index].strikes = 0
                break
        return 0

    def forget(self, KnownHeader one=None):
        """Forget one header, or all of them."""
        cdef Py_ssize_t index
        if self.known is None:
            return
        if one is None:
            self.known = None
            free(self.slots)
            self.slots = NULL
            self.last = -1
            return
        for index in range(_SLOT_COUNT):
            if self.known[index] is one:
                self.known[index] = None

    cdef int look(self) except -1:
        if self.at == NULL:
            raise ValueError("there is no current frame")
        return 0

    cdef int find(
        self, const uint8_t* p, Py_ssize_t left, Py_ssize_t bytes_max, _Place* place,
        PyObject** found
    ) noexcept:
        """1 if a complete frame with a usual header begins here, else 0.

        Sets the offsets of its parts, and its known header, as a borrowed reference, or NULL.
        """
        cdef Py_ssize_t index
        cdef int way
        cdef PyObject* one
        found[0] = NULL
        if self.known is not None and self.last >= 0 and self.version == 2:
            index = self.slots[self.last].next
            one = List_At(<PyObject*>self.known, index)
            if one != Py_None and _follows(<KnownHeader>one, p, left, bytes_max, place):
                self.slots[index].strikes = 0
                place.hash = self.slots[index].hash
                self.last = <int>index
                found[0] = one
                return 1
        if not _survey(p, left, bytes_max, self.version, place):
            return 0
        if self.known is None:
            return 1
        for way in range(SLOT_WAYS):
            index = <Py_ssize_t>((place.hash + way) % <uint64_t>_SLOT_COUNT)
            if self.slots[index].hash != place.hash:
                continue
            one = List_At(<PyObject*>self.known, index)
            if one != Py_None and _fits(<KnownHeader>one, p, place):
                self.slots[index].strikes = 0
                if self.last >= 0:
                    self.slots[self.last].next = <int>index
                self.last = <int>index
                found[0] = one
                break
        return 1


cdef inline bint _follows(
    KnownHeader one, const uint8_t* p, Py_ssize_t left, Py_ssize_t bytes_max, _Place* place
) noexcept:
    """Whether a complete frame of version 2 with this header begins here; sets its offsets.

    The bytes of a known header determine the offsets, so the frame need not be surveyed.
    """
    cdef Py_ssize_t first_size = PyBytes_GET_SIZE(one.first)
    cdef Py_ssize_t rest_size = PyBytes_GET_SIZE(one.rest)
    cdef Py_ssize_t at = PREFIX_BYTES + first_size + (18 if one.has_second else 8)
    cdef Py_ssize_t size
    if left < at + rest_size or p[0] != 0x1A:
        return False
    size = <Py_ssize_t>_load(p + 1, 4)
    if size > left - PREFIX_BYTES or size > bytes_max or size < at + rest_size - PREFIX_BYTES:
        return False
    if memcmp(p + PREFIX_BYTES, PyBytes_AS_STRING(one.first), first_size):
        return False
    if one.has_second and (p[at - 10] != 0x07 or p[at - 9] != 0xFB):
        return False
    if memcmp(p + at, PyBytes_AS_STRING(one.rest), rest_size):
        return False
    place.first_at = PREFIX_BYTES
    place.time_at = PREFIX_BYTES + first_size
    place.rest_at = at
    place.rest_stop = place.payload_at = at + rest_size
    place.size = PREFIX_BYTES + size
    place.has_second = one.has_second
    return True


cdef inline bint _fits(KnownHeader one, const uint8_t* p, _Place* place) noexcept:
    return (
        PyBytes_GET_SIZE(one.first) == place.time_at - place.first_at
        and PyBytes_GET_SIZE(one.rest) == place.rest_stop - place.rest_at
        and one.has_second == place.has_second
        and memcmp(
            p + place.first_at, PyBytes_AS_STRING(one.first), PyBytes_GET_SIZE(one.first)
        ) == 0
        and memcmp(p + place.rest_at, PyBytes_AS_STRING(one.rest), PyBytes_GET_SIZE(one.rest)) == 0
    )


cdef class FrameRelay(KnownHeaders):
    """Forwards frames of one client that have known headers, in any order of headers."""

    cdef double time_s_max
    cdef list touched
    cdef ForwardedHeader form
    cdef uint8_t now[10]
    # Frames that the last call forwarded, and the offset at which the last of them ended.
    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t stop
    # Units of work that the last call did, and whether it reached its bound.
    cdef readonly Py_ssize_t work
    cdef readonly bint is_spent
    # Whether the frames that follow the next one seem to have the same header.
    cdef readonly bint is_run

    def __init__(self, int version, double time_s_max):
        """Frames of clients of `version`; with times beyond `time_s_max` they are not forwarded."""
        self.version = version
        self.time_s_max = time_s_max
        self.touched = []

    def learn(self, ForwardedHeader one not None):
        """Remember the header of the current frame, for which `wants` returned true."""
        self.add(one)

    def pass_on(self, bytes buffer not None, Py_ssize_t start, Py_ssize_t bytes_max, double now_s,
                Py_ssize_t work_max):
        """Forward frames from `start` on, up to one that it cannot forward or until `work_max`.

        A frame is a unit of work, and so is each of its copies. Returns the form of the next
        frame's header; None if that header is unknown or the frame is not complete.
        """
        cdef const uint8_t* p = <const uint8_t*>PyBytes_AS_STRING(buffer)
        cdef Py_ssize_t end = PyBytes_GET_SIZE(buffer)
        cdef Py_ssize_t at = start
        cdef PyObject* found = NULL
        cdef ForwardedHeader form
        cdef int64_t present
        cdef double sent_s
        cdef const uint8_t* payload
        cdef Py_ssize_t size
        self.count = 0
        self.stop = start
        self.work = 0
        self.is_checked = self.is_run = self.is_new = self.is_spent = False
        self.form = None
        self.at = NULL
        self.buffer = buffer
        if not 0 <= start <= end:
            return None
        _put_now(self.now, now_s)
        while self.find(p + at, end - at, bytes_max, &self.place, &found):
            self.at = p + at
            if found == NULL:
                self.is_new = True
                return None
            form = <ForwardedHeader>found
            self.form = form
            if form.gate is None or form.number != form.gate.number:
                return form
            payload = p + at + self.place.payload_at
            size = self.place.size - self.place.payload_at
            present = form.layout.present_whole(payload, size)
            if present < 0 or present & ~form.named or form.layout.key_mask & ~<uint64_t>present:
                return form
            sent_s = _load_double(p + at + self.place.time_at)
            # In this form the comparison is also false for NaN.
            if not -self.time_s_max <= sent_s <= self.time_s_max:
                return form
            if not form.is_message:
                self.is_checked = True
                self.layout = form.layout
                self.present = present
                return form
            if (
                form.is_alike_for_all
                and PyBytes_GET_SIZE(form.kinds) > 1
                and self.comes_again(form, p + at + self.place.size, end - at - self.place.size)
            ):
                self.is_run = True
                return form
            form.put_all(p + at + self.place.time_at, self.now, payload, size)
            self.touch(form)
            at += self.place.size
            self.count += 1
            self.stop = at
            self.work += 1 + PyBytes_GET_SIZE(form.kinds)
            if self.work >= work_max:
                self.is_spent = True
                break
        self.form = None
        self.at = NULL
        return None

    def deliver(self):
        """Write the current frame to all outputs of its form."""
        self.look()
        if self.form is None:
            raise ValueError("the header is not known")
        self.form.put_all(
            self.at + self.place.time_at,
            self.now,
            self.at + self.place.payload_at,
            self.place.size - self.place.payload_at,
        )
        self.touch(self.form)

    def take_touched(self):
        """Owners of the forms that forwarded frames since the last call, each with the number of
        frames; ends work on a buffer."""
        cdef ForwardedHeader form
        touched = []
        if self.touched:
            for form in self.touched:
                touched.append((form.owner, form.count))
                form.count = 0
            self.touched = []
        self.at = NULL
        self.buffer = None
        self.form = None
        return touched

    cdef inline int touch(self, ForwardedHeader form) except -1:
        if form.count == 0:
            self.touched.append(form)
        form.count += 1
        return 0

    cdef inline bint comes_again(self, ForwardedHeader form, const uint8_t* p, Py_ssize_t left) noexcept:
        """Whether the next frame seems to have the same header: writing both at once is cheaper."""
        cdef Py_ssize_t size = PyBytes_GET_SIZE(form.first)
        return (
            left > self.place.first_at + size
            and self.version == 2
            and memcmp(p + self.place.first_at, PyBytes_AS_STRING(form.first), size) == 0
        )


# -- delivery


@cython.final
@cython.no_gc
cdef class ObjectState:
    """An object after one change, and the origin of the change. Only `epoch` is modified."""

    # The whole object, and the property set of it.
    cdef readonly bytes payload
    cdef readonly long long present
    # Empty for the default subject.
    cdef readonly str subject
    cdef readonly double created
    cdef readonly long long created_from
    cdef readonly double modified
    cdef readonly long long modified_from
    cdef readonly object operation
    cdef readonly double received
    # The connection on which it was last received.
    cdef public long long epoch

    def __init__(self, bytes payload not None, long long present, str subject not None,
                 double created, long long created_from, double modified, long long modified_from,
                 operation not None, double received, long long epoch):
        self.payload = payload
        self.present = present
        self.subject = subject
        self.created = created
        self.created_from = created_from
        self.modified = modified
        self.modified_from = modified_from
        self.operation = operation
        self.received = received
        self.epoch = epoch


cdef class ReceivedUpdate:
    """A received change of an object, with the bytes of the update.

    During a callback, it refers to the bytes of the stream. If the callback keeps it, it gets a copy.
    """

    # `create`, `update` or `remove`. A message is always created.
    cdef readonly object operation
    cdef public object _known
    """The header of the update. The times may be kept separately."""
    cdef public bint _has_times
    cdef public double _sent_time
    cdef public double _server_sent_time
    cdef readonly object _shape
    cdef readonly object _entry
    cdef readonly long long _own_id
    cdef readonly double _received
    cdef bytes payload
    cdef bint is_bytes
    cdef StructLayout layout
    cdef bytes buffer
    cdef const uint8_t* at
    cdef Py_ssize_t size
    cdef object whole
    cdef object part
    # The error of decoding, if the bytes turned out not to be an object of the type.
    cdef readonly object fault

    def __init__(self, operation not None, header, shape, bytes payload not None, entry,
                 long long own_id, double received):
        self.operation = operation
        self._known = header
        self._shape = shape
        self._entry = entry
        self._own_id = own_id
        self._received = received
        self.layout = shape.layout
        self.is_bytes = shape.is_bytes
        self.payload = payload
        self.at = NULL

    @property
    def update(self):
        """The published fields, and the key."""
        return self.get_update()

    @property
    def object(self):
        """The whole object after the update, or before its removal."""
        if self._entry is None:
            return self.get_update()
        whole = self._entry.payload
        if whole is self.payload:
            return self.get_update()
        if self.whole is None:
            self.whole = self.decode(whole)
        return self.whole

    @property
    def data(self):
        """The bytes published under a subject, or the encoded update of an object."""
        cdef const uint8_t* p = self.at
        cdef Py_ssize_t size = self.size
        cdef Py_ssize_t after
        cdef uint64_t argument = 0
        if not self.is_bytes:
            return self.get_payload()
        if p == NULL:
            p = <const uint8_t*>PyBytes_AS_STRING(self.payload)
            size = PyBytes_GET_SIZE(self.payload)
        if size >= 3 and p[0] == 0xA1 and p[1] == 0x01 and p[2] >> 5 == 2 and p[2] < 0x5B:
            after = _head(p, 2, size, &argument)
            if after > 0 and argument == <uint64_t>(size - after):
                return PyBytes_FromStringAndSize(<const char*>p + after, size - after)
        return self._shape.bytes_of(self.get_payload())

    @property
    def _payload(self):
        """The encoded update."""
        return self.get_payload()

    cdef object get_update(self):
        cdef PyObject* found
        if self.part is None:
            if self.at != NULL:
                # Referenced, because the calls below may run any code.
                held = self.buffer
                found = self.layout.read_whole(self.at, self.size)
                if found != NULL:
                    self.part = <object>found
                    Py_DECREF(found)
                    return self.part
            self.part = self.decode(self.get_payload())
        return self.part

    cdef bytes get_payload(self):
        if self.payload is None:
            self.payload = PyBytes_FromStringAndSize(<const char*>self.at, self.size)
        return self.payload

    cdef object decode(self, data):
        try:
            return self._shape.decode(data)
        except DecodeError as error:
            # Decoding is lazy, so invalid bytes are found only here. The caller of the callback must
            # distinguish them from an error in the callback.
            self.fault = error
            raise

    cdef int keep(self) except -1:
        """A callback kept the event, so it needs its own copy of the bytes."""
        if self.payload is None:
            self.payload = PyBytes_FromStringAndSize(<const char*>self.at, self.size)
        self.at = NULL
        self.buffer = None
        return 0


cdef class DeliveredHeader(KnownHeader):
    """The callbacks for objects with a known header, and where cached objects are stored."""

    cdef object header
    cdef object shape
    cdef StructLayout layout
    cdef bint is_bytes
    cdef list targets
    cdef list callbacks
    cdef bint is_used
    # The current objects of a cached type by their keys; None for messages.
    cdef dict objects
    cdef int64_t attributes
    cdef str subject
    cdef long long sender

    def open(self, RouteVersion gate not None, header, shape, list targets, dict objects):
        """Set the targets until the gate is shut; without targets, objects are only checked.

        Objects of a cached type are stored in `objects` before the targets are called.
        """
        self.objects = objects
        if objects is not None:
            self.attributes = header.attributes
            self.subject = header.subject
            self.sender = header.sender
        self.gate = gate
        self.number = gate.number
        self.header = header
        self.shape = shape
        self.layout = shape.layout
        self.is_bytes = shape.is_bytes
        self.targets = None
        self.callbacks = None
        if targets is not None:
            self.targets = [target for target in targets if target.is_open]
            self.callbacks = [target.callback for target in self.targets]


cdef class FrameDelivery(KnownHeaders):
    """Delivers frames with known headers to callbacks, in any order of headers.

    It stops at a frame that it cannot deliver, and when a gate is shut.
    """

    # Frames that the last call delivered; start and end of the last, without its size prefix.
    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t start
    cdef readonly Py_ssize_t stop

    def __init__(self):
        self.version = 2

    def learn(self, DeliveredHeader one not None):
        """Remember the header of the current frame, for which `wants` returned true."""
        self.add(one)

    def times(self):
        """The times of the current frame; the second is None if the header has only one."""
        self.look()
        return (
            _load_double(self.at + self.place.time_at),
            _load_double(self.at + self.place.time_at + 10) if self.place.has_second else None,
        )

    def end(self):
        """Release the current frame."""
        self.at = NULL
        self.buffer = None

    def deliver(self, bytes buffer not None, Py_ssize_t start, Py_ssize_t bytes_max, cls,
             long long own_id, double received, long long epoch, failed):
        """Call all targets for each frame from `start` on, up to one that it cannot deliver.

        Returns the call of that frame's header; None if the header is unknown or the frame is not
        complete. Events are objects of the class `cls`, derived from ReceivedUpdate. `failed` is called
        with target, event and error when a callback fails.
        """
        cdef const uint8_t* p = <const uint8_t*>PyBytes_AS_STRING(buffer)
        cdef Py_ssize_t end = PyBytes_GET_SIZE(buffer)
        cdef Py_ssize_t at = start
        cdef Py_ssize_t index
        cdef PyObject* found = NULL
        # Local, since a callback may change `self.place`.
        cdef _Place place
        cdef DeliveredHeader call = None
        cdef ReceivedUpdate event = None
        cdef ObjectState state = None
        cdef bytes update = None
        cdef PyObject* result
        cdef PyObject* made
        cdef PyObject* part
        cdef list used = []
        cdef bint is_ended = False
        self.count = 0
        self.start = self.stop = start
        self.at = NULL
        self.is_checked = self.is_new = False
        if not 0 <= start <= end:
            return None
        try:
            while not is_ended:
                if not self.find(p + at, end - at, bytes_max, &place, &found):
                    return None
                call = None if found == NULL else <DeliveredHeader>found
                if call is None or call.targets is None or call.number != call.gate.number:
                    return self.stop_at(call, buffer, p + at, &place)
                if call.objects is not None:
                    update = PyBytes_FromStringAndSize(
                        <const char*>p + at + place.payload_at, place.size - place.payload_at
                    )
                    state = self.store(call, update, p + at, &place, received, epoch)
                    if state is None:
                        return self.stop_at(call, buffer, p + at, &place)
                if event is None:
                    made = (<RawType*><PyObject*>cls).tp_new(
                        <RawType*><PyObject*>cls, <PyObject*>_NOTHING, NULL
                    )
                    _check(made)
                    event = <ReceivedUpdate>made
                    Py_DECREF(made)
                    event._own_id = own_id
                    event._received = received
                    event.buffer = buffer
                if call.objects is not None:
                    event.operation = state.operation
                    event._entry = state
                    event.payload = update
                    state = None
                    update = None
                else:
                    event.operation = CREATE
                event._known = call.header
                event._shape = call.shape
                event.layout = call.layout
                event.is_bytes = call.is_bytes
                event._has_times = True
                event._sent_time = _load_double(p + at + place.time_at)
                event._server_sent_time = (
                    _load_double(p + at + place.time_at + 10) if place.has_second else 0.0
                )
                event.at = p + at + place.payload_at
                event.size = place.size - place.payload_at
                self.start = at + PREFIX_BYTES
                at += place.size
                self.stop = at
                self.count += 1
                if not call.is_used:
                    call.is_used = True
                    used.append(call)
                for index in range(len(call.callbacks)):
                    if is_ended and not call.targets[index].is_open:
                        continue
                    result = PyObject_CallOneArg(
                        List_At(<PyObject*>call.callbacks, index), <PyObject*>event
                    )
                    if result == NULL:
                        _report_failure(failed, call.targets[index], event)
                    else:
                        Py_DECREF(result)
                    is_ended = call.number != call.gate.number
                if Py_REFCNT(<PyObject*>event) > 1:
                    # A callback kept a reference to the event. Otherwise this is the only one, and
                    # the event is reused.
                    event.keep()
                    event = None
                else:
                    event.payload = None
                    event.fault = None
                    event._entry = None
                    event.whole = None
                    part = <PyObject*>event.part
                    if call.layout.is_bare and Py_REFCNT(part) == 1 and part != Py_None:
                        call.layout.spare = event.part
                    event.part = None
            return None
        finally:
            for call in used:
                call.is_used = False
                call.layout.spare = None

    cdef ObjectState store(
        self, DeliveredHeader call, bytes update, const uint8_t* p, _Place* place, double received,
        long long epoch
    ):
        """Store the object of a frame. In unusual cases nothing is changed; returns None."""
        cdef const uint8_t* payload = <const uint8_t*>PyBytes_AS_STRING(update)
        cdef Py_ssize_t size = PyBytes_GET_SIZE(update)
        cdef uint64_t key_mask = call.layout.key_mask
        cdef int64_t present = call.layout.present_whole(payload, size)
        cdef int64_t named = call.attributes & ~<int64_t>key_mask
        cdef ObjectState state, known
        cdef PyObject* found
        cdef bytes key
        if present < 0 or key_mask & ~<uint64_t>present:
            return None
        key = call.layout.key_of(payload, size)
        state = ObjectState.__new__(ObjectState)
        state.payload = update
        state.present = present
        state.subject = call.subject
        state.modified = _load_double(p + place.time_at)
        state.modified_from = call.sender
        state.received = received
        state.epoch = epoch
        found = Dict_Get(<PyObject*>call.objects, <PyObject*>key)
        if found == NULL:
            state.operation = CREATE
            state.created = state.modified
            state.created_from = call.sender
        else:
            known = <ObjectState>found
            if known.subject != call.subject:
                return None
            if (known.present | present) & ~call.attributes & ~<int64_t>key_mask:
                try:
                    state.payload = pieces.merge(
                        call.layout.plan, known.payload, update, call.attributes
                    )
                except CodecError:
                    # The error is reported when the frame is processed by the caller.
                    return None
                state.present = (known.present & ~named) | (present & (named | <int64_t>key_mask))
            state.operation = UPDATE
            state.created = known.created
            state.created_from = known.created_from
        call.objects[key] = state
        return state

    cdef DeliveredHeader stop_at(self, DeliveredHeader call, bytes buffer, const uint8_t* p, _Place* place):
        """Make a frame that cannot be delivered here the current one."""
        self.buffer = buffer
        self.at = p
        self.place = place[0]
        self.is_new = call is None
        if call is not None and call.gate is not None and call.number == call.gate.number:
            self.layout = call.layout
            self.present = call.layout.present_whole(
                p + place.payload_at, place.size - place.payload_at
            )
            self.is_checked = (
                self.present >= 0 and not call.layout.key_mask & ~<uint64_t>self.present
            )
        return call


cdef int _check(PyObject* made) except -1:
    """Raise the error of a call that returned NULL."""
    return 0 if made != NULL else -1


cdef int _report_failure(failed, target, event) except -1:
    """Report the error that a callback raised."""
    try:
        _check(NULL)
    except BaseException as error:
        failed(target, event, error)
    return 0
