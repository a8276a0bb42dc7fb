"""What a reader may change where --allow-changes is given: shown first, as `--dry-run` shows it, then done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from coterie.client import Admin, Producer
from coterie.client.admin.offset_resets import EARLIEST, LATEST, by_records, reset_offsets
from coterie.client.admin_types import GroupState
from coterie.text.phrase import PhrasedError

MOST = 2**63 - 1  # of a number of Kafka's
Table = dict[str, Any]  # headers and rows, for a person
Change = Callable[["Changes", dict[str, Any], bool], Awaitable[Table]]


class UnfitChange(PhrasedError):
    """A request for a change that has not the fields that it needs."""


class RefusedChange(PhrasedError):
    """A change that the group or topic does not allow as it is."""


class Changes:
    """Of the cluster that the client settings name."""

    def __init__(self, client: dict[str, Any]) -> None:
        self._client = {"default.api.timeout.ms": "10000"} | client

    async def work(self, change: dict[str, Any], *, dry_run: bool) -> Table:
        """A table of what it does, or with ``dry_run`` would do. Raises UnfitChange, RefusedChange, KafkaError."""
        kind = KINDS.get(str(change.get("kind")))
        if kind is None:
            raise UnfitChange("not_one_of", name="kind", values=tuple(KINDS))
        return await kind(self, change, dry_run)

    async def reset(self, change: dict[str, Any], dry_run: bool) -> Table:
        """Sets a group's committed offsets: `group`, `to` (earliest, latest, an offset, or a time in ms as `time_ms`)."""
        group, to = _text(change, "group"), str(change.get("to", ""))
        named = {"earliest": EARLIEST, "latest": LATEST}
        if change.get("time_ms") is not None:
            choose = by_records(timestamp_ms=_number(change, "time_ms"))
        elif to in named:
            choose = by_records(timestamp_ms=named[to])
        elif to.isascii() and to.isdigit():
            choose = by_records(offset=int(to))
        else:
            raise UnfitChange("not_one_of", name="to", values=(*named, "an offset"))
        async with Admin(self._client) as admin:
            if dry_run:
                await _refuse_members(admin, group)
            offsets = await reset_offsets(admin, group, (), choose, dry_run=dry_run)
        return {
            "headers": ["topic", "partition", "from", "to"],
            "rows": [[tp.topic, tp.partition, before, after] for tp, before, after in offsets],
        }

    async def delete_group(self, change: dict[str, Any], dry_run: bool) -> Table:
        """Deletes a group with its offsets: `group`."""
        group = _text(change, "group")
        async with Admin(self._client) as admin:
            await _refuse_members(admin, group)
            offsets = await admin.list_consumer_group_offsets(group)
            if not dry_run:
                await admin.delete_consumer_group(group)
        return {
            "headers": ["topic", "partition", "from", "to"],
            "rows": [[tp.topic, tp.partition, offset, None] for tp, offset in sorted(offsets.items())],
        }

    async def produce(self, change: dict[str, Any], dry_run: bool) -> Table:
        """Writes a record: `topic`, `value`, `key`, `partition` (null: by the key)."""
        topic, value = _text(change, "topic"), change.get("value")
        key, partition = change.get("key"), None
        if change.get("partition") is not None:
            partition = _number(change, "partition")
        for name, given in (("key", key), ("value", value)):
            if given is not None and not isinstance(given, str):
                raise UnfitChange("not_a_text", name=name)
        row: list[Any] = [topic, partition, None, key, value]
        async with Admin(self._client) as admin:
            there = [tp.partition for tp in await admin.partitions([topic])]
        if not there or (partition is not None and partition not in there):
            raise RefusedChange("no_partition")
        if not dry_run:
            async with Producer(self._client) as producer:
                data = None if value is None else value.encode()
                sent = await producer.send_and_wait(
                    topic, data, None if key is None else key.encode(), partition=partition
                )
            row[1:3] = [sent.partition, sent.offset]
        return {"headers": ["topic", "partition", "offset", "key", "value"], "rows": [row]}


KINDS: dict[str, Change] = {
    "reset": Changes.reset,
    "delete_group": Changes.delete_group,
    "produce": Changes.produce,
}


async def _refuse_members(admin: Admin, group: str) -> None:
    described = await admin.describe_consumer_group(group)
    if described.members:
        raise RefusedChange("group_has_members", group=group)
    if described.state is GroupState.DEAD:
        raise RefusedChange("no_group", group=group)


def _text(change: dict[str, Any], name: str) -> str:
    value = change.get(name)
    if not isinstance(value, str) or not value:
        raise UnfitChange("not_a_text", name=name)
    return value


def _number(change: dict[str, Any], name: str) -> int:
    value = change.get(name)
    if type(value) is not int or not 0 <= value <= MOST:
        raise UnfitChange("not_a_number", name=name, least=0, most=MOST)
    return value
