"""How long a rebalance takes: from the moment one more member joins until every member has its assignment."""

from __future__ import annotations

import asyncio
import time

from coterie.client.connection import Connection
from coterie.client.errors import KafkaError, check
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from coterie.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from coterie.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

HEARTBEAT_S = 0.1
TIMEOUT_S = 60.0


class _Member:
    """A member that does nothing but stay in the group."""

    def __init__(self, address: tuple[str, int], group: str) -> None:
        self.address, self.group = address, group
        self.member_id, self.generation = "", -1
        self.settled_at = 0.0
        self.connection: Connection | None = None

    async def run(self) -> None:
        self.connection = await Connection.connect(*self.address, "bench", TIMEOUT_S)
        while True:
            try:
                await self._round()
                self.settled_at = time.perf_counter()
                await self._stay()
            except KafkaError as error:
                if error.code not in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION):
                    raise

    async def _round(self) -> None:
        assert self.connection is not None
        protocols = [JoinGroupRequestProtocol("range", b"")]
        request = JoinGroupRequest(self.group, 30_000, 60_000, self.member_id, None, "consumer", protocols)
        joined = await self.connection.request(request, JoinGroupResponse, TIMEOUT_S, highest=3)
        check(joined.error_code)
        self.member_id, self.generation = joined.member_id, joined.generation_id
        assignments = [SyncGroupRequestAssignment(m.member_id, b"x" * 50) for m in joined.members]
        sync = SyncGroupRequest(self.group, self.generation, self.member_id, assignments=assignments)
        check((await self.connection.request(sync, SyncGroupResponse, TIMEOUT_S, highest=3)).error_code)

    async def _stay(self) -> None:
        assert self.connection is not None
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            request = HeartbeatRequest(self.group, self.generation, self.member_id)
            check((await self.connection.request(request, HeartbeatResponse, TIMEOUT_S)).error_code)


async def rebalance_ms(address: tuple[str, int], members: int) -> float:
    """Milliseconds for a settled group of ``members`` to settle again after one more joins. The members heartbeat
    every 100 ms, so up to that long passes before the last of them hears of it."""
    group = f"rebalance-{members}"
    crew = [_Member(address, group) for _ in range(members)]
    tasks = [asyncio.create_task(m.run()) for m in crew]
    try:
        async with asyncio.timeout(TIMEOUT_S):
            await _settled(crew)
            await asyncio.sleep(0.5)
            await _settled(crew)
            late = _Member(address, group)
            started = time.perf_counter()
            tasks.append(asyncio.create_task(late.run()))
            crew.append(late)
            while min(m.settled_at for m in crew) < started or len({m.generation for m in crew}) > 1:
                for task in tasks:
                    if task.done():
                        task.result()
                await asyncio.sleep(0.001)
            return (max(m.settled_at for m in crew) - started) * 1000
    finally:
        for task in tasks:
            task.cancel()
        for m in crew:
            if m.connection is not None:
                m.connection.close()


async def _settled(crew: list[_Member]) -> None:
    while not (all(m.settled_at for m in crew) and len({m.generation for m in crew}) == 1):
        await asyncio.sleep(0.01)
