"""What `coterie proxy` costs: of a small request the time that it adds, of fetches the bytes that one core passes on."""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.text.addresses import format_address, parse_address
from coterie.wire.messages.clients.api_versions import ApiVersionsRequest
from coterie_conformance.bench.loads import load
from coterie_conformance.bench.measurement import SECONDS, Measurement, broker, cpu_seconds

RECORD_BYTES, ROUND_TRIPS = 1024, 4_000
AIM_MS, AIM_MB_PER_S = 0.3, 500


def proxy_rows(folder: Path, round_trips: int = ROUND_TRIPS, seconds: float = SECONDS) -> Iterator[Measurement]:
    """Round trips are made in turn with and without the proxy, so that other work on the machine slows both."""
    with broker(folder / "data") as (address, _), _before(address) as (proxied, process):
        sockets = [BrokerSocket(*address), BrokerSocket(*proxied)]
        times_ms: list[list[float]] = [[], []]
        before_s = cpu_seconds(process.pid)
        for _ in range(round_trips):
            for socket, taken_ms in zip(sockets, times_ms, strict=True):
                started_s = time.perf_counter()
                socket.request(ApiVersionsRequest())
                taken_ms.append((time.perf_counter() - started_s) * 1000)
        cpu_ms = (cpu_seconds(process.pid) - before_s) * 1000 / round_trips
        for socket in sockets:
            socket.close()
        direct_ms, through_ms = map(statistics.median, times_ms)
        added = Measurement("proxy, added to a request, median", through_ms - direct_ms, "ms", AIM_MS, True)
        yield added
        yield Measurement("proxy, processor time of a request", cpu_ms, "ms", lower_is_better=True)
        load.create_topic(address)
        load.produce(address, load.batch_of(RECORD_BYTES)[0], seconds)
        before_s = cpu_seconds(process.pid)
        passed_mb = load.fetch(proxied, seconds) * seconds
        yield Measurement(
            "proxy, fetches a core", passed_mb / (cpu_seconds(process.pid) - before_s), "MB/s", AIM_MB_PER_S
        )


@contextlib.contextmanager
def _before(upstream: tuple[str, int]) -> Iterator[tuple[tuple[str, int], subprocess.Popen[str]]]:
    """A proxy's address and its process."""
    command = [
        sys.executable,
        "-m",
        "coterie",
        "proxy",
        "--upstream",
        format_address(*upstream),
        "--listen",
        "127.0.0.1:0",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield parse_address(process.stdout.readline().split()[-1]), process
    finally:
        process.terminate()
        process.wait()
