"""`coterie observe` on a cluster of 10,000 groups with 100,000 members: a `__consumer_offsets` made here, served by a broker,
and what one core of an observer reads of it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from coterie.assignors.blobs import encode_assignment, encode_subscription
from coterie.broker.storage.disk import DiskFileSystem
from coterie.client import Admin
from coterie.coordinator.events import GroupStored, OffsetStored
from coterie.coordinator.partitioning import partition_for
from coterie.coordinator.state import CommittedOffset
from coterie.coordinator.stored_records.stored import to_record
from coterie.log.config import LogConfig
from coterie.log.partition_log import PartitionLog
from coterie.records.encoding import encode_batch
from coterie.text.addresses import format_address
from coterie.wire.messages.stored.consumer_offsets import GroupMetadataValue, MemberMetadata
from coterie_conformance.bench.loads.observing import Observed
from coterie_conformance.bench.measurement import Measurement, broker

GROUPS, MEMBERS = 10_000, 10  # a member has a partition of the topic
COMMITS = 1_000_000
LOG_PARTITIONS = 50
AIM_PER_S = 50_000
START_MS = 1_700_000_000_000
SESSION_MS, REBALANCE_MS = 1_800_000, 300_000
# What a closed folder has about its logs, and which the records written here are not in.
OF_CLOSED_LOGS = ("log-checkpoint.json", "kept-files.json", "replication-offset-checkpoint")


def observer(folder: Path, groups: int = GROUPS, commits: int = COMMITS) -> Iterator[Measurement]:
    """Processor time by commit and by generation, memory, and how soon an observer that begins at the end is ready."""
    made = {count: _made(folder / f"data-{count}", groups, count) for count in (0, commits, 2 * commits)}
    bare, once, twice = (_observed(data, "start", groups) for data in made.values())
    yield Measurement("observer, commits a core", commits / (twice.cpu_s - once.cpu_s), "1/s", AIM_PER_S)
    yield Measurement(f"observer, generations of {MEMBERS} members a core", groups / bare.cpu_s, "1/s")
    yield Measurement(f"observer, memory, {groups:,} groups", once.resident_mb, "MB")
    yield Measurement("observer, memory, after as many commits again", twice.resident_mb, "MB")
    ready = _observed(made[0], "end", groups)
    yield Measurement("observer, from the end, reads after", ready.read_s, "s", lower_is_better=True)
    yield Measurement("observer, from the end, every group described after", ready.wall_s, "s", lower_is_better=True)
    yield Measurement("observer, at rest, of a core", 100 * ready.idle_share, "%", lower_is_better=True)


def _observed(data: Path, begins: str, groups: int) -> Observed:
    with broker(data) as (address, _):
        command = [sys.executable, "-m", "coterie_conformance.bench.loads.observing"]
        command += [format_address(*address), begins, str(groups)]
        return Observed(**json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def _made(data: Path, groups: int, commits: int) -> Path:
    """A broker's folder with a generation of each group, and then so many commits, a member's ten partitions in a batch."""
    with broker(data) as (address, _):
        asyncio.run(_begun({"bootstrap.servers": format_address(*address)}))
    by_partition: dict[int, list[str]] = {}
    for number in range(groups):
        by_partition.setdefault(partition_for(f"group-{number:05}", LOG_PARTITIONS), []).append(f"group-{number:05}")
    rounds = commits // LOG_PARTITIONS // MEMBERS
    for partition, names in by_partition.items():
        log = PartitionLog.open(DiskFileSystem(data), f"__consumer_offsets-{partition}", LogConfig(), clean=True)
        for name in names:
            log.append_own(_batch(name, [GroupStored(_generation(name))], START_MS), START_MS)
        for turn in range(rounds):
            now_ms = START_MS + 1_000 + turn * 20
            offsets = CommittedOffset(turn, 0, "", now_ms)
            events = [OffsetStored("orders", number, offsets) for number in range(MEMBERS)]
            log.append_own(_batch(names[turn % len(names)], events, now_ms), now_ms)
        log.close()
    for name in OF_CLOSED_LOGS:
        (data / name).unlink()
    return data


async def _begun(client: dict[str, str]) -> None:
    """The topic, and `__consumer_offsets`, which a first commit makes."""
    async with Admin(client) as admin:
        await admin.create_topic("orders", MEMBERS)
        await admin.alter_consumer_group_offsets("first", {("orders", 0): 0})


def _generation(group: str) -> GroupMetadataValue:
    subscription = encode_subscription(["orders"])
    members = [
        MemberMetadata(
            f"member-{number}-of-{group}",
            None,
            f"member-{number}",
            "/10.0.0.1",
            REBALANCE_MS,
            SESSION_MS,
            subscription,
            encode_assignment({"orders": [number]}),
        )
        for number in range(MEMBERS)
    ]
    return GroupMetadataValue("consumer", 1, "range", members[0].member_id, START_MS, members)


def _batch(group: str, events: list[GroupStored] | list[OffsetStored], now_ms: int) -> bytes:
    records = [to_record(group, event) for event in events]
    return encode_batch([(now_ms, record.key, record.value, ()) for record in records if record is not None])
