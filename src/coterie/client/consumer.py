"""The consumer: a member machine driven by asyncio, a fetcher, and commits.

Rebalance callbacks run in the task that polls, as in Kafka; heartbeats go out from a task of their own. Not for use by
two tasks at once: that raises RuntimeError.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar

from coterie.client.cluster import Cluster
from coterie.client.errors import CommitFailedError, ConfigError, KafkaError
from coterie.client.fetcher import Fetcher, TopicPartition
from coterie.client.membership import Membership
from coterie.client.offsets import commit_offsets, committed_offsets, list_offsets
from coterie.client.settings import ClientSettings
from coterie.member.machine import (
    Revoke,
)
from coterie.records.batch import Record
from coterie.wire.errors import ErrorCode

R = TypeVar("R")

_RESET = {"earliest": -2, "latest": -1}
_COMMIT_TOO_LATE = frozenset(
    {ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS}
)


class RebalanceListener:
    """Told of partitions that come and go. Subclass it; methods may be plain or async."""

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> Any:
        """They are still ours: a last chance to commit."""

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> Any:
        """They are ours from now on."""

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> Any:
        """They may have new owners already; by default as revoked."""
        return self.on_partitions_revoked(partitions)


class Consumer:
    """Settings by Kafka's names; ``group.id`` is needed for `subscribe` and commits."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.settings = ClientSettings(settings)
        self._cluster = Cluster(self.settings)
        self._fetcher = Fetcher(self._cluster)
        self._group_id: str | None = self.settings["group.id"]
        self._membership: Membership | None = None
        self._listener = RebalanceListener()
        self._coordinator: int | None = None
        self._polling = False
        self._next_commit_s = 0.0
        self.generation = -1

    async def __aenter__(self) -> Consumer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -- what to read -------------------------------------------------------------------------------------------------

    def subscribe(self, topics: Iterable[str], listener: RebalanceListener | None = None) -> None:
        """Joins the group at the next poll. Raises ConfigError without a group.id or with unknown assignors."""
        if self._group_id is None:
            raise ConfigError("subscribe needs a group.id; use assign to read without a group")
        if self._membership is None:
            if self._fetcher.positions:
                raise ConfigError("subscribe and assign cannot be mixed")
            self._membership = Membership(self._cluster, self._group_id, self._fetcher.arrived.set)
        self._listener = listener or self._listener
        self._membership.subscribe(frozenset(topics))
        self._next_commit_s = time.monotonic() + self.settings["auto.commit.interval.ms"] / 1000

    async def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Reads these partitions, without membership: from the committed offset, else by auto.offset.reset."""
        if self._membership is not None:
            raise ConfigError("subscribe and assign cannot be mixed")
        await self._start_at(list(partitions))

    def assignment(self) -> set[TopicPartition]:
        return set(self._fetcher.positions)

    # -- polling ------------------------------------------------------------------------------------------------------

    async def poll(self, timeout_ms: int = 0, max_records: int | None = None) -> dict[TopicPartition, list[Record]]:
        """Records by partition; empty when none came in time. Raises KafkaError, and what a listener raised."""
        if self._polling:
            raise RuntimeError("two tasks use this consumer at once; give each its own")
        self._polling = True
        try:
            return await self._poll(
                time.monotonic() + timeout_ms / 1000, max_records or self.settings["max.poll.records"]
            )
        finally:
            self._polling = False

    async def _poll(self, deadline_s: float, limit: int) -> dict[TopicPartition, list[Record]]:
        while True:
            if self._membership is not None:
                self._membership.polled()
                await self._run_callbacks(self._membership)
                if self._membership.failure is not None:
                    raise self._membership.failure
            await self._auto_commit()
            await self._reset_positions()
            if self._fetcher.error is not None:
                error, self._fetcher.error = self._fetcher.error, None
                raise error
            polled = self._fetcher.take(limit)
            left_s = deadline_s - time.monotonic()
            if polled or left_s <= 0:
                return polled
            self._fetcher.arrived.clear()
            try:
                await asyncio.wait_for(self._fetcher.arrived.wait(), left_s)
            except TimeoutError:
                continue

    def __aiter__(self) -> AsyncIterator[tuple[TopicPartition, Record]]:
        return self._each()

    async def _each(self) -> AsyncIterator[tuple[TopicPartition, Record]]:
        while True:
            for partition, records in (await self.poll(1000)).items():
                for record in records:
                    yield partition, record

    async def _run_callbacks(self, membership: Membership) -> None:
        while membership.for_poll:
            effect = membership.for_poll.pop(0)
            if isinstance(effect, Revoke):
                await self._revoke(membership, effect)
            else:
                self.generation = effect.generation
                await self._start_at(list(effect.partitions))
                await _call(self._listener.on_partitions_assigned(list(effect.partitions)))

    async def _revoke(self, membership: Membership, effect: Revoke) -> None:
        partitions = list(effect.partitions)
        try:
            if not effect.lost and self.settings["enable.auto.commit"]:
                await self._try_commit()
            told = self._listener.on_partitions_lost if effect.lost else self._listener.on_partitions_revoked
            await _call(told(partitions))
        finally:
            self._fetcher.assign({})
            membership.revoked()

    async def _start_at(self, partitions: list[TopicPartition]) -> None:
        await self._cluster.topics({t for t, _ in partitions})
        known = await self.committed(partitions) if self._group_id is not None and partitions else {}
        missing = [tp for tp in partitions if known.get(tp, -1) < 0]
        known.update(await self._reset(missing))
        self._fetcher.assign({tp: known[tp] for tp in partitions})

    async def _reset(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        if not partitions:
            return {}
        policy = self.settings["auto.offset.reset"]
        if policy == "none":
            topic, partition = partitions[0]
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{topic}-{partition} has no offset to start from")
        return await list_offsets(self._cluster, dict.fromkeys(partitions, _RESET[policy]))

    async def _reset_positions(self) -> None:
        if self._fetcher.out_of_range:
            lost = list(self._fetcher.out_of_range)
            for partition, offset in (await self._reset(lost)).items():
                if partition in self._fetcher.positions:
                    self._fetcher.seek(partition, offset)

    # -- positions and commits ------------------------------------------------------------------------------------------

    def position(self, partition: TopicPartition) -> int:
        """The offset of the next record that poll returns."""
        return self._fetcher.positions[partition].offset

    def lag(self) -> dict[TopicPartition, int]:
        """Records not read yet, by partition, as of the last fetch; never negative."""
        return {
            tp: max(p.high_watermark - p.offset, 0)
            for tp, p in self._fetcher.positions.items()
            if p.high_watermark >= 0
        }

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._fetcher.seek(partition, offset)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self._fetcher.positions[partition].paused = True

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self._fetcher.positions[partition].paused = False
        self._fetcher.wake()

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return await list_offsets(self._cluster, dict.fromkeys(partitions, -1))

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return await list_offsets(self._cluster, dict.fromkeys(partitions, -2))

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The group's committed offsets; -1 where there is none. Raises KafkaError."""

        async def ask(node: int) -> dict[TopicPartition, int]:
            return await committed_offsets(self._cluster, node, self._group(), partitions)

        return await self._at_coordinator(ask)

    def _group(self) -> str:
        if self._group_id is None:
            raise ConfigError("committed offsets need a group.id")
        return self._group_id

    async def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Commits positions, or the offsets given. Raises CommitFailedError when the group has moved on."""
        if offsets is None:
            offsets = {tp: p.offset for tp, p in self._fetcher.positions.items()}
        if not offsets:
            return
        member, generation = "", -1
        if self._membership is not None:
            member, generation = self._membership.machine.member_id, self._membership.machine.generation
        wanted = dict(offsets)

        async def send(node: int) -> None:
            instance_id = self.settings["group.instance.id"]
            await commit_offsets(self._cluster, node, self._group(), wanted, generation, member, instance_id)

        try:
            await self._at_coordinator(send)
        except KafkaError as error:
            if error.code in _COMMIT_TOO_LATE:
                raise CommitFailedError(error.code) from error
            raise

    async def _at_coordinator(self, work: Callable[[int], Awaitable[R]]) -> R:
        """Runs ``work(node)``, looking the coordinator up again after errors that call for it."""
        deadline_s = time.monotonic() + self._cluster.timeout_s
        while True:
            try:
                if self._coordinator is None:
                    self._coordinator = await self._cluster.find_coordinator(self._group())
                return await work(self._coordinator)
            except KafkaError as error:
                if not error.code.retriable or time.monotonic() > deadline_s:
                    raise
                self._coordinator = None
                await asyncio.sleep(self.settings["retry.backoff.ms"] / 1000)

    async def _auto_commit(self) -> None:
        due = self.settings["enable.auto.commit"] and time.monotonic() >= self._next_commit_s
        if self._membership is None or not due:
            return
        self._next_commit_s = time.monotonic() + self.settings["auto.commit.interval.ms"] / 1000
        if self._membership.is_stable():
            await self._try_commit()

    async def _try_commit(self) -> None:
        try:
            await self.commit()
        except KafkaError:
            return  # an automatic commit that fails is made up for by the next one

    # -- ending -------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Commits if that is automatic, leaves the group (a static member does not), closes."""
        if self._membership is not None:
            if self.settings["enable.auto.commit"] and self._membership.is_stable():
                await self._try_commit()
            if self._fetcher.positions:
                await _call(self._listener.on_partitions_revoked(list(self._fetcher.positions)))
            await self._membership.leave()
        await self._fetcher.close()
        self._cluster.close()


async def _call(result: Any) -> None:
    if hasattr(result, "__await__"):
        await result
