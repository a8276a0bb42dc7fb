"""Which partition a record goes to: Kafka's murmur2 of the key, so that every client agrees (KIP-480 for no key). And how many
partitions topics have: looked up with the first record, and again at times."""

from __future__ import annotations

import asyncio
import time
from functools import lru_cache

from coterie.client import arguments
from coterie.client.connection.cluster import Cluster
from coterie.client.errors import KafkaError
from coterie.client.pauses.loop_clock import pause
from coterie.client.pauses.retrying import Retrying
from coterie.records import compiled
from coterie.wire.errors import ErrorCode

CLOSED = "this producer is closed; make a new one"
_M, _R, _SEED, _MASK = 0x5BD1E995, 24, 0x9747B28C, 0xFFFF_FFFF


def murmur2(data: bytes) -> int:
    """Kafka's 32-bit murmur2, unsigned; `compiled.murmur2` is the same in a tenth of the time."""
    length = len(data)
    h = _SEED ^ length
    whole = length & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _M & _MASK
        k = (k ^ k >> _R) * _M & _MASK
        h = (h * _M & _MASK) ^ k
    rest = data[whole:]
    if rest:
        h = (h ^ int.from_bytes(rest, "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


_hash = compiled.murmur2 if compiled.ENCODING_COMPILED else lru_cache(100_000)(murmur2)


def partition_for_key(key: bytes, partitions: int) -> int:
    """The partition of a key, from 0 to ``partitions`` - 1 (Kafka's BuiltInPartitioner.partitionForKey)."""
    return (_hash(key) & 0x7FFF_FFFF) % partitions


class PartitionCounts:
    """``known``: by topic, of each that was looked up."""

    def __init__(self, cluster: Cluster) -> None:
        self.known: dict[str, int] = {}
        self._cluster, self._settings = cluster, cluster.settings
        self._refresh_due_s = self._next_refresh_s()
        self._refreshing: asyncio.Task[None] | None = None
        self._closed = False

    async def having(self, partition: int, topic: str) -> int:
        """As `of`, once the topic has the partition. Raises KafkaError, for a negative one at once."""
        checked_partition(min(partition, 0), topic, self.known[topic])
        return await self.of(topic, least=partition + 1)

    async def of(self, topic: str, limit_ms: float | None = None, *, least: int = 1) -> int:
        """Waits until the topic is there and has at least so many, ``limit_ms`` at most (None: max.block.ms). Raises
        KafkaError; RuntimeError after `close`."""
        limit_s = (self._settings.max_block_ms if limit_ms is None else limit_ms) / 1000
        arguments.text(topic, "topic")
        last: KafkaError | None = None
        retrying = Retrying(self._settings)
        try:
            async with asyncio.timeout(limit_s):
                while not self._closed:
                    try:
                        return await self._look_up(topic, least)
                    except KafkaError as error:
                        pause_s, last = retrying.pause_after_s(error), error
                    await pause(pause_s)
                raise RuntimeError(CLOSED)
        except TimeoutError:
            code = ErrorCode.REQUEST_TIMED_OUT if last is None else last.code
            text = f"topic {topic} was not available within {limit_s:g} s" + ("" if last is None else f" ({last})")
            raise KafkaError(code, text) from last

    async def _look_up(self, topic: str, least: int) -> int:
        look_up = self._cluster.refresh if topic in self.known else self._cluster.topics
        info = (await look_up([topic], create=self._settings.allow_auto_create_topics)).get(topic)
        if info is None or info.error or not info.leaders:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if info is None else info.error
            code = code or ErrorCode.LEADER_NOT_AVAILABLE
            raise KafkaError(code, f"topic {topic}: {code.text}")
        count = self.known[topic] = len(info.leaders)
        is_there = least <= count
        what = f"partition {least - 1} of topic {topic}"
        self._cluster.waits.responded(what, ErrorCode.NONE if is_there else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        checked_partition(least - 1, topic, count)
        return count

    def refresh_when_due(self) -> None:
        """Every metadata.max.age.ms, beside the sends: a topic may have grown."""
        if time.monotonic() < self._refresh_due_s:
            return
        self._refresh_due_s = self._next_refresh_s()
        if self.known and (self._refreshing is None or self._refreshing.done()):
            self._refreshing = asyncio.create_task(self.refresh(list(self.known)))
            self._refreshing.add_done_callback(lambda task: task.cancelled() or task.exception())

    def _next_refresh_s(self) -> float:
        return time.monotonic() + self._settings.metadata_max_age_ms / 1000

    async def refresh(self, topics: list[str]) -> None:
        """A lookup that fails leaves the counts for the next one. Raises KafkaError."""
        for name, info in (await self._cluster.refresh(topics)).items():
            if info.leaders and not info.error:
                self.known[name] = len(info.leaders)
            elif info.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                self.known.pop(name, None)

    def close(self) -> None:
        """Nothing is looked up any more, and what waits raises RuntimeError."""
        self._closed = True
        if self._refreshing is not None:
            self._refreshing.cancel()


def checked_partition(partition: int, topic: str, count: int) -> int:
    """Raises KafkaError for a partition that the topic does not have."""
    if not 0 <= partition < count:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic} has partitions 0 to {count - 1}")
    return partition
