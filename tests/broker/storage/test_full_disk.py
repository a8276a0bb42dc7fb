"""No space left: every API is answered, by codes where it must write; no connection ends and no traceback is logged.

What is written is refused from the start (`__consumer_offsets` and `__transaction_state` cannot be made), or from when topics,
groups and a transaction are there. When there is room again, the broker goes on without a restart.
"""

from __future__ import annotations

import errno
import logging
from typing import Any

import pytest

from coterie.log.filesystem import MemoryFile, MemoryFileSystem
from coterie.wire.apis import APIS
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from coterie.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from coterie.wire.messages.groups.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.broker.connections.test_server import broker, produce, run
from tests.broker.handlers.test_every_version import REQUESTS, Made, error_codes, prepare

NOTHING_MADE: Made = {"topic_id": bytes(16), "member": "m", "producer": 7}
FETCH, API_VERSIONS = 1, 18


class Disk:
    """Refuses what is written to it while it is ``full``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = False
        for owner, name in (
            (MemoryFile, "append"),
            (MemoryFile, "reserve"),
            (MemoryFileSystem, "make_directory"),
            (MemoryFileSystem, "write_file"),
        ):
            monkeypatch.setattr(owner, name, self._checked(getattr(owner, name)))

    def _checked(self, write: Any) -> Any:
        def checked(*args: Any) -> Any:
            if self.full:
                raise OSError(errno.ENOSPC, "No space left on device")
            return write(*args)

        return checked


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def requests(made: Made) -> dict[int, Message]:
    """A request of each API; those that commit, produce and join with something in them."""
    join = JoinGroupRequest("g", 10_000, 10_000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"m")])
    commit = OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 5, -1, committed_metadata="")])
    plain = {key: api.request() for key, api in APIS.items() if key != API_VERSIONS}
    written = {0: produce(), 8: OffsetCommitRequest("simple", topics=[commit]), 11: join}
    return plain | {key: request(made) for key, request in REQUESTS.items()} | written


def version_of(key: int) -> int:
    """The newest that names topics: ids are for topics that are there."""
    return {FETCH: 12, 0: 12, 8: 9}.get(key, APIS[key].advertised.last)


@pytest.mark.parametrize("full_from_the_start", [True, False])
@pytest.mark.parametrize("key", sorted(APIS.keys() - {API_VERSIONS}), ids=lambda key: APIS[key].name)
def test_every_api_is_answered(
    key: int, full_from_the_start: bool, disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with broker() as connect:
            client = await connect()
            made = NOTHING_MADE if full_from_the_start else await prepare(client)
            disk.full = True
            await client.ask(requests(made)[key], APIS[key].response, version_of(key))
            disk.full = False
            again = await client.ask(FindCoordinatorRequest("g", 0, ["g"]), APIS[10].response, 4)
            assert not any(error_codes(again))

    with caplog.at_level(logging.WARNING):
        run(story)
    assert not [r.getMessage() for r in caplog.records if r.exc_info or "closed" in r.getMessage()]


async def test_a_coordinator_without_its_topic_is_not_available(disk: Disk) -> None:
    """Kafka's response where __consumer_offsets cannot be made (KafkaApis.getCoordinator)."""
    async with broker() as connect:
        client = await connect()
        disk.full = True
        for key in (10, 11, 12, 22):
            request = requests(NOTHING_MADE)[key]
            if key == 22:
                request.transactional_id, request.transaction_timeout_ms = "x", 60_000  # type: ignore[attr-defined]
            response = await client.ask(request, APIS[key].response, version_of(key))
            assert set(error_codes(response)) - {0} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}, response
