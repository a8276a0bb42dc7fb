# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled twins of `columnar` (whole batches into the buffers of Arrow arrays) and of `walking` (a batch's records
checked, and nothing made of them): one pass over the bytes.

Optional: `columnar` does the same with numpy, `walking` in Python, where this was not built. No allocation per record; every
length is checked against the end of its record, since the bytes come from outside. The rules are those of `fields`.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

include "cursor.pxi"

cdef enum:
    HEADER = 61
    MAX_BYTES = 2147483647

cdef int64_t MAX_TIMESTAMP = 9223372036854775807


cdef struct Vector:
    uint8_t* data
    int64_t size
    int64_t room


cdef int reserve(Vector* v, int64_t more) except -1 nogil:
    cdef int64_t room = v.room
    cdef uint8_t* moved
    if v.size + more <= room:
        return 0
    if room == 0:
        room = 4096
    while room < v.size + more:
        room *= 2
    moved = <uint8_t*>realloc(v.data, room)
    if moved == NULL:
        with gil:
            raise MemoryError()
    v.data = moved
    v.room = room
    return 0


cdef inline int push(Vector* v, const void* source, int64_t size) except -1 nogil:
    if v.size + size > v.room:
        reserve(v, size)
    memcpy(v.data + v.size, source, size)
    v.size += size
    return 0


cdef int fill(Vector* v, const void* source, int64_t size, int64_t times) except -1:
    """The same element so many times."""
    cdef int64_t i
    reserve(v, size * times)
    for i in range(times):
        memcpy(v.data + v.size + i * size, source, size)
    v.size += size * times
    return 0


cdef class Memory:
    """A vector's bytes, without a copy of them; freed with the last view."""

    cdef Vector held

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.held.data, self.held.size, 1, flags)

    def __dealloc__(self):
        free(self.held.data)


cdef object taken(Vector* v):
    """A memoryview; the vector is empty then."""
    if v.size == 0:
        return memoryview(b"")
    memory = Memory()
    memory.held = v[0]
    v.data, v.size, v.room = NULL, 0, 0
    return memoryview(memory)


cdef inline int64_t big(const uint8_t* p, int size) noexcept nogil:
    cdef uint64_t value = 0
    cdef int i
    for i in range(size):
        value = value << 8 | p[i]
    if size == 4:
        return <int32_t>value
    return <int64_t>value


cdef struct Blobs:
    Vector offsets
    Vector data
    Vector valid  # one byte an element, from the first null on
    int64_t nulls


cdef inline int64_t elements(Blobs* b) noexcept nogil:
    return b.offsets.size // 4 - 1


cdef int add_null(Blobs* b) except -1 nogil:
    cdef int64_t before = elements(b)
    cdef uint8_t valid = 0
    if b.nulls == 0:
        reserve(&b.valid, before)
        memset(b.valid.data, 1, before)
        b.valid.size = before
    b.nulls += 1
    return push(&b.valid, &valid, 1)


cdef int make_room(Blobs* b, int64_t elements, int64_t size) except -1 nogil:
    """For so many more elements, of ``size`` bytes in all."""
    reserve(&b.offsets, 4 * elements)
    return reserve(&b.data, size)


cdef inline int blob(Cursor* c, Blobs* into) except -1 nogil:
    """As `skip`, and the bytes are kept, where there is room for them."""
    cdef const uint8_t* start
    cdef int64_t size
    cdef uint8_t valid = 1
    if not skip(c, &size):
        return 0
    if size < 0:
        add_null(into)
    elif into.data.size + size > MAX_BYTES:
        with gil:
            raise OverflowError("more than 2 GiB of keys or values in one go")
    else:
        memcpy(into.data.data + into.data.size, c.at - size, size)
        into.data.size += size
        if into.nulls:
            push(&into.valid, &valid, 1)
    (<int32_t*>(into.offsets.data + into.offsets.size))[0] = <int32_t>into.data.size
    into.offsets.size += 4
    return 1


cdef struct Walked:
    int64_t oldest
    int64_t newest
    bint consecutive
    bint keyless


cdef int64_t walk_records(Cursor* whole, int64_t count, int64_t base_timestamp, Walked* w) noexcept nogil:
    """The number of the first record that does not fit, or ``count``."""
    cdef int64_t i, size, delta, timestamp
    cdef Cursor c
    for i in range(count):
        if not varint(whole, &size) or size < 1 or size > whole.end - whole.at:
            return i
        c.at = whole.at + 1
        c.end = whole.at + size
        whole.at = c.end
        if not varlong(&c, &delta):
            return i
        timestamp = java_sum(base_timestamp, delta)
        if timestamp > w.newest:
            w.newest = timestamp
        if timestamp < w.oldest and timestamp != -1:
            w.oldest = timestamp
        if not varint(&c, &delta):
            return i
        if delta != i:
            w.consecutive = False
        if not skip(&c, &size):
            return i
        if size < 0:
            w.keyless = True
        if not skip(&c, &size):
            return i
        if c.at + 1 == c.end and c.at[0] == 0:
            continue
        if not skip_headers(&c):
            return i
    return count


def walk(data, int64_t at, int64_t end, int64_t count, int64_t base_timestamp):
    """As `walking.walk_each`, whose ValueError it raises too."""
    cdef Py_buffer view
    cdef Walked w = Walked(MAX_TIMESTAMP, -1, True, False)
    cdef Cursor whole
    cdef int64_t walked = 0
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if not 0 <= at <= end <= view.len:
            raise ValueError("the records do not lie within the data")
        whole.at = <const uint8_t*>view.buf + at
        whole.end = <const uint8_t*>view.buf + end
        walked = walk_records(&whole, count, base_timestamp, &w)
        if walked < count:
            raise ValueError(f"record {walked} of {count} does not fit into the batch")
        if whole.at != whole.end:
            raise ValueError(f"{whole.end - whole.at} bytes are left after the {count} records that the batch claims")
    finally:
        PyBuffer_Release(&view)
    return w.oldest, w.newest, bool(w.consecutive), bool(w.keyless)


cdef bytes bits(Vector* valid):
    """One byte an element to one bit an element, the lowest first."""
    cdef int64_t n = valid.size, i
    packed = bytearray((n + 7) // 8)
    cdef uint8_t[::1] view = packed
    for i in range(n):
        if valid.data[i]:
            view[i >> 3] |= 1 << (i & 7)
    return bytes(packed)


cdef class Unfolder:
    """Takes batches with `add`; each buffer is then taken from it by its method, once."""

    cdef Vector _offsets, _times, _types, _producers, _header_ends
    cdef Blobs _keys, _values, _names, _header_values
    cdef bint _with_headers
    cdef object _decompress
    cdef readonly int64_t count
    cdef readonly list controls
    cdef readonly int64_t end

    def __cinit__(self, decompress, bint with_headers=False):
        cdef int32_t zero = 0
        self._decompress = decompress
        self._with_headers = with_headers
        self.controls = []
        self.end = -1
        push(&self._keys.offsets, &zero, 4)
        push(&self._values.offsets, &zero, 4)
        push(&self._names.offsets, &zero, 4)
        push(&self._header_values.offsets, &zero, 4)
        push(&self._header_ends, &zero, 4)

    def __dealloc__(self):
        free(self._offsets.data)
        free(self._times.data)
        free(self._types.data)
        free(self._producers.data)
        free(self._header_ends.data)
        free_blobs(&self._keys)
        free_blobs(&self._values)
        free_blobs(&self._names)
        free_blobs(&self._header_values)

    def add(self, bytes data, int64_t at, int64_t end):
        """The whole batches from ``at`` on; stops before one that does not end by ``end``. Where each control batch begins
        goes to ``controls``. Returns where it stopped. Raises ValueError for a batch that is damaged or older than
        version 2, and what decompress raises."""
        cdef const uint8_t* raw = <const uint8_t*><char*>data
        cdef const uint8_t* body
        cdef int64_t length, size
        cdef int attributes
        if end > len(data):
            end = len(data)
        if at < end:
            reserve(&self._values.data, end - at)  # most of it, where nothing is compressed
        while at + HEADER <= end:
            length = big(raw + at + 8, 4)
            if length < HEADER - 12:
                raise ValueError("a batch is shorter than its header")
            if at + 12 + length > end:
                break
            if raw[at + 16] != 2:
                raise ValueError(f"a batch of version {raw[at + 16]}")
            attributes = raw[at + 22]
            if attributes & 0x20:
                self.controls.append(at)
            elif big(raw + at + 57, 4) == 0:
                pass  # compaction leaves batches without records
            elif attributes & 7:
                unfolded = self._decompress(attributes & 7, data[at + HEADER : at + 12 + length])
                body = <const uint8_t*><char*>unfolded
                size = len(unfolded)
                self._records(raw + at, body, size)
            else:
                self._records(raw + at, raw + at + HEADER, 12 + length - HEADER)
            self.end = java_sum(big(raw + at, 8), big(raw + at + 23, 4) + 1)
            at += 12 + length
        return at

    cdef int _records(self, const uint8_t* header, const uint8_t* body, int64_t size) except -1:
        cdef int64_t base_offset = big(header, 8)
        cdef int64_t base_time = big(header + 27, 8), max_time = big(header + 35, 8)
        cdef int64_t producer = -1
        cdef int64_t records = big(header + 57, 4)
        cdef int32_t kind = (header[22] >> 3) & 1
        cdef int64_t i, length, delta, value
        cdef Cursor c, whole
        if header[22] & 0x10:
            producer = big(header + 43, 8)
        if records < 0 or records > size:
            raise ValueError("a batch claims more records than it has bytes")
        whole.at = body
        whole.end = body + size
        fill(&self._types, &kind, 4, records)
        fill(&self._producers, &producer, 8, records)
        make_room(&self._keys, records, size)
        make_room(&self._values, records, size)
        reserve(&self._offsets, records * 8)
        reserve(&self._times, records * 8)
        with nogil:
            for i in range(records):
                if not varint(&whole, &length) or length < 1 or length > whole.end - whole.at:
                    return self._damaged()
                c.at = whole.at + 1
                c.end = whole.at + length
                whole.at = c.end
                if not varlong(&c, &delta):
                    return self._damaged()
                value = max_time if kind else java_sum(base_time, delta)
                (<int64_t*>(self._times.data + self._times.size))[0] = value
                self._times.size += 8
                if not varint(&c, &delta):
                    return self._damaged()
                value = java_sum(base_offset, delta)
                (<int64_t*>(self._offsets.data + self._offsets.size))[0] = value
                self._offsets.size += 8
                if not blob(&c, &self._keys) or not blob(&c, &self._values):
                    return self._damaged()
                if self._with_headers:
                    self._record_headers(&c)
                elif not skip_headers(&c):
                    return self._damaged()
        if whole.at != whole.end:
            return self._damaged()
        self.count += records
        return 0

    cdef int _record_headers(self, Cursor* c) except -1 nogil:
        cdef int64_t many, size, i
        cdef int32_t end
        cdef Cursor named
        if not varint(c, &many) or many < 0 or many > c.end - c.at:
            return self._damaged()
        make_room(&self._names, many, c.end - c.at)
        make_room(&self._header_values, many, c.end - c.at)
        for i in range(many):
            named = c[0]
            if not varint(&named, &size) or size < 0:
                return self._damaged()
            if not blob(c, &self._names) or not blob(c, &self._header_values):
                return self._damaged()
        if c.at != c.end:
            return self._damaged()
        end = <int32_t>elements(&self._names)
        push(&self._header_ends, &end, 4)
        return 0

    cdef int _damaged(self) except -1 nogil:
        with gil:
            raise ValueError("a record does not fit its batch")

    def offsets(self):
        """int64 each."""
        return taken(&self._offsets)

    def timestamps(self):
        """int64 each, ms since 1970."""
        return taken(&self._times)

    def timestamp_types(self):
        """int32 each: 0 create, 1 append time."""
        return taken(&self._types)

    def producer_ids(self):
        """int64 each: of records in a transaction; -1 for others."""
        return taken(&self._producers)

    def keys(self):
        """(nulls, validity bits or None, int32 offsets, bytes), as an Arrow binary array has them."""
        return arrow(&self._keys)

    def values(self):
        return arrow(&self._values)

    def headers(self):
        """(int32 list offsets, names, values), the latter two like `keys`."""
        return taken(&self._header_ends), arrow(&self._names), arrow(&self._header_values)


cdef void free_blobs(Blobs* b) noexcept:
    free(b.offsets.data)
    free(b.data.data)
    free(b.valid.data)


cdef tuple arrow(Blobs* b):
    return b.nulls, bits(&b.valid) if b.nulls else None, taken(&b.offsets), taken(&b.data)
