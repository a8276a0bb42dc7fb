"""The observer's metrics: counted by its lines, with a lag for each committed partition."""

from __future__ import annotations

import asyncio
import re
import ssl
from pathlib import Path

import aiohttp
import click
import pytest
import trustme
from click.testing import CliRunner

from coterie.cli import main
from coterie.cli.parts.listening import PageAccess
from coterie.client import Admin
from coterie.coordinator.events import OffsetStored
from coterie.coordinator.journal.line import JournalLine
from coterie.coordinator.state import CommittedOffset
from coterie.observer.describer import RequestRate
from coterie.observer.lags import GroupLag, GroupLags
from coterie.observer.machine import sights
from coterie.observer.machine.observer import GroupObserver
from coterie.observer.metrics import MetricsServer, ObservedMetrics
from coterie.observer.observation import ClusterObservation
from coterie.testing import simulate
from coterie_conformance.scenarios.observer_scenario import SightedGroup
from tests.observer import stories
from tests.observer.stories import GROUP, Crew

NOBODY = {"bootstrap.servers": "127.0.0.1:1"}


def test_every_committed_partition_has_a_lag_that_is_never_negative() -> None:
    """Also one that was committed before the observer began, and one whose commit is newer than the end that was asked for."""
    with simulate(seed=1) as world:
        crew = Crew(world, watched=False)
        crew.join("anna")
        crew.settle(1)
        crew.controls["anna"].leaves = True
        world.advance(10)
        committed = crew.broker.committed_now(GROUP)
        assert len(committed) == 6

        async def lags() -> tuple[list[GroupLag], list[GroupLag]]:
            seen = GroupLags({"bootstrap.servers": crew.broker.bootstrap_servers}, RequestRate(1000))
            seen.see(sights.NoCoordinatorSeen(0, GROUP))
            assert not seen.is_complete
            await seen.refresh()
            assert seen.is_complete
            first = list(seen)
            for partition in range(6):
                seen.see(_commit(partition, 10**6))
            return first, list(seen)

        first, second = world.run(lags())
        assert {(lag.topic, lag.partition) for lag in first} == committed.keys()
        assert all(0 <= lag.lag < 60 for lag in first)
        assert any(lag.lag for lag in first)
        assert {lag.lag for lag in second} == {0}


def _commit(partition: int, offset: int) -> sights.RecordRead:
    return sights.RecordRead(1, GROUP, OffsetStored("orders", partition, CommittedOffset(offset, -1, "", 1)))


def texts(metrics: ObservedMetrics) -> list[str]:
    return [line for line in metrics.text().decode().splitlines() if not line.startswith("#")]


def test_rebalances_by_cause_and_evidence() -> None:
    machine = GroupObserver()
    metrics = ObservedMetrics(machine, GroupLags(NOBODY, RequestRate(1000)))
    with simulate(seed=1) as world:
        for line in stories.kill(world).lines:
            metrics.count(line)
    shown = texts(metrics)
    start = 'coterie_group_rebalances_total{cause="session_timeout",evidence="inferred",group="crew"}'
    assert f"{start} 1.0" in shown
    assert any(line.startswith('coterie_group_unowned_seconds_total{group="crew"}') for line in shown)
    metrics.count(JournalLine(1, "crew", 2, "pattern_seen", "Stable", "Stable", [{"kind": "deploy"}]))
    assert 'coterie_group_patterns_total{group="crew",pattern="deploy"} 1.0' in texts(metrics)


def test_the_state_of_a_group() -> None:
    group = SightedGroup()
    group.stored(0, 7, "anna-1")
    group.described(1, "PreparingRebalance", "anna-1", "ben-1")
    shown = texts(ObservedMetrics(group.observer, GroupLags(NOBODY, RequestRate(1000))))
    assert 'coterie_group_state{group="crew",state="PreparingRebalance"} 1.0' in shown
    assert 'coterie_group_members{group="crew"} 2.0' in shown
    assert 'coterie_group_generation{group="crew"} 7.0' in shown


def test_the_server_serves_its_own_names_alone() -> None:
    async def requested() -> list[tuple[int, str]]:
        lags = GroupLags(NOBODY, RequestRate(1000))
        async with MetricsServer(ObservedMetrics(GroupObserver(), lags), lags) as server:
            host, port = await server.start("127.0.0.1", 0)
            url = f"http://{host}:{port}/metrics"
            async with aiohttp.ClientSession() as session:
                results = []
                for headers in ({}, {"Host": "elsewhere.example"}):
                    async with session.get(url, headers=headers) as response:
                        results.append((response.status, await response.text()))
                return results

    (own, text), (other, _) = asyncio.run(requested())
    assert (own, other) == (200, 403)
    assert "coterie_group_lag" in text


def test_requests_by_tls_with_the_token_alone() -> None:
    authority, context = trustme.CA(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)

    async def statuses() -> list[int]:
        lags = GroupLags(NOBODY, RequestRate(1000))
        metrics = ObservedMetrics(GroupObserver(), lags)
        async with MetricsServer(metrics, lags, ["kafka.example"], tls=context, token="0123456789abcdef") as server:
            host, port = await server.start("127.0.0.1", 0)
            seen = []
            async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting)) as session:
                for token, name in (("0123456789abcdef", "kafka.example"), ("another", "kafka.example"), ("", "other")):
                    headers = {"Authorization": f"Bearer {token}", "Host": name}
                    async with session.get(f"https://{host}:{port}/metrics", headers=headers) as response:
                        seen.append(response.status)
            return seen

    assert asyncio.run(statuses()) == [200, 401, 403]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            ["--http", "0.0.0.0:0"],
            "--http 0.0.0.0:0 is beyond loopback: give --http-tls-certificate, --http-tls-key and ",
        ),
        (["--http", "0.0.0.0:0", "--http-token-file", "{token}"], "is beyond loopback: give --http-tls-certificate"),
        (["--http-token-file", "{token}"], "--http-token-file goes with --http."),
        (["--http-name", "kafka.example"], "--http-name goes with --http."),
        (["--http", "0.0.0.0:0", "--insecure"], ""),
        (["--http", "127.0.0.1:0"], ""),
        (
            [
                "--http",
                "0.0.0.0:0",
                "--http-token-file",
                "{token}",
                "--http-tls-certificate",
                "{pem}",
                "--http-tls-key",
                "{pem}",
            ],
            "",
        ),
    ],
)
def test_metrics_beyond_loopback_have_tls_and_a_token_or_insecure(
    given: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing really listens there."""
    pem, token = tmp_path / "both.pem", tmp_path / "token"
    trustme.CA().issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(pem)
    token.write_text("0123456789abcdef")
    served: list[PageAccess] = []

    async def serve(stack: object, observation: object, client: object, address: object, access: PageAccess) -> object:
        served.append(access)
        raise click.ClickException("served")

    monkeypatch.setattr("coterie.cli.observe._served", serve)
    words = [word.format(pem=pem, token=token) for word in given]
    done = CliRunner().invoke(main, ["observe", "-b", "127.0.0.1:1", *words])
    assert (done.exit_code, len(served)) == ((2, 0) if sentence else (1, 1)), done.output
    assert sentence in " ".join(done.output.split())


def test_the_query_of_the_recipe_for_keda_has_the_lag_of_the_group() -> None:
    """Prometheus sums the series with that name and label."""
    page = (Path(__file__).parents[2] / "docs/how-to/observe.md").read_text()
    (query,) = re.findall(r"query: sum\((\w+)\{(\w+)=\"(\w+)\"\}\)", page)
    metric, label, group = query
    with simulate(seed=1) as world:
        crew = Crew(world, watched=False)
        crew.join("anna")
        crew.settle(1)
        crew.controls["anna"].leaves = True
        world.advance(30)

        async def text() -> str:
            seen = GroupLags({"bootstrap.servers": crew.broker.bootstrap_servers}, RequestRate(1000))
            seen.see(sights.NoCoordinatorSeen(0, GROUP))
            await seen.refresh()
            seen.close()
            return ObservedMetrics(GroupObserver(), seen).text().decode()

        shown = world.run(text())
    values = re.findall(rf'^{metric}\{{.*{label}="{group}".*\}} (\S+)$', shown, re.MULTILINE)
    assert len(values) == 6
    assert 6 * 25 < sum(map(float, values)) < 6 * 60


async def lags_of(servers: str) -> list[GroupLag]:
    """Of the group, as an observer that knows its name alone reads them."""
    seen = GroupLags({"bootstrap.servers": servers}, RequestRate(1000))
    seen.see(sights.NoCoordinatorSeen(0, GROUP))
    await seen.refresh()
    seen.close()
    return list(seen)


def test_lag_in_seconds_is_the_age_of_the_first_record_that_is_not_committed() -> None:
    with simulate(seed=1) as world:
        crew = Crew(world, watched=False)
        crew.join("anna")
        crew.settle(1)
        crew.controls["anna"].leaves = True
        world.advance(90)  # a record a second
        rows = world.run(lags_of(crew.broker.bootstrap_servers))
        assert len(rows) == 6
        for row in rows:
            assert row.lag_ms is not None
            assert abs(row.lag_ms - row.lag * 1000) < 3_000
        world.processes["producer"].kill()
        crew.join("ben")
        crew.settle(1)
        assert {(row.lag, row.lag_ms) for row in world.run(lags_of(crew.broker.bootstrap_servers))} == {(0, 0)}


def test_a_partition_is_stalled_after_a_minute_without_a_commit() -> None:
    with simulate(seed=1) as world:
        crew = Crew(world, watched=False)
        crew.join("anna")
        crew.settle(1)
        crew.controls["anna"].leaves = True
        world.advance(10)

        async def stalled() -> list[set[bool]]:
            seen = GroupLags({"bootstrap.servers": crew.broker.bootstrap_servers}, RequestRate(1000))
            seen.see(sights.NoCoordinatorSeen(0, GROUP))
            states = []
            for _ in range(2):
                await seen.refresh()
                states.append({row.is_stalled for row in seen})
                await asyncio.sleep(61)
            seen.close()
            return states

        assert world.run(stalled()) == [{False}, {True}]


def test_offsets_of_many_groups_are_read_in_few_requests() -> None:
    """And of a broker before Kafka 3.0 a group in a request."""
    with simulate(seed=1) as world:
        broker = world.broker()
        broker.create_topic("orders", 1)
        client = {"bootstrap.servers": broker.bootstrap_servers}
        names = [f"group-{number}" for number in range(150)]

        async def read() -> GroupLags:
            async with Admin(client) as admin:
                for name in names:
                    await admin.alter_consumer_group_offsets(name, {("orders", 0): 0})
            seen = GroupLags(client, RequestRate(1000))
            for name in names:
                seen.see(sights.NoCoordinatorSeen(0, name))
            await seen.refresh()
            seen.close()
            return seen

        lags = world.run(read())
        assert {row.group for row in lags} == set(names)
        assert (lags.unread, broker.requested("OffsetFetch")) == (0, 2)


def test_the_timeout_of_a_phase_that_lasts() -> None:
    """By the members' timeouts in the log, though the observer began in the midst of the phase."""
    with simulate(seed=1) as world:
        crew = stories.three_members(world, session_timeout_ms="45000", max_poll_interval_ms="90000")
        crew.controls["ben"].sleeps_s = 80
        world.advance(30)
        crew.join("cleo-2")
        world.advance(15)
        shown: list[str] = []

        async def watch() -> None:
            observation = ClusterObservation(
                {"bootstrap.servers": crew.broker.bootstrap_servers}, lambda _: None, shown.append
            )
            running = asyncio.create_task(observation.run(asyncio.Event()))
            await asyncio.sleep(5)
            running.cancel()
            every = texts(ObservedMetrics(observation.machine, GroupLags(NOBODY, RequestRate(1000))))
            shown.extend(line for line in every if "timeout" in line)

        world.run(watch())
        (line,) = shown
        name, left_s = line.rsplit(" ", 1)
        assert name == 'coterie_group_next_timeout_seconds{group="crew",timeout="rebalance timeout"}'
        assert 80 < float(left_s) <= 90


def test_what_is_counted_of_a_removed_group_is_dropped() -> None:
    metrics = ObservedMetrics(GroupObserver(), GroupLags(NOBODY, RequestRate(1000)))
    cause = {"kind": "member_joined", "evidence": "observed"}
    metrics.count(JournalLine(1, "crew", 1, "stable", "CompletingRebalance", "Stable", [cause], unowned_ms=3))
    assert any("crew" in line for line in texts(metrics))
    metrics.count(JournalLine(2, "crew", 1, "group_removed", "Empty", "Dead"))
    assert not any("crew" in line for line in texts(metrics))
