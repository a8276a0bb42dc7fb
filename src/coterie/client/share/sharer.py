"""The driver of the sharing machine (`consuming/sharing`) on an event loop: a task per request, a timer for pauses."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Iterable
from typing import Any

from coterie.client.connection.cluster import DATA, Cluster
from coterie.client.connection.handshake import response_type
from coterie.client.errors import KafkaError, client_error
from coterie.client.pauses.clock import now_ms
from coterie.client.pauses.retrying import backoff_of
from coterie.client.settings.settings import ClientSettings
from coterie.client.types import TopicPartition
from coterie.consuming.sharing.acknowledgements import Acknowledgements
from coterie.consuming.sharing.completed_fetch import CompletedShareFetch
from coterie.consuming.sharing.node import BATCH_OPTIMIZED, RECORD_LIMIT, RefreshLeaders, SendShare, SharingConfig
from coterie.consuming.sharing.sharing import Sharing
from coterie.wire.errors import ErrorCode

RENEWS_FROM = 2  # the version of ShareFetch and ShareAcknowledge


def share_config(settings: ClientSettings, group_id: str, member_id: str) -> SharingConfig:
    """The machine's settings."""
    return SharingConfig(
        group_id,
        member_id,
        min_bytes=settings.fetch_min_bytes,
        max_bytes=settings.fetch_max_bytes,
        max_wait_ms=settings.fetch_max_wait_ms,
        max_poll_records=settings.max_poll_records,
        acquire_mode=RECORD_LIMIT if settings.share_acquire_mode == "record_limit" else BATCH_OPTIMIZED,
        check_crcs=settings.check_crcs,
        backoff=backoff_of(settings),
    )


class Sharer:
    """Acquires records and acknowledges them. ``arrived`` is set with everything that a poll or a commit may wait for."""

    def __init__(self, cluster: Cluster, config: SharingConfig) -> None:
        self._cluster = cluster
        self.machine = Sharing(config, cluster.known)
        self.arrived = asyncio.Event()
        self.counts = {"share_fetches": 0, "share_acknowledges": 0}
        self.completed: list[Acknowledgements] = []  # ended, and not reported to the callback yet
        self._awaited: dict[Acknowledgements, asyncio.Future[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._turn: asyncio.Handle | None = None
        self._closing = self._closed = False

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Records of these are acquired and no others."""
        self.machine.assign(partitions)
        self.wake()

    def buffered(self) -> deque[CompletedShareFetch]:
        """What is acquired, and not handed out yet: over connections that are still open."""
        for node_id in {each.node_id for each in self.machine.buffered}:
            if self._cluster.open_connection(node_id, DATA) is None:
                self.machine.disconnected(node_id)
        return self.machine.buffered

    def want(self, acknowledged: Iterable[Acknowledgements]) -> None:
        """Acquires records, until there are some; the acknowledgements travel with the request."""
        self.machine.want(acknowledged)
        self.wake()

    def commit(self, acknowledged: list[Acknowledgements], limit_ms: float) -> list[asyncio.Future[None]]:
        """Sends the acknowledgements by themselves, again where that may help, for so long at most; a future for the end of
        each."""
        futures = [asyncio.get_running_loop().create_future() for _ in acknowledged]
        self._awaited |= dict(zip(acknowledged, futures, strict=True))
        self.machine.commit(acknowledged, now_ms() + limit_ms)
        self._settle()
        self.wake()
        return futures

    def _settle(self) -> None:
        ended, self.machine.ended = self.machine.ended, []
        for each in ended:
            future = self._awaited.pop(each, None)
            if future is not None and not future.done():
                future.set_result(None)
        self.completed += ended
        if ended:
            self.arrived.set()

    def wake(self) -> None:
        """Has what is due carried out in the next turn of the loop."""
        if not self._closed and self._turn is None:
            self._turn = asyncio.get_running_loop().call_soon(self._proceed)

    def _proceed(self) -> None:
        self._turn = None
        if self._closed:
            return
        for effect in self.machine.next(now_ms()):
            self._start(self._send(effect) if isinstance(effect, SendShare) else self._refresh(effect))
        self._settle()
        if self._closing:
            self.arrived.set()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline_ms = self.machine.next_deadline_ms()
        if deadline_ms is not None:
            delay_s = max(deadline_ms - now_ms(), 0) / 1000
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._proceed)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, sent: SendShare) -> None:
        request, machine = sent.request, self.machine
        self.counts["share_fetches" if "Fetch" in type(request).__name__ else "share_acknowledges"] += 1
        try:
            connection = await self._cluster.connection(sent.node_id)
            if request.is_renew_ack and connection.version_of(type(request)) < RENEWS_FROM:
                text = "AcknowledgeType.RENEW needs ShareAcknowledge version 2, which Apache Kafka has from 4.2 on"
                raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
            timeout_s = self._cluster.timeout_s + 1
            response = await connection.request(request, response_type(request), timeout_s)
            machine.responded(sent, response, now_ms())
        except Exception as raised:  # the next poll raises a bug, and requests to the brokers go on
            error = client_error(raised)
            if machine.is_awaited(sent):
                machine.failed(sent, error.code, str(error).removeprefix(f"{error.code.name}: "), now_ms())
            else:
                machine.errors.append((None, error.code, str(error)))
        self._settle()
        self.arrived.set()
        self.wake()

    async def _refresh(self, refresh: RefreshLeaders) -> None:
        try:
            await self._cluster.refresh(refresh.topics)
        except Exception as raised:
            error = client_error(raised)
            if not error.retriable:  # else the machine continues with the leaders that are known
                self.machine.errors.append((None, error.code, str(error)))
                self.arrived.set()
        self.machine.leaders_refreshed(refresh, now_ms())
        self.wake()

    async def close(self, acknowledged: Iterable[Acknowledgements], timeout_s: float) -> None:
        """Sends the last acknowledgements and ends the sessions; takes no longer than that."""
        self._closing = True
        self.machine.close(acknowledged)
        self.wake()
        try:
            async with asyncio.timeout(timeout_s):
                while not self.machine.is_closed:
                    await self.arrived.wait()
                    self.arrived.clear()
        except TimeoutError:
            pass
        finally:
            self.end()

    def end(self) -> None:
        """Sends nothing any more."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()
