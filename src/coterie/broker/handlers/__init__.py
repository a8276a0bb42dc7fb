"""One handler per API: it returns the response, or a `Pending` where the request has to wait. The table is by api key.

A handler's module is imported at the first request of one of its APIs, or by `import_all` once the broker listens: a start
does without them, and a broker that runs does not depend on files that an upgrade replaces.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from coterie.broker.handlers.services import Handler, Services
from coterie.broker.requests.calls import Call
from coterie.broker.requests.pending import Pending
from coterie.wire.declaration import Message

# module -> its APIs; the module's own HANDLERS has their handlers.
MODULES: Mapping[str, tuple[int, ...]] = {
    "logs.records": (0,),
    "logs.list_offsets": (2, 23),
    "logs.fetch": (1,),
    "logs.share_fetch": (78,),
    "logs.share_acknowledge": (79,),
    "cluster": (3, 10, 18, 60, 64, 94),
    "control": (4, 5, 6, 7),
    "coordinators.offsets": (8, 9, 47),
    "coordinators.groups": (11, 12, 13, 14, 15, 16, 42, 30000),
    "security.sasl": (17, 36),
    "administration.topics": (19, 20, 37),
    "logs.delete_records": (21,),
    "coordinators.transactions": (22, 24, 25, 26, 27, 28),
    "security.acls": (29, 30, 31),
    "administration.configs": (32, 74),
    "administration.alter_configs": (33, 44),
    "administration.log_dirs": (34, 35),
    "security.delegation_tokens": (38, 39, 40, 41),
    "administration.partitions": (43, 45, 46, 75),
    "administration.quotas": (48, 49),
    "security.scram": (50, 51),
    "administration.features": (57,),
    "coordinators.transaction_views": (61, 65, 66),
    "coordinators.consumer_groups": (68, 69),
    "coordinators.share_groups": (76, 77, 90, 91, 92),
    "coordinators.streams_groups": (88, 89, 93),
    "coordinators.share_states": (83, 84, 85, 86, 87),
    "telemetry": (71, 72, 30001),
}


def _at_first_use(key: int, module: str) -> Handler:
    """A handler that imports the true one, and puts it in its own position in HANDLERS."""

    def handle(broker: Services, request: Any, call: Call) -> Message | Pending | None:
        if HANDLERS[key] is handle:
            HANDLERS[key] = _handlers_of(module)[key]
        return HANDLERS[key](broker, request, call)

    return handle


def _handlers_of(module: str) -> Mapping[int, Handler]:
    handlers: Mapping[int, Handler] = import_module(f"{__name__}.{module}").HANDLERS
    return handlers


def import_all() -> Iterator[str]:
    """Imports a module with each step, and yields its name. Raises OSError where its file cannot be read."""
    for module in MODULES:
        HANDLERS.update(_handlers_of(module))
        yield module


HANDLERS: dict[int, Handler] = {key: _at_first_use(key, module) for module, keys in MODULES.items() for key in keys}
