"""The compiled parts, where they were built here (`_unfold`, `_rows`, `_encoding`); one of an older source counts as not
built."""

from __future__ import annotations

try:
    from coterie.records._unfold import Unfolder as Unfolder
    from coterie.records._unfold import walk as walk

    COMPILED = True
except ImportError:
    COMPILED = False

try:
    from coterie.records._rows import rows as rows

    ROWS_COMPILED = True
except ImportError:
    ROWS_COMPILED = False

try:
    from coterie.records._encoding import encoded as encoded
    from coterie.records._encoding import murmur2 as murmur2

    ENCODING_COMPILED = True
except ImportError:
    ENCODING_COMPILED = False
