# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled twin of `unfolding`: a batch's records as instances of a NamedTuple class, in one pass over the bytes; and their
values as lines, without an object for each.

Optional: `decoding` does the same with numpy or in Python where this was not built. A row is filled in place, as CPython's own
constructor of a tuple's subclass does it, without a plain tuple before. The cyclic garbage collector does not look at it: it
holds nothing that could refer to it, and walking over the rows costs as much as making them.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM
from libc.string cimport memcpy

include "cursor.pxi"

cdef extern from *:
    """
    static PyObject* new_row(PyObject* cls, Py_ssize_t width) {
        PyObject* row = PyType_GenericAlloc((PyTypeObject*)cls, width);
    #if PY_VERSION_HEX >= 0x030E0000
        if (row) ((PyTupleObject*)row)->ob_hash = -1;  /* not computed yet */
    #endif
        return row;
    }
    """
    object new_row(object cls, Py_ssize_t width)

cdef extern from "Python.h":
    void PyObject_GC_UnTrack(void* row)


cdef inline int put(object row, Py_ssize_t index, object value) except -1:
    Py_INCREF(value)
    PyTuple_SET_ITEM(row, index, value)
    return 0


cdef inline object blob(Cursor* c):
    """A length and so many bytes; None where it is negative."""
    cdef int64_t size
    if not skip(c, &size):
        raise ValueError("a key or value runs past the end of its record")
    if size < 0:
        return None
    return PyBytes_FromStringAndSize(<const char*>c.at - size, size)


def rows(
    bytes data not None,
    int64_t at,
    int64_t end,
    int64_t count,
    int64_t base_offset,
    int64_t base_timestamp,
    append_time,
    type make not None,
    headers_of,
    before,
    after,
):
    """``make((*before, offset, timestamp, key, value, headers, *after))`` for each of ``count`` records between ``at`` and
    ``end``; ``append_time``: the timestamp of all, or None; ``headers_of`` reads those between two positions. ``before`` and
    ``after`` must not refer to the rows. Raises ValueError, and what ``headers_of`` raises."""
    cdef const uint8_t* start = <const uint8_t*><const char*>data
    cdef Cursor whole, c
    cdef int64_t index, size, delta, last_delta = 0
    cdef tuple leading = tuple(before), trailing = tuple(after)
    cdef Py_ssize_t first = len(leading), behind = first + 5, width = behind + len(trailing), field
    cdef object row, timestamp = append_time
    cdef list made = []
    if not issubclass(make, tuple) or make.__dictoffset__:
        raise TypeError("the class of the rows must be a NamedTuple without a __dict__")
    if not 0 <= at <= end <= len(data):
        raise ValueError("the records do not lie within the data")
    if not 0 <= count <= end - at:
        raise ValueError(f"the batch claims {count} records")
    whole.at = start + at
    whole.end = start + end
    for index in range(count):
        if not varint(&whole, &size) or size < 1 or size > whole.end - whole.at:
            raise ValueError("the length of a record does not fit its batch")
        c.at = whole.at + 1
        c.end = whole.at + size
        whole.at = c.end
        if not varlong(&c, &delta):
            raise ValueError("a timestamp runs past the end of its record")
        if append_time is None and (delta != last_delta or timestamp is None):
            timestamp = java_sum(base_timestamp, delta)
            last_delta = delta
        if not varint(&c, &delta):
            raise ValueError("an offset runs past the end of its record")
        row = new_row(make, width)
        for field in range(first):
            put(row, field, leading[field])
        put(row, first, java_sum(base_offset, delta))
        put(row, first + 1, timestamp)
        put(row, first + 2, blob(&c))
        put(row, first + 3, blob(&c))
        put(row, first + 4, () if c.at + 1 == c.end and c.at[0] == 0 else headers_of(data, c.at - start, c.end - start))
        for field in range(behind, width):
            put(row, field, trailing[field - behind])
        PyObject_GC_UnTrack(<void*>row)
        made.append(row)
    if whole.at != whole.end:
        raise ValueError("there are bytes after the last record")
    return made


cdef int value_of(Cursor* whole, Cursor* value, int64_t* offset_delta) noexcept nogil:
    """Where the value of the next record lies, nothing for null. 1 if the record fits its batch."""
    cdef int64_t size, key_size, timestamp_delta
    cdef Cursor c
    if not varint(whole, &size) or size < 1 or size > whole.end - whole.at:
        return 0
    c.at = whole.at + 1
    c.end = whole.at + size
    whole.at = c.end
    if not varlong(&c, &timestamp_delta) or not varint(&c, offset_delta) or not skip(&c, &key_size) or not skip(&c, &size):
        return 0
    value.end = c.at
    value.at = c.at - max(size, 0)
    return c.at + 1 == c.end and c.at[0] == 0 or skip_headers(&c)


cdef bytes joined(const uint8_t* begin, const uint8_t* end, int64_t count, int64_t size):
    """The values of ``count`` records from ``begin`` on, which were read before, a line break behind each: ``size`` bytes."""
    cdef Cursor whole = Cursor(begin, end)
    cdef bytes made = PyBytes_FromStringAndSize(NULL, size)
    cdef char* at = PyBytes_AS_STRING(made)
    cdef int64_t index, offset_delta
    cdef Cursor value
    for index in range(count):
        value_of(&whole, &value, &offset_delta)
        memcpy(at, value.at, value.end - value.at)
        at += value.end - value.at
        at[0] = b"\n"
        at += 1
    return made


def lines(
    bytes data not None,
    int64_t at,
    int64_t end,
    int64_t count,
    int64_t base_offset,
    int64_t first_offset,
    int64_t limit,
    int64_t piece_bytes,
):
    """As `decoding.decode_lines`: (bytes, records, last offset) of each piece. Raises ValueError."""
    cdef const uint8_t* start = <const uint8_t*><const char*>data
    cdef Cursor whole, value
    cdef bint is_wanted
    cdef int64_t index, delta, offset, last_offset = -1, size, begin = at, records = 0, taken = 0, total = 0
    cdef list pieces = []  # nothing is copied of a damaged batch
    if not 0 <= at <= end <= len(data):
        raise ValueError("the records do not lie within the data")
    if not 0 <= count <= end - at:
        raise ValueError(f"the batch claims {count} records")
    whole.at = start + at
    whole.end = start + end
    for index in range(count):
        at = whole.at - start
        if not value_of(&whole, &value, &delta):
            raise ValueError("a record does not fit its batch")
        offset = java_sum(base_offset, delta)
        size = value.end - value.at + 1
        is_wanted = offset >= first_offset and taken < limit
        if records and (not is_wanted or total + size > piece_bytes):
            pieces.append((begin, records, total, last_offset))
            records = total = 0
        if is_wanted:
            if not records:
                begin = at
            records += 1
            taken += 1
            total += size
            last_offset = offset
    if whole.at != whole.end:
        raise ValueError("there are bytes after the last record")
    if records:
        pieces.append((begin, records, total, last_offset))
    return [(joined(start + begin, whole.end, records, total), records, last) for begin, records, total, last in pieces]
