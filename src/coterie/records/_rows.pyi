"""The compiled part's face; `_rows.pyx` says what it does."""

from collections.abc import Callable
from typing import Any, TypeVar

R = TypeVar("R")

def rows(
    data: bytes,
    at: int,
    end: int,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_time: int | None,
    make: type[R],
    headers_of: Callable[[bytes, int, int], Any],
    before: tuple[Any, ...],
    after: tuple[Any, ...],
) -> list[R]: ...
def lines(
    data: bytes,
    at: int,
    end: int,
    count: int,
    base_offset: int,
    first_offset: int,
    limit: int,
    piece_bytes: int,
) -> list[tuple[bytes, int, int]]: ...
