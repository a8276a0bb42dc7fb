"""Records of one partition for a page: some of them, by offset or time."""

from __future__ import annotations

import asyncio
from typing import Any

from coterie.client import Admin, Consumer, Record, TopicPartition
from coterie.client.errors import CorruptBatchError
from coterie.web.records.payloads import Payload, payload
from coterie.web.records.schema_registry import SchemaRegistry

MOST_RECORDS = 200
WAIT_S, POLL_MS = 3.0, 500
READING_S = 5.0  # of all values of a page by their schemas; those after it are shown as they are
END, START = -1, -2


class RecordReader:
    """Of the cluster that the client settings name. ``registry`` has the schemas of values and keys; None for none."""

    def __init__(self, client: dict[str, Any], registry: SchemaRegistry | None = None) -> None:
        self._client, self._registry = client, registry

    async def read(
        self, topic: str, partition: int, *, offset: int | None = None, time_ms: int | None = None, count: int = 50
    ) -> dict[str, Any] | None:
        """From an offset, or the first record at or after a time; without both, the last ``count``. None where there is no such
        partition. Raises KafkaError."""
        tp, most = TopicPartition(topic, partition), min(max(count, 1), MOST_RECORDS)
        async with Admin({"default.api.timeout.ms": "5000"} | self._client) as admin:
            if tp not in await admin.partitions([topic]):
                return None
            start = (await admin.list_offsets({tp: START}))[tp]
            end = (await admin.list_offsets({tp: END}))[tp]
            if time_ms is not None:
                at = (await admin.list_offsets({tp: time_ms}))[tp]
                offset = end if at < 0 else at
        begin = min(max(end - most if offset is None else offset, start), end)
        records = await self._from(tp, begin, end, most) if begin < end else []
        until_s = asyncio.get_running_loop().time() + READING_S
        return {
            "topic": topic,
            "partition": partition,
            "start": start,
            "end": end,
            "from": begin,
            "records": [await self._row(record, until_s) for record in records],
        }

    async def _from(self, tp: TopicPartition, begin: int, end: int, most: int) -> list[Record]:
        """Up to ``most`` before ``end``, and what comes in three seconds: a log may have gaps."""
        records: list[Record] = []
        settings = {"enable.auto.commit": "false", "auto.offset.reset": "none", "fetch.max.bytes": "4194304"}
        loop = asyncio.get_running_loop()
        async with Consumer(self._client | settings) as consumer:
            await consumer.assign([tp])
            consumer.seek(tp, begin)
            until_s = loop.time() + WAIT_S
            while len(records) < most and consumer.position(tp) < end and loop.time() < until_s:
                try:
                    polled = await consumer.poll(POLL_MS, most)
                except CorruptBatchError as error:
                    consumer.seek(tp, error.next_offset)
                    continue
                records += [record for record in polled.get(tp, ()) if record.offset < end]
        return records[:most]

    async def _row(self, record: Record, until_s: float) -> dict[str, Any]:
        return {
            "offset": record.offset,
            "time_ms": record.timestamp_ms,
            "key": (await self._payload(record.key, until_s))._asdict(),
            "value": (await self._payload(record.value, until_s))._asdict(),
            "headers": [[name, payload(value)._asdict()] for name, value in record.headers],
        }

    async def _payload(self, data: bytes | None, until_s: float) -> Payload:
        if self._registry is None or asyncio.get_running_loop().time() > until_s:
            return payload(data)
        return await self._registry.payload(data)
