"""An observer in a process of its own, for the benchmark: `python -m … HOST:PORT start|end GROUPS` prints its figures as JSON
once it has read all that there was, or, from the end, once so many groups are described."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from dataclasses import asdict, dataclass

from coterie.client import Admin
from coterie.observer.internal_topics import OFFSETS_TOPIC
from coterie.observer.observation import ClusterObservation
from coterie_conformance.bench.measurement import resident_mb

LOOK_S, IDLE_S = 0.1, 5.0


@dataclass(frozen=True, slots=True)
class Observed:
    """``cpu_s`` and ``wall_s`` until it was done, ``read_s`` until its tail had a position in each partition, its memory then,
    and what share of a core it takes with nothing to read."""

    records: int
    cpu_s: float
    wall_s: float
    read_s: float
    resident_mb: float
    idle_share: float


async def _observed(servers: str, is_from_start: bool, groups: int) -> Observed:
    client = {"bootstrap.servers": servers}
    async with Admin(client) as admin:
        partitions = await admin.partitions([OFFSETS_TOPIC])
        ends = await admin.list_offsets(dict.fromkeys(partitions, -1))
    observation = ClusterObservation(client, lambda line: None, print, from_beginning=is_from_start)
    stop = asyncio.Event()
    began_s, began_cpu_s = time.monotonic(), time.process_time()
    running = asyncio.create_task(observation.run(stop))
    read_s = 0.0

    def is_done() -> bool:
        known = observation.machine.groups
        if is_from_start:
            return all(observation.positions.get(tp, 0) >= end for tp, end in ends.items() if end)
        return len(known) >= groups and all(group.described is not None for group in known.values())

    while not is_done():
        await asyncio.wait([running], timeout=LOOK_S)
        if running.done():
            running.result()
        read_s = read_s or (time.monotonic() - began_s if observation.is_tailing else 0.0)
    cpu_s, wall_s, resident = time.process_time() - began_cpu_s, time.monotonic() - began_s, resident_mb(os.getpid())
    began_s, began_cpu_s = time.monotonic(), time.process_time()
    await asyncio.sleep(IDLE_S)
    idle_share = (time.process_time() - began_cpu_s) / (time.monotonic() - began_s)
    stop.set()
    await running
    return Observed(sum(ends.values()), cpu_s, wall_s, read_s, resident, idle_share)


if __name__ == "__main__":
    result = asyncio.run(_observed(sys.argv[1], sys.argv[2] == "start", int(sys.argv[3])))
    sys.stdout.write(json.dumps(asdict(result)) + "\n")
