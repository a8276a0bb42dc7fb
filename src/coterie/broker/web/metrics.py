"""Prometheus metrics of every group, made for each request; needs the extra coterie[http].

| metric | labels | meaning |
|---|---|---|
| coterie_group_state | group, state | 1 for the state the group is in, 0 for the others |
| coterie_group_generation, coterie_group_members, coterie_group_offsets | group | |
| coterie_group_lag | group, topic, partition | records between the committed offset and the end; never negative |
| coterie_group_lag_seconds | group, topic, partition | the age of the first record that is not committed; 0 without lag |
| coterie_group_stalled | group, topic, partition | 1 where lag is left and the offset has not moved for a minute |
| coterie_group_rebalances_total | group, cause | rebalances begun, by what caused them |
| coterie_group_rebalance_seconds | group | from the first request to the assignment handed out: _sum and _count |
| coterie_offsets_load_seconds | | how long loading `__consumer_offsets` took |
| coterie_fetch_sessions, coterie_fetch_session_partitions | | incremental fetch sessions that are kept, and their partitions |
| coterie_fetch_session_evictions_total | | sessions that made room for others |
| coterie_unserved_requests_total | client, api, version | requests of APIs and versions that are not served |
| coterie_telemetry_clients | | clients that requested a subscription of metrics to push (KIP-714) |
| coterie_telemetry_pushes_total, coterie_telemetry_bytes_total | client | pushes of metrics that were taken, and their bytes |

Of a share group the start offset stands for the committed one, and its lag is without the records behind it that are done with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Protocol

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from coterie.broker.groups.explanation import GroupSources, ShareOffsets, partitions_of
from coterie.broker.handlers.services import ShareServices
from coterie.broker.process.loggers import LogLines
from coterie.broker.requests.fetch_sessions import FetchSessions
from coterie.broker.requests.unserved import UnservedRequests
from coterie.coordinator.journal.line import JournalLine


class MetricSources(GroupSources, ShareServices, Protocol):
    """What the metrics are collected from."""

    log_lines: LogLines
    fetch_sessions: FetchSessions
    unserved: UnservedRequests


class GroupMetrics(Collector):
    """Collects from a broker; rebalances are counted by the lines of the journal."""

    def __init__(self, broker: MetricSources) -> None:
        self._broker = broker
        self._rebalances: Counter[tuple[str, str]] = Counter()
        self._seconds: dict[str, tuple[int, float]] = {}
        broker.groups.journal.listeners.append(self._count)
        self._shared: Mapping[str, ShareOffsets] = {}
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def text(self, shared: Mapping[str, ShareOffsets] = MappingProxyType({})) -> bytes:
        """The exposition format; ``shared``: where the share groups are, by their ids."""
        self._shared = shared
        return generate_latest(self._registry)

    def _count(self, line: JournalLine) -> None:
        if line.event == "rebalance_started":
            for kind in {cause["kind"] for cause in line.causes}:
                self._rebalances[line.group, kind] += 1
        elif line.event == "stable" and line.join_ms is not None:
            count, total = self._seconds.get(line.group, (0, 0.0))
            self._seconds[line.group] = (count + 1, total + (line.join_ms + (line.sync_ms or 0)) / 1000)
        elif line.event == "group_removed":
            self._seconds.pop(line.group, None)
            for key in [k for k in self._rebalances if k[0] == line.group]:
                del self._rebalances[key]

    def collect(self) -> Iterator[Metric]:
        """As prometheus_client calls it, once for each request of /metrics; the figures are those of one moment."""
        state = GaugeMetricFamily("coterie_group_state", "1 for the group's state", labels=["group", "state"])
        generation = GaugeMetricFamily("coterie_group_generation", "generation", labels=["group"])
        members = GaugeMetricFamily("coterie_group_members", "members", labels=["group"])
        offsets = GaugeMetricFamily("coterie_group_offsets", "committed offsets", labels=["group"])
        where = ["group", "topic", "partition"]
        lag = GaugeMetricFamily("coterie_group_lag", "records behind the end of the partition", labels=where)
        lag_s = GaugeMetricFamily("coterie_group_lag_seconds", "age of the first uncommitted record", labels=where)
        stalled = GaugeMetricFamily(
            "coterie_group_stalled", "1 for a partition with lag whose offset does not move", labels=where
        )
        now_ms = self._broker.clock.now_ms()
        for group in self._broker.groups.loaded_groups():
            for phase in type(group.phase):
                state.add_metric([group.group_id, phase.value], float(group.phase == phase))
            generation.add_metric([group.group_id], group.generation)
            members.add_metric([group.group_id], len(group.members))
            offsets.add_metric([group.group_id], len(group.offsets))
            for p in partitions_of(self._broker, group, now_ms, self._shared.get(group.group_id, {})):
                if p["lag"] is not None:
                    labels = [group.group_id, p["topic"], str(p["partition"])]
                    lag.add_metric(labels, p["lag"])
                    if p["lag_ms"] is not None:
                        lag_s.add_metric(labels, p["lag_ms"] / 1000)
                    stalled.add_metric(labels, float(p["stalled"]))
        yield from (state, generation, members, offsets, lag, lag_s, stalled)
        yield from self._counted()
        yield from self._fetch_sessions()
        yield from self._telemetry()
        unserved = CounterMetricFamily(
            "coterie_unserved_requests", "requests that are not served", labels=["client", "api", "version"]
        )
        for request, count in self._broker.unserved.counts.items():
            unserved.add_metric([request.client, request.api, str(request.version)], count)
        yield unserved

    def _telemetry(self) -> Iterator[Metric]:
        telemetry = self._broker.clients.telemetry
        yield GaugeMetricFamily("coterie_telemetry_clients", "clients with telemetry", value=len(telemetry))
        pushes = CounterMetricFamily("coterie_telemetry_pushes", "pushes of client metrics", labels=["client"])
        pushed_bytes = CounterMetricFamily("coterie_telemetry_bytes", "bytes of client metrics", labels=["client"])
        for client, count in telemetry.pushes.items():
            pushes.add_metric([client], count)
            pushed_bytes.add_metric([client], telemetry.pushed_bytes[client])
        yield from (pushes, pushed_bytes)

    def _fetch_sessions(self) -> Iterator[Metric]:
        sessions = self._broker.fetch_sessions
        yield GaugeMetricFamily("coterie_fetch_sessions", "incremental fetch sessions", value=len(sessions))
        yield GaugeMetricFamily("coterie_fetch_session_partitions", "partitions in them", value=sessions.partitions)
        yield CounterMetricFamily("coterie_fetch_session_evictions", "sessions evicted", value=sessions.evictions)

    def _counted(self) -> Iterator[Metric]:
        rebalances = CounterMetricFamily(
            "coterie_group_rebalances", "rebalances begun, by cause", labels=["group", "cause"]
        )
        for (group_id, cause), count in self._rebalances.items():
            rebalances.add_metric([group_id, cause], count)
        seconds = SummaryMetricFamily("coterie_group_rebalance_seconds", "from the first request on", labels=["group"])
        for group_id, (count, total) in self._seconds.items():
            seconds.add_metric([group_id], count, total)
        yield rebalances
        yield seconds
        yield GaugeMetricFamily(
            "coterie_offsets_load_seconds", "loading __consumer_offsets", value=self._broker.groups.load_seconds
        )
