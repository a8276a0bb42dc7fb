"""The order in which Java's HashMap has its keys, and the one in which its PriorityQueue gives equal elements: where Kafka's
result depends on them, coterie's is the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Generic, TypeVar

T = TypeVar("T")
_DEFAULT_CAPACITY = 16


@lru_cache(maxsize=10_000)
def _spread(text: str) -> int:
    """HashMap's hash of a string: that of String.hashCode, its upper half folded in."""
    code = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for n in range(0, len(units), 2):
        code = (31 * code + (units[n] << 8 | units[n + 1])) & 0xFFFFFFFF
    return code ^ code >> 16


def java_order(keys: Iterable[str], capacity: int = _DEFAULT_CAPACITY) -> list[str]:
    """The keys as a HashMap that was made with room for ``capacity`` iterates over them; ``keys`` are in the order of their
    insertion, which decides inside a bucket."""
    inserted = list(dict.fromkeys(keys))
    buckets = _buckets(capacity)
    while len(inserted) > buckets * 3 // 4:
        buckets *= 2
    return sorted(inserted, key=lambda key: _spread(key) & buckets - 1)


def computed_order(keys: Iterable[str], capacity: int) -> list[str]:
    """The same where each was added by computeIfAbsent, which puts a new key before the others of its bucket, and makes room
    with the next call, for a key that it has too."""
    inserted: dict[str, None] = {}
    buckets = _buckets(capacity)
    for key in keys:
        if len(inserted) > buckets * 3 // 4:
            buckets *= 2
        inserted.setdefault(key)
    newest_first = list(inserted)[::-1]
    newest_first.sort(key=lambda key: _spread(key) & buckets - 1)
    return newest_first


def _buckets(capacity: int) -> int:
    return 1 << max(capacity - 1, 0).bit_length()


class JavaQueue(Generic[T]):
    """A PriorityQueue. heapq's order of equal elements is another."""

    def __init__(self, elements: Iterable[T], key: Callable[[T], float]) -> None:
        self._heap: list[tuple[float, T]] = []
        self._key = key
        for element in elements:
            self.push(element)

    def __len__(self) -> int:
        return len(self._heap)

    def push(self, element: T) -> None:
        entry = (self._key(element), element)
        heap, n = self._heap, len(self._heap)
        heap.append(entry)
        while n > 0 and entry[0] < heap[(n - 1) // 2][0]:
            heap[n] = heap[(n - 1) // 2]
            n = (n - 1) // 2
        heap[n] = entry

    def pop(self) -> T:
        """The smallest. Raises IndexError where there is none."""
        heap = self._heap
        last, n = heap.pop(), 0
        if not heap:
            return last[1]
        first = heap[0]
        while (child := 2 * n + 1) < len(heap):
            if child + 1 < len(heap) and heap[child][0] > heap[child + 1][0]:
                child += 1
            if last[0] <= heap[child][0]:
                break
            heap[n] = heap[child]
            n = child
        heap[n] = last
        return first[1]
