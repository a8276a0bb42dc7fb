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
    from coterie.records._rows import lines as lines
    from coterie.records._rows import rows as rows

    ROWS_COMPILED = True
except ImportError:
    ROWS_COMPILED = False

try:
    from coterie.records._encoding import encoded as encoded
    from coterie.records._encoding import murmur2 as murmur2
    from coterie.records._encoding import split_lines as split_lines

    ENCODING_COMPILED = True
except ImportError:
    ENCODING_COMPILED = False

    def split_lines(data: bytes) -> list[bytes]:
        return data.split(b"\n")


def summary() -> str:
    """Which of the compiled parts run here, as a line of text."""
    parts = {"_encoding": ENCODING_COMPILED, "_rows": ROWS_COMPILED, "_unfold": COMPILED}
    built = [name for name, is_built in parts.items() if is_built]
    if not built:
        return "interpreted"
    return f"compiled ({', '.join(built)}{'; the others interpreted' if len(built) < len(parts) else ''})"
