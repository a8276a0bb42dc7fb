# Varints and lengths of records, read with every bound checked: included by the compiled parts. The rules are those of
# `fields`.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t


cdef struct Cursor:
    const uint8_t* at
    const uint8_t* end


cdef inline int varlong(Cursor* c, int64_t* value) noexcept nogil:
    """A zigzag varint of 64 bits, of at most 10 bytes. 1 if it could be read."""
    cdef uint64_t raw = 0
    cdef int shift = 0
    cdef uint8_t byte
    while c.at < c.end and shift < 64:
        byte = c.at[0]
        c.at += 1
        raw |= <uint64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            value[0] = <int64_t>((raw >> 1) ^ (0 - (raw & 1)))
            return 1
        shift += 7
    return 0


cdef inline int varint(Cursor* c, int64_t* value) noexcept nogil:
    """A zigzag varint of 32 bits, of at most 5 bytes. 1 if it could be read."""
    cdef uint32_t raw = 0
    cdef int shift = 0
    cdef uint8_t byte
    if c.at < c.end and c.at[0] < 0x80:  # nearly always that is all
        raw = c.at[0]
        c.at += 1
        value[0] = <int32_t>((raw >> 1) ^ (0 - (raw & 1)))
        return 1
    while c.at < c.end and shift < 35:
        byte = c.at[0]
        c.at += 1
        raw |= <uint32_t>(byte & 0x7F) << shift
        if byte < 0x80:
            value[0] = <int32_t>((raw >> 1) ^ (0 - (raw & 1)))
            return 1
        shift += 7
    return 0


cdef inline int64_t java_sum(int64_t one, int64_t other) noexcept nogil:
    return <int64_t>(<uint64_t>one + <uint64_t>other)


cdef inline int skip(Cursor* c, int64_t* size) noexcept nogil:
    """A length and so many bytes; a negative one is null. 1 if they are there."""
    if not varint(c, size) or size[0] > c.end - c.at:
        return 0
    if size[0] > 0:
        c.at += size[0]
    return 1


cdef inline int skip_headers(Cursor* c) noexcept nogil:
    """1 if the headers, with which a record ends, fill it."""
    cdef int64_t many, size, i
    if not varint(c, &many) or many < 0 or many > c.end - c.at:
        return 0
    for i in range(many):
        if not skip(c, &size) or size < 0 or not skip(c, &size):
            return 0
    return c.at == c.end
