"""The table of handlers agrees with the list of APIs, and an import that fails at a first request harms that request
alone. Leader epochs and refusals in requests for records, as Apache Kafka 3.9.1 and 4.3.0 answered the same requests."""

from __future__ import annotations

import errno
import inspect
import re
from importlib import import_module
from typing import Any

import pytest

from coterie.broker import handlers
from coterie.broker.connections.accepted_connection import AcceptedConnection
from coterie.broker.connections.request_queue import ROUTES
from coterie.broker.handlers import HANDLERS, MODULES
from coterie.laboratory.world import World
from coterie.wire import apis
from coterie.wire.apis import APIS, CLUSTER_APIS, Api
from coterie.wire.errors import ErrorCode
from coterie.wire.framing import decode_response, encode_request
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest, HeartbeatResponse
from coterie.wire.messages.logs.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from coterie.wire.messages.logs.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.broker.connections.test_server import broker
from tests.broker.frames_broker import FakeTransport, FramesBroker
from tests.broker.handlers.test_old_versions import append, batch, create, fetch

EVERY = {**APIS, **CLUSTER_APIS}
HEARTBEAT, VERSION = 12, 4
# The newest advertised, the newest of the messages.
FEWER_ADVERTISED = {"ListOffsets": (10, 11), "InitProducerId": (5, 6)}


def test_each_api_has_one_handler() -> None:
    assert sorted(key for keys in MODULES.values() for key in keys) == sorted(EVERY) == sorted(HANDLERS)


@pytest.mark.parametrize("module", MODULES)
def test_a_module_has_the_handlers_of_its_apis(module: str) -> None:
    rows = import_module(f"coterie.broker.handlers.{module}").HANDLERS
    assert tuple(rows) == MODULES[module]
    for key, handler in rows.items():
        api = EVERY[key]
        assert handler.__name__ == "handle_" + re.sub(r"(?<!^)(?=[A-Z])", "_", api.name).lower()
        _, request, _ = inspect.signature(handler).parameters.values()
        assert request.annotation == api.request.__name__


@pytest.mark.parametrize("api", EVERY.values(), ids=lambda api: api.name)
def test_the_advertised_versions_are_those_of_the_messages(api: Api) -> None:
    assert (api.request.api_key, api.response.api_key) == (api.key, api.key)
    assert api.request.versions == api.response.versions
    advertised, declared = api.advertised, api.request.versions
    newest = FEWER_ADVERTISED.get(api.name, (declared.last, declared.last))
    assert (advertised.first, advertised.last, declared.last) == (declared.first, *newest)


def test_every_handler_is_imported_without_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, keys in MODULES.items():
        for key in keys:
            monkeypatch.setitem(HANDLERS, key, handlers._at_first_use(key, module))
    assert list(handlers.import_all()) == list(MODULES)
    assert {key: handler.__module__.removeprefix("coterie.broker.handlers.") for key, handler in HANDLERS.items()} == {
        key: module for module, keys in MODULES.items() for key in keys
    }


class _Connection:
    def __init__(self, broker: FramesBroker) -> None:
        self.transport, self._world = FakeTransport(), broker.world
        self._connection = AcceptedConnection(broker)
        self._connection.connection_made(self.transport)

    def heartbeat(self) -> int | None:
        """The error code of the response; None where the connection was closed instead."""
        self._connection.data_received(encode_request(1, "c", HeartbeatRequest("g", 1, "m"), VERSION))
        self._world.run_until(self._world.now_ms)  # it waits for a turn where an import has taken the time of this one
        if not self.transport.written:
            return None
        return decode_response(HeartbeatResponse, self.transport.written[0][4:], VERSION).error_code


@pytest.mark.parametrize("of", [handlers, apis], ids=["handler", "messages"])
def test_a_failed_import_ends_one_connection(of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(HANDLERS, HEARTBEAT, handlers._at_first_use(HEARTBEAT, "coordinators.groups"))
    for key in [key for key, route in ROUTES.items() if route.api_key == HEARTBEAT]:
        monkeypatch.delitem(ROUTES, key)
    apis._message.cache_clear()
    broker, lacking = FramesBroker(World(1)), OSError(errno.EMFILE, "Too many open files")
    with monkeypatch.context() as patched:
        patched.setattr(of, "import_module", lambda _: (_ for _ in ()).throw(lacking))
        first = _Connection(broker)
        assert first.heartbeat() is None
        assert first.transport.is_closing()
    assert _Connection(broker).heartbeat() is not None
    assert HANDLERS[HEARTBEAT].__name__ == "handle_heartbeat"


@pytest.mark.parametrize(
    ("epoch", "received"),
    [(0, (0, 2)), (1, (-1, -1)), (-1, (-1, -1)), (-5, (-5, 0))],
    ids=["own", "later", "none", "earlier"],
)
async def test_where_an_epoch_ends(epoch: int, received: tuple[int, int]) -> None:
    async with broker() as connect:
        client = await connect()
        await create(client, "t")
        await append(client, batch(b"a", b"b"))
        topics = [OffsetForLeaderTopic("t", [OffsetForLeaderPartition(0, leader_epoch=epoch)])]
        response = await client.ask(OffsetForLeaderEpochRequest(topics=topics), OffsetForLeaderEpochResponse, 3)
        end = response.topics[0].partitions[0]
        assert (end.error_code, end.leader_epoch, end.end_offset) == (ErrorCode.NONE, *received)


@pytest.mark.parametrize(("epoch", "code"), [(-2, 0), (-1, 0), (0, 0), (5, ErrorCode.UNKNOWN_LEADER_EPOCH)])
async def test_a_fetch_with_a_leader_epoch(epoch: int, code: int) -> None:
    """A negative one is none."""
    async with broker() as connect:
        client = await connect()
        await create(client, "t")
        await append(client, batch(b"a"))
        requested = FetchPartition(0, current_leader_epoch=epoch, fetch_offset=0, partition_max_bytes=1000)
        request = FetchRequest(max_wait_ms=0, min_bytes=1, topics=[FetchTopic("t", partitions=[requested])])
        data = (await client.ask(request, FetchResponse, 12)).responses[0].partitions[0]
        assert data.error_code == code
        assert (data.high_watermark == -1, data.records == b"") == (bool(code), bool(code))


async def test_what_a_refused_partition_holds() -> None:
    """Nothing but -1, and no records where they are there but cannot be read by the client (Fetch 3 has no transactions)."""
    async with broker() as connect:
        client = await connect()
        await create(client, "t", compression_type="zstd")
        await append(client, batch(b"a"))
        beyond, unreadable = await fetch(client, 11, 9), await fetch(client, 3)
        for data in (beyond, unreadable):
            assert (data.high_watermark, data.last_stable_offset, data.log_start_offset) == (-1, -1, -1)
        assert (beyond.error_code, beyond.records, beyond.aborted_transactions) == (1, b"", None)
        assert (unreadable.error_code, unreadable.records, unreadable.aborted_transactions) == (76, None, [])
