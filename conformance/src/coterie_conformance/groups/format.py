"""Byte compatibility both ways: Apache Kafka's tools read what we wrote; we take over a folder that Kafka wrote, and Kafka
takes it over again.

The same groups are made on either side with the same requests, so that what comes out can be compared with what went in.
"""

from __future__ import annotations

import itertools
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from coterie.assignors.blobs import encode_assignment, encode_subscription
from coterie.certify.settling import wait_for_coordinator
from coterie.client.blocking import BlockingAdmin, BlockingProducer
from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.client.errors import check
from coterie.text.addresses import format_address
from coterie.wire.messages.groups.describe_groups import DescribeGroupsRequest
from coterie.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from coterie.wire.messages.groups.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie.wire.messages.groups.offset_fetch import OffsetFetchRequest
from coterie.wire.messages.groups.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from coterie_conformance.groups.differential import coterie_broker, make_topics
from coterie_conformance.groups.modern_folders import begun_by_coterie, there_and_back
from coterie_conformance.groups.questions import TOPIC
from coterie_conformance.servers.coterie_process import CoterieBroker
from coterie_conformance.servers.kafka import KafkaBroker, java, on_zookeeper, running

GROUPS = {"crew": "i0", "other": None, "grüße": None}
_DAMAGED = ("isvalid: false", "mismatch", "non-consecutive", "exception")  # in the words of Kafka's dump tool
Offsets = dict[str, dict[tuple[str, int], tuple[int, str]]]
WITH_SHARE_GROUPS = ("4.3.0", "4.4.0")  # and streams groups
ONE_PARTITION = {"offsets.topic.num.partitions": "1"}


@dataclass(frozen=True, slots=True)
class FormatCheck:
    """One comparison; ``text`` has the differences, or how much was compared."""

    name: str
    right: bool
    text: str


def _fill(address: tuple[str, int]) -> Offsets:
    """A few groups with a member each and offsets; returns what was committed."""
    connection, committed = BrokerSocket(*address), Offsets()
    for number, (group, instance) in enumerate(GROUPS.items()):
        protocols = [JoinGroupRequestProtocol("range", encode_subscription([TOPIC]))]
        join = JoinGroupRequest(
            group,
            300_000,
            rebalance_timeout_ms=300_000,
            member_id="",
            group_instance_id=instance,
            protocol_type="consumer",
            protocols=protocols,
        )
        joined = connection.request(join, highest=5 if instance else 3)
        check(joined.error_code)
        share = [SyncGroupRequestAssignment(joined.member_id, encode_assignment({TOPIC: [0, 1]}))]
        sync = SyncGroupRequest(group, joined.generation_id, joined.member_id, instance, assignments=share)
        check(connection.request(sync, highest=3).error_code)
        committed[group] = {}
        for round_ in range(3):
            offsets = {p: (100 * number + 10 * round_ + p, f"note {round_}") for p in (0, 1)}
            partitions = [
                OffsetCommitRequestPartition(p, offset, 7, committed_metadata=text)
                for p, (offset, text) in offsets.items()
            ]
            topics = [OffsetCommitRequestTopic(TOPIC, partitions=partitions)]
            request = OffsetCommitRequest(group, joined.generation_id, joined.member_id, instance, topics=topics)
            for topic in connection.request(request, highest=8).topics:
                for partition in topic.partitions:
                    check(partition.error_code)
            committed[group] |= {(TOPIC, p): value for p, value in offsets.items()}
    connection.close()
    return committed


def _states(address: tuple[str, int]) -> dict[str, object]:
    """The broker's description of the groups: state, protocol, members with their blobs, offsets."""
    connection, states = BrokerSocket(*address), dict[str, object]()
    for group in GROUPS:
        described = connection.request(DescribeGroupsRequest([group]), highest=4).groups[0]
        members = sorted(
            (m.member_id, m.group_instance_id, m.member_metadata, m.member_assignment) for m in described.members
        )
        fetched = connection.request(OffsetFetchRequest(group, None), highest=7)
        offsets = sorted(
            (t.name, p.partition_index, p.committed_offset, p.committed_leader_epoch, p.metadata)
            for t in fetched.topics
            for p in t.partitions
        )
        states[group] = (described.group_state, described.protocol_type, described.protocol_data, members, offsets)
    connection.close()
    return states


def kafka_reads_ours(version: str, folder: Path) -> list[FormatCheck]:
    """`kafka-dump-log --offsets-decoder` on our segment, the console consumer's formatter on our topic."""
    data = folder / "ours"
    with coterie_broker(ONE_PARTITION | {"group.initial.rebalance.delay.ms": "0"}, data) as address:
        make_topics(address)
        committed = _fill(address)
        formatted = _console_consumer(version, address)
    dumped = _dump_log(version, data)
    return [_all_listed("dump-log reads our log", dumped, committed), _all_listed("formatter", formatted, committed)]


def _all_listed(name: str, text: str, committed: Offsets) -> FormatCheck:
    """Every commit is in the tool's output, and nothing in it is called damaged."""
    lines = text.splitlines()
    missing = [
        f"{group} {topic}-{partition}={offset}"
        for group, offsets in committed.items()
        for (topic, partition), (offset, note) in offsets.items()
        if not any(group in line and note in line and re.search(rf"\b{offset}\b", line) for line in lines)
    ]
    damaged = [line for line in lines if any(word in line.lower() for word in _DAMAGED)]
    summary = f"{sum(len(o) for o in committed.values())} offsets of {len(committed)} groups"
    if missing or damaged:
        summary = "; ".join(missing[:3] + damaged[:3])
    return FormatCheck(name, not missing and not damaged, summary)


def _dump_log(version: str, data: Path) -> str:
    main = "org.apache.kafka.tools.DumpLogSegments" if version.startswith("4.") else "kafka.tools.DumpLogSegments"
    files = ",".join(str(path) for path in sorted((data / "__consumer_offsets-0").glob("*.log")))
    return _run(java(version, main, "--offsets-decoder", "--deep-iteration", "--files", files))


def _console_consumer(version: str, address: tuple[str, int]) -> str:
    formatter = "kafka.coordinator.group.GroupMetadataManager$OffsetsMessageFormatter"
    main = "kafka.tools.ConsoleConsumer"
    if not version.startswith("2."):
        main = "org.apache.kafka.tools.consumer.ConsoleConsumer"
    if version.startswith("4."):
        formatter = "org.apache.kafka.tools.consumer.OffsetsMessageFormatter"
    server = format_address(*address)
    where = ["--bootstrap-server", server, "--topic", "__consumer_offsets", "--from-beginning"]
    return _run(java(version, main, *where, "--formatter", formatter, "--timeout-ms", "8000"), quiet=True)


def _run(command: list[str], *, quiet: bool = False) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    # The console consumer ends by its own time-out, with an exception on stderr.
    return done.stdout if quiet else done.stdout + done.stderr


def we_take_over_theirs(version: str, folder: Path) -> FormatCheck:
    """Kafka writes a folder and stops; coterie starts on it and must describe the same groups and offsets."""
    settings = ONE_PARTITION | {"group.initial.rebalance.delay.ms": "0"}
    with running(version, folder, settings) as kafka:
        wait_for_coordinator(kafka)
        make_topics(kafka)
        _fill(kafka)
        before = _states(kafka)
    with coterie_broker(settings, folder / "data") as address:
        wait_for_coordinator(address)
        after = _states(address)
    wrong = [
        f"{group}: kafka {described}, coterie {after[group]}"
        for group, described in before.items()
        if after[group] != described
    ]
    return FormatCheck(
        "coterie takes over Kafka's folder", not wrong, "; ".join(wrong) or f"{len(before)} groups the same"
    )


def kafka_sets_aside_ours(version: str, folder: Path) -> FormatCheck:
    """Kafka on a folder of its own in which coterie has made a topic meanwhile: its topic stays, coterie's is renamed, its log
    has a WARN and no more. With the name of before, coterie has the topic again with its record, as the page on migration
    says."""
    data, name = folder / "data", "coterie.s.own"
    kafka, ours = KafkaBroker(version, folder, ONE_PARTITION), CoterieBroker(data, ONE_PARTITION)
    try:
        kafka.start()
        make_topics(kafka.address)
        kafka.stop()
        ours.start()
        with BlockingProducer({"bootstrap.servers": format_address(*ours.address)}) as producer:
            producer.send_and_wait(name, b"v", partition=0)
        ours.stop()
        kafka.start()
        kafka.stop()
        aside = [path for path in data.iterdir() if path.name.startswith(f"{name}-0.") and path.name.endswith("-stray")]
        wrong = [] if len(aside) == 1 and (data / f"{TOPIC}-0").is_dir() else [f"{sorted(map(str, data.iterdir()))}"]
        lines = (folder / "kafka.log").read_text(errors="replace").splitlines()
        named = [line for line in lines if "-stray" in line and f"{name}-0." in line]
        wrong += [line for line in named if " WARN " not in line] or ([] if named else [f"no line names {name}-0"])
        for path in aside:
            path.rename(data / f"{name}-0")
        ours.start()
        with BlockingAdmin({"bootstrap.servers": format_address(*ours.address)}) as admin:
            ends = admin.list_offsets({(name, 0): -1}, errors={})
        if ends != {(name, 0): 1}:
            wrong.append(f"renamed back, coterie has {ends}")
    finally:
        ours.stop()
        kafka.stop()
    text = "; ".join(wrong) or "renamed to -stray with a WARN alone; renamed back, coterie has it with its record"
    return FormatCheck("Kafka sets a topic of coterie's aside", not wrong, text)


def check_format(version: str, folder: Path, on_check: Callable[[FormatCheck], None]) -> list[FormatCheck]:
    """All of it for one version. Raises CannotRun."""
    checks = kafka_reads_ours(version, folder / "format")
    checks.append(we_take_over_theirs(version, folder / "take-over"))
    if not on_zookeeper(version):
        checks.append(kafka_sets_aside_ours(version, folder / "aside"))
    if version in WITH_SHARE_GROUPS:
        there = there_and_back(version, folder / "there-and-back")
        killed = there_and_back(version, folder / "killed", killed=True)
        begun = begun_by_coterie(version, folder / "begun")
        visits = itertools.chain(there, killed, begun)
        checks += [FormatCheck(name, not wrong, wrong or "the same") for name, wrong in visits]
    for one in checks:
        on_check(one)
    return checks
