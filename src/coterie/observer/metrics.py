"""Prometheus metrics of the observed groups, under the names of a coterie broker's; needs the extra coterie[http].

| metric | labels | meaning |
|---|---|---|
| coterie_group_state | group, state | 1 for the state in which the group was described last |
| coterie_group_generation, coterie_group_members | group | the generation is left out where it is not known |
| coterie_group_lag | group, topic, partition | records between the committed offset and the end; never negative |
| coterie_group_lag_seconds | group, topic, partition | the age of the first record that is not committed; 0 without lag |
| coterie_group_stalled | group, topic, partition | 1 where lag is left and the offset has not moved for a minute |
| coterie_group_redelivered | group, topic, partition | records of a share group that wait for another delivery |
| coterie_group_next_timeout_seconds | group, timeout | until the timeout that expires first, where one is known to run |
| coterie_group_rebalances_total | group, cause, evidence | rebalances that ended, by cause and evidence |
| coterie_group_unowned_seconds_total | group | time without an owner, summed over partitions, where the phases were seen |
| coterie_group_patterns_total | group, pattern | deploys, flapping members, long phases and the other patterns |
| coterie_observer_unread_groups | | groups whose earlier offsets are not read yet: until it is 0, lags may be missing |
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from coterie.client import KafkaError
from coterie.coordinator.journal.line import JournalLine
from coterie.coordinator.journal.patterns import OBSERVED
from coterie.observer.explanations import next_timeout
from coterie.observer.group_descriptions import now_ms
from coterie.observer.lags import REFRESH_EVERY_S, GroupLags
from coterie.observer.machine.observer import GroupObserver
from coterie.runtime.http_guard import HttpGuard

if TYPE_CHECKING:
    import ssl

ENDS = ("stable", "empty", "epoch_raised")


class ObservedMetrics(Collector):
    """Counts the lines that the observer writes; the rest is collected for each request."""

    def __init__(self, machine: GroupObserver, lags: GroupLags) -> None:
        self._machine, self._lags = machine, lags
        self._rebalances: Counter[tuple[str, str, str]] = Counter()
        self._patterns: Counter[tuple[str, str]] = Counter()
        self._unowned_ms: Counter[str] = Counter()
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def text(self) -> bytes:
        """The exposition format."""
        return generate_latest(self._registry)

    def count(self, line: JournalLine) -> None:
        """A line that was written."""
        if line.event in ENDS:
            for kind, evidence in {(cause["kind"], cause.get("evidence", OBSERVED)) for cause in line.causes}:
                self._rebalances[line.group, kind, evidence] += 1
            self._unowned_ms[line.group] += line.unowned_ms or 0
        elif line.event == "pattern_seen":
            self._patterns[line.group, line.causes[0]["kind"]] += 1
        elif line.event == "group_removed":
            self._unowned_ms.pop(line.group, None)
            for counts in (self._rebalances, self._patterns):
                for key in [key for key in counts if key[0] == line.group]:
                    del counts[key]

    def collect(self) -> Iterator[Metric]:
        """As prometheus_client calls it."""
        at_ms = now_ms()
        state = GaugeMetricFamily("coterie_group_state", "1 for the group's state", labels=["group", "state"])
        generation = GaugeMetricFamily("coterie_group_generation", "generation", labels=["group"])
        members = GaugeMetricFamily("coterie_group_members", "members", labels=["group"])
        for name, group in self._machine.groups.items():
            if group.described is not None:
                state.add_metric([name, group.described.state], 1.0)
                members.add_metric([name], len(group.described.members))
            if group.generation >= 0:
                generation.add_metric([name], group.generation)
        timeouts = GaugeMetricFamily(
            "coterie_group_next_timeout_seconds", "until the next timeout expires", labels=["group", "timeout"]
        )
        for name, group in self._machine.groups.items():
            timeout = next_timeout(group, at_ms)
            if timeout is not None:
                timeouts.add_metric([name, timeout.name], timeout.left_ms / 1000)
        yield from (state, generation, members, timeouts)
        yield from self._lag_metrics()
        yield from self._counters()

    def _lag_metrics(self) -> Iterator[Metric]:
        where = ["group", "topic", "partition"]
        lag = GaugeMetricFamily("coterie_group_lag", "records behind the end", labels=where)
        seconds = GaugeMetricFamily("coterie_group_lag_seconds", "age of the first uncommitted record", labels=where)
        stalled = GaugeMetricFamily("coterie_group_stalled", "1 where the offset does not move", labels=where)
        redelivered = GaugeMetricFamily(
            "coterie_group_redelivered", "records of a share group that wait for another delivery", labels=where
        )
        for row in self._lags:
            labels = [row.group, row.topic, str(row.partition)]
            lag.add_metric(labels, row.lag)
            stalled.add_metric(labels, float(row.is_stalled))
            if row.lag_ms is not None:
                seconds.add_metric(labels, row.lag_ms / 1000)
            if row.redelivered is not None:
                redelivered.add_metric(labels, row.redelivered)
        unread = GaugeMetricFamily(
            "coterie_observer_unread_groups", "groups whose offsets are not read yet", self._lags.unread
        )
        yield from (lag, seconds, stalled, redelivered, unread)

    def _counters(self) -> Iterator[Metric]:
        rebalances = CounterMetricFamily(
            "coterie_group_rebalances", "rebalances that ended, by cause", labels=["group", "cause", "evidence"]
        )
        for labels, count in self._rebalances.items():
            rebalances.add_metric([*labels], count)
        unowned = CounterMetricFamily(
            "coterie_group_unowned_seconds", "time of partitions without an owner", labels=["group"]
        )
        for name, unowned_ms in self._unowned_ms.items():
            unowned.add_metric([name], unowned_ms / 1000)
        patterns = CounterMetricFamily(
            "coterie_group_patterns", "what rebalances and phases show", labels=["group", "pattern"]
        )
        for pattern, count in self._patterns.items():
            patterns.add_metric([*pattern], count)
        yield from (rebalances, unowned, patterns)


class MetricsServer:
    """Serves /metrics, and keeps the lags fresh; an async context. ``names`` and ``token``: those of the guard."""

    def __init__(
        self,
        metrics: ObservedMetrics,
        lags: GroupLags,
        names: Iterable[str] = (),
        *,
        tls: ssl.SSLContext | None = None,
        token: str | None = None,
    ) -> None:
        self._metrics, self._lags = metrics, lags
        self._tls, self._guard = tls, HttpGuard(names, token, "coterie observe --http-name")
        self._runner: web.AppRunner | None = None
        self._refreshing: asyncio.Task[None] | None = None
        self._one_at_a_time = asyncio.Lock()

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listens; returns the address. Raises OSError."""
        self._guard.add_name(host)
        app = web.Application(client_max_size=1024, middlewares=[self._guard.check])
        app.router.add_get("/metrics", self._text)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port, ssl_context=self._tls).start()
        self._refreshing = asyncio.create_task(self._refresh())
        address = self._runner.addresses[0]
        return str(address[0]), int(address[1])

    async def __aenter__(self) -> MetricsServer:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._refreshing is not None:
            self._refreshing.cancel()
        if self._runner is not None:
            await self._runner.cleanup()
        self._lags.close()

    async def _refresh(self) -> None:
        while True:
            await self._refresh_once()
            await asyncio.sleep(REFRESH_EVERY_S)

    async def _refresh_once(self) -> None:
        async with self._one_at_a_time:
            with contextlib.suppress(KafkaError):
                await self._lags.refresh()

    async def _text(self, request: web.Request) -> web.Response:
        if not self._lags.is_complete:
            await self._refresh_once()
        return web.Response(body=self._metrics.text(), headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})
