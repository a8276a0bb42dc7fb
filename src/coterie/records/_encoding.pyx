# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled twins of a producer's work on each record: the split of lines, `encoding` of a batch's records, and the hash of
a key, by which `client.partitioner` chooses the partition.

Optional: all are done in Python where this was not built. A first pass over the records measures them, a second one writes.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL

cdef extern from "string.h":
    const char* memchr(const char* data, int byte, size_t size) nogil

cdef enum:
    LARGEST = 2147483647


cdef inline uint64_t zigzag(int64_t value) noexcept nogil:
    return (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)


cdef inline Py_ssize_t varint_size(int64_t value) noexcept nogil:
    cdef uint64_t raw = zigzag(value)
    cdef Py_ssize_t size = 1
    while raw >= 0x80:
        raw >>= 7
        size += 1
    return size


cdef inline uint8_t* put_varint(uint8_t* at, int64_t value) noexcept nogil:
    cdef uint64_t raw = zigzag(value)
    while raw >= 0x80:
        at[0] = <uint8_t>(raw | 0x80)
        at += 1
        raw >>= 7
    at[0] = <uint8_t>raw
    return at + 1


cdef inline int64_t java_difference(int64_t one, int64_t other) noexcept nogil:
    return <int64_t>(<uint64_t>one - <uint64_t>other)


cdef inline Py_ssize_t blob_size(bytes blob):
    """With its length."""
    return 1 if blob is None else varint_size(PyBytes_GET_SIZE(blob)) + PyBytes_GET_SIZE(blob)


cdef inline uint8_t* put_bytes(uint8_t* at, const char* data, Py_ssize_t size) noexcept nogil:
    at = put_varint(at, size)
    memcpy(at, data, size)
    return at + size


cdef inline uint8_t* put_blob(uint8_t* at, bytes blob):
    if blob is None:
        return put_varint(at, -1)
    return put_bytes(at, PyBytes_AS_STRING(blob), PyBytes_GET_SIZE(blob))


cdef Py_ssize_t headers_size(headers) except -1:
    cdef Py_ssize_t size = varint_size(len(headers)), length
    for name, value in headers:
        PyUnicode_AsUTF8AndSize(name, &length)
        size += varint_size(length) + length + blob_size(value)
    return size


cdef uint8_t* put_headers(uint8_t* at, headers) except NULL:
    cdef Py_ssize_t length
    cdef const char* text
    at = put_varint(at, len(headers))
    for name, value in headers:
        text = PyUnicode_AsUTF8AndSize(name, &length)
        at = put_blob(put_bytes(at, text, length), value)
    return at


def encoded(items not None):
    """The records of a batch of ``items``, each (timestamp, key, value, headers), and their largest timestamp. Nothing changes
    ``items`` meanwhile. Raises OverflowError for 2 GB of records, and for a timestamp beyond 64 bits."""
    cdef int64_t first = items[0][0], newest = first, at_ms
    cdef Py_ssize_t total = 0, count = len(items), index, size
    cdef bytes key, value, made
    cdef list sizes = []
    cdef uint8_t* at
    cdef uint8_t* end
    for index in range(count):
        timestamp, key, value, headers = items[index]
        at_ms = timestamp
        if at_ms > newest:
            newest = at_ms
        size = 1 + varint_size(java_difference(at_ms, first)) + varint_size(index) + blob_size(key) + blob_size(value)
        size += headers_size(headers) if headers else 1
        sizes.append(size)
        total += varint_size(size) + size
        if total > LARGEST:
            raise OverflowError("the records of a batch take 2 GB: send less at once")
    made = PyBytes_FromStringAndSize(NULL, total)
    at = <uint8_t*>PyBytes_AS_STRING(made)
    end = at + total
    for index in range(count):
        timestamp, key, value, headers = items[index]
        at = put_varint(at, sizes[index])
        at[0] = 0  # attributes
        at = put_varint(at + 1, java_difference(timestamp, first))
        at = put_blob(put_blob(put_varint(at, index), key), value)
        at = put_headers(at, headers) if headers else put_varint(at, 0)
    assert at == end
    return made, newest


def split_lines(bytes data not None):
    """As ``data.split(b"\n")``, which looks at each byte by itself."""
    cdef const char* at = PyBytes_AS_STRING(data)
    cdef const char* end = at + PyBytes_GET_SIZE(data)
    cdef const char* found = memchr(at, 10, end - at)
    cdef list lines = []
    while found != NULL:
        lines.append(PyBytes_FromStringAndSize(at, found - at))
        at = found + 1
        found = memchr(at, 10, end - at)
    lines.append(PyBytes_FromStringAndSize(at, end - at))
    return lines


def murmur2(bytes data not None):
    """Kafka's 32-bit murmur2, unsigned."""
    return murmur2_of(<const uint8_t*>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))


cdef uint32_t murmur2_of(const uint8_t* data, Py_ssize_t length) noexcept nogil:
    cdef uint32_t m = 0x5BD1E995U, h = 0x9747B28CU ^ <uint32_t>length, k
    cdef Py_ssize_t at = 0
    while at + 4 <= length:
        k = data[at] | <uint32_t>data[at + 1] << 8 | <uint32_t>data[at + 2] << 16 | <uint32_t>data[at + 3] << 24
        k *= m
        h = (h * m) ^ ((k ^ k >> 24) * m)
        at += 4
    if at < length:
        k = 0
        while length > at:
            length -= 1
            k = k << 8 | data[length]
        h = (h ^ k) * m
    h = (h ^ h >> 13) * m
    return h ^ h >> 15
