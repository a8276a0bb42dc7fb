"""The compiled part's face; `_encoding.pyx` says what each does."""

from collections.abc import Sequence

from coterie.records.encoding import NewRecord

def encoded(items: Sequence[NewRecord]) -> tuple[bytes, int]: ...
def murmur2(data: bytes) -> int: ...
