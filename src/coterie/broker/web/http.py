"""The groups over HTTP, for people and for Prometheus; needs the extra coterie[http]. GET only, but for the console.

/groups            every group with its state and lag
/groups/NAME       one group explained: the same document as `coterie groups why NAME --json`
/groups/NAME/history   its journal lines
/clients           the clients that push metrics (KIP-714), with what each pushed last
/metrics           Prometheus
/console           pages for people (`coterie.web`), where the broker was given them
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from coterie.broker.clients.telemetry import telemetry_clients
from coterie.broker.groups.explanation import ShareOffset, ShareOffsets, explained, partitions_of, total_lags
from coterie.broker.handlers.coordinators.share_groups import describe_offsets
from coterie.broker.handlers.services import ShareServices
from coterie.broker.process.descriptors import listening_sockets
from coterie.broker.process.loggers import LogLines
from coterie.broker.web.handed_groups import journal_records
from coterie.broker.web.metrics import GroupMetrics, MetricSources
from coterie.coordinator.replay import AnyGroup
from coterie.coordinator.share.state import ShareGroup
from coterie.coordinator.share_state.state import NO_OFFSET
from coterie.coordinator.views.classic_group import list_group
from coterie.runtime.http_guard import HttpGuard, error_response
from coterie.wire.errors import Refusal
from coterie.wire.messages.share.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponseGroup,
)

if TYPE_CHECKING:
    import ssl

logger = logging.getLogger(__name__)

SHARE_OFFSETS_WAIT_S = 2.0  # then a page has what there is
LINE_BYTES = 128 * 1024  # of a request: a group's name may have 32 kB, three characters for each in an address


class HttpServer:
    """Runs on the broker's own loop, so that each response shows the state at one moment."""

    def __init__(
        self,
        broker: MetricSources,
        names: Iterable[str] = (),
        console: Callable[[web.Application], None] | None = None,
        *,
        tls: ssl.SSLContext | None = None,
        token: str | None = None,
    ) -> None:
        """``names``: accepted in the Host header, besides the address of the server and of loopback. ``console``: adds
        pages for people. ``token``: what each request must bring as a bearer's; None for none."""
        self._tls, self._guard = tls, HttpGuard(names, token, "coterie broker --http-name")
        self._broker, self._console = broker, console
        self._metrics = GroupMetrics(broker)
        self._runner: web.AppRunner | None = None

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listens; returns the address. Raises OSError."""
        self._guard.add_name(host)
        most = (
            1024 if self._console is None else 1024 * 1024
        )  # bytes of a request's body: the console may write records
        app = web.Application(client_max_size=most, middlewares=[self._guard.check])
        app.router.add_get("/", self._index)
        app.router.add_get("/groups", self._groups)
        app.router.add_get("/groups/{group}", self._group)
        app.router.add_get("/groups/{group}/history", self._history)
        app.router.add_get("/clients", self._clients)
        app.router.add_get("/metrics", self._metrics_text)
        if self._console is not None:
            self._console(app)
        logger = _protocol_logger(self._broker.log_lines)
        self._runner = web.AppRunner(app, access_log=None, logger=logger, max_line_size=LINE_BYTES)
        await self._runner.setup()
        for socket in await listening_sockets(host, port, self._broker.log_lines):
            await web.SockSite(self._runner, socket, ssl_context=self._tls).start()
        address = self._runner.addresses[0]
        self._guard.add_name(str(address[0]))
        return str(address[0]), int(address[1])

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _index(self, request: web.Request) -> web.Response:
        if self._console is not None and "text/html" in request.headers.get("Accept", ""):
            raise web.HTTPFound("/console")
        return web.json_response({"paths": ["/groups", "/groups/NAME", "/groups/NAME/history", "/clients", "/metrics"]})

    async def _groups(self, request: web.Request) -> web.Response:
        now_ms = self._broker.clock.now_ms()
        shared = await _share_offsets(self._broker, self._broker.groups.loaded_groups())
        rows = [self._row(group, now_ms, shared) for group in self._broker.groups.loaded_groups()]
        return web.json_response(sorted(rows, key=lambda g: str(g["group"])))

    def _row(self, group: AnyGroup, now_ms: int, shared: Mapping[str, ShareOffsets]) -> dict[str, Any]:
        offsets = shared.get(group.group_id, {})
        lag, lag_ms = total_lags(group, partitions_of(self._broker, group, now_ms, offsets), offsets)
        return {
            "group": group.group_id,
            "state": group.phase.value,
            "type": list_group(group).group_type,
            "generation": group.generation,
            "members": len(group.members),
            "lag": lag,
            "lag_ms": lag_ms,
        }

    async def _group(self, request: web.Request) -> web.Response:
        name = request.match_info["group"]
        try:
            group = self._broker.groups.group(name)
        except Refusal as refusal:
            return error_response(503, refusal.message or refusal.code.name)
        if group is None:
            return error_response(404, f"there is no group {name}")
        shared = await _share_offsets(self._broker, [group])
        return web.json_response(explained(self._broker, group, shared.get(name, {})))

    async def _history(self, request: web.Request) -> web.Response:
        key, lines = request.match_info["group"].encode(), list[str]()
        async for records in journal_records(self._broker.topics):
            lines += [value.decode() for of_group, value in records if of_group == key]
        return web.Response(text=f"[{','.join(lines)}]", content_type="application/json")

    async def _clients(self, request: web.Request) -> web.Response:
        return web.json_response(telemetry_clients(self._broker.clients.telemetry, self._broker.clock.now_ms()))

    async def _metrics_text(self, request: web.Request) -> web.Response:
        shared = await _share_offsets(self._broker, self._broker.groups.loaded_groups())
        return web.Response(body=self._metrics.text(shared), headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})


class _ProtocolLines(logging.Handler):
    """What aiohttp logs: for a request that it cannot read a line, of which ten are written in a second, and no traceback."""

    def __init__(self, log_lines: LogLines) -> None:
        super().__init__()
        self._log_lines = log_lines

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, HttpProcessingError):
            reason = (error.message.splitlines() or [type(error).__name__])[0]
            self._log_lines.warning("an HTTP request that cannot be read: %s", reason[:200])
        elif logger.isEnabledFor(record.levelno):
            logger.handle(record)


def _protocol_logger(log_lines: LogLines) -> logging.Logger:
    made = logging.Logger(f"{__name__}.protocol")
    made.addHandler(_ProtocolLines(log_lines))
    return made


async def _share_offsets(broker: ShareServices, groups: Iterable[AnyGroup]) -> dict[str, ShareOffsets]:
    """Where each share group among ``groups`` is in its partitions, by its id. Share coordinators, here or on other brokers,
    have it, so a page waits; a group whose coordinator does not respond in time is left out."""
    offsets: dict[str, ShareOffsets] = {}
    everything = asyncio.Event()
    waiting = {group.group_id for group in groups if isinstance(group, ShareGroup)}

    def described(group_id: str, response: DescribeShareGroupOffsetsResponseGroup) -> None:
        offsets[group_id] = {
            (topic.topic_name, row.partition_index): ShareOffset(row.start_offset, None if row.lag < 0 else row.lag)
            for topic in response.topics
            for row in topic.partitions
            if not row.error_code and row.start_offset != NO_OFFSET
        }
        waiting.discard(group_id)
        if not waiting:
            everything.set()

    for group_id in sorted(waiting):
        describe_offsets(broker, DescribeShareGroupOffsetsRequestGroup(group_id, None), partial(described, group_id))
    if waiting:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SHARE_OFFSETS_WAIT_S):
                await everything.wait()
    return dict(offsets)
