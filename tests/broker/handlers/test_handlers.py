"""The table of handlers agrees with the list of APIs, and an import that fails at a first request harms that request alone."""

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
from coterie.wire.framing import decode_response, encode_request
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.broker.fake_transport import FakeTransport
from tests.broker.frames_broker import FramesBroker

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
