"""What must hold of a story's history, of what the brokers have at its end, of their logs and of members. Each checker
raises AssertionError."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from coterie.client import Consumer
from coterie.coordinator.consumer.state import ConsumerGroup, TopicIdPartition
from coterie.coordinator.replay import AnyGroup
from coterie.coordinator.state import Phase
from coterie.log.leader_epochs import UNDEFINED_EPOCH
from coterie.log.partition_log import PartitionLog
from coterie.records.batch import BatchHeader, batches, check_crc
from coterie.records.decoding import decode_records
from coterie.records.markers import marker_of
from coterie_conformance.stories.history import History, TopicPartition
from coterie_conformance.stories.members import COPY
from coterie_conformance.stories.plan import OUTPUT

Log = Sequence[tuple[int, bytes]]
Logs = Mapping[TopicPartition, Log]
READ_BYTES = 100_000


def check_log(history: History, logs: Logs, *, loses: bool) -> None:
    """Of all records, committed or not: acknowledged ones are where they were acknowledged, none was invented, and an
    idempotent producer's are there once, in the order in which they were sent. ``loses``: a lone broker lost unsynced records.
    """
    for partition, log in logs.items():
        offsets = [offset for offset, _ in log]
        assert offsets == sorted(set(offsets)), f"{partition}: offsets {offsets} are not in order"
        if partition[0] == OUTPUT:
            continue
        values = dict(log)
        last_number: dict[str, int] = {}
        seen: set[bytes] = set()
        for offset, value in log:
            record = history.sent.get(value)
            assert record is not None, f"{partition} has {value!r} at {offset}, which nobody sent"
            assert record.partition == partition, f"{value!r} was sent to {record.partition} and is in {partition}"
            if record.producer.startswith("plain"):
                continue
            assert value not in seen, f"{value!r} is there twice"
            seen.add(value)
            before = last_number.get(record.producer, 0)
            assert record.number > before, f"{partition}: {value!r} is after number {before} of its producer"
            last_number[record.producer] = record.number
        if loses:
            continue
        start = history.delete_requested.get(partition, 0)
        for value, record in history.sent.items():
            if record.partition == partition and record.offset is not None and record.offset >= start:
                has = values.get(record.offset)
                assert has == value, f"{value!r} was acknowledged at {partition} {record.offset}, where {has!r} is"


def check_transactions(history: History, committed: Logs, *, loses: bool) -> None:
    """A transaction is visible as a whole or not at all: as it ended, where its producer learned of an end."""
    visible = {value for log in committed.values() for _, value in log}
    for name, outcome in history.transactions.items():
        there = [value in visible for value in outcome.values if value.startswith(COPY) or _is_due(history, value)]
        if outcome.values and outcome.values[0].startswith(COPY):
            continue  # `check_copies`: a value may be copied by several transactions, of which one is committed
        if outcome.committed and not loses:
            assert all(there), f"{name} was committed, and {there.count(False)} of its records are not there"
        elif not loses and (outcome.committed is False or not outcome.asked_to_commit):
            assert not any(there), f"{name} was not committed, and {there.count(True)} of its records are there"
        elif not loses:
            assert len(set(there)) <= 1, f"{name} is there in part: {there}"


def _is_due(history: History, value: bytes) -> bool:
    """Not refused, and not deleted since."""
    record = history.sent[value]
    start = history.delete_requested.get(record.partition, 0)
    return not record.failed and not (start and (record.offset is None or record.offset < start))


def check_deliveries(
    history: History, group: str, logs: Logs, committed: Mapping[TopicPartition, int], *, loses: bool
) -> None:
    """A group was given every record below its committed offsets, and each record that it was given stays in the log."""
    delivered: dict[TopicPartition, dict[int, bytes]] = {}
    for record in history.polled.get(group, []):
        delivered.setdefault(record.partition, {})[record.offset] = record.value
    for partition, log in logs.items():
        if loses or partition[0] == OUTPUT:
            continue
        given, values = delivered.get(partition, {}), dict(log)
        start, end = history.delete_requested.get(partition, 0), committed.get(partition, 0)
        missing = [offset for offset in values if start <= offset < end and offset not in given]
        assert not missing, (
            f"{group}: {partition} {missing[:3]} were acknowledged and not delivered; committed is {end}"
        )
        for offset, value in given.items():
            there = values.get(offset)
            assert there == value or offset < start, (
                f"{group}: {value!r} was read at {partition} {offset}, now {there!r}"
            )


def check_copies(committed: Logs) -> None:
    """Each record that a reader of committed records sees was copied once, and nothing else was. A plain producer's may be
    there twice."""
    copied = Counter(value for partition, log in committed.items() if partition[0] == OUTPUT for _, value in log)
    read = Counter(COPY + value for partition, log in committed.items() if partition[0] != OUTPUT for _, value in log)
    missing, more = sorted((read - copied).elements()), sorted((copied - read).elements())
    assert not missing, f"{missing[:3]!r} and others were not copied ({len(missing)})"
    assert not more, f"{more[:3]!r} and others were copied once too often ({len(more)})"


def check_repeats(history: History, *, loses: bool) -> None:
    """An owner of a partition begins no lower than any acknowledged commit, and reads each record once."""
    assert loses or not history.repeated, "; ".join(history.repeated[:3])


def check_strays(history: History) -> None:
    """A poll returns records of partitions that its member owns."""
    assert not history.strays, "; ".join(history.strays[:3])


def check_misreported(history: History) -> None:
    """A record has its end by its delivery timeout, in the partition that it was sent to."""
    assert not history.misreported, "; ".join(history.misreported[:3])


def check_deleted(history: History, starts: Mapping[TopicPartition, int]) -> None:
    """A log begins between what was deleted and what was to be. ``starts``: where the logs begin."""
    for partition, start in starts.items():
        deleted, requested = history.deleted.get(partition, 0), history.delete_requested.get(partition, 0)
        assert deleted <= start <= requested, (
            f"{partition} begins at {start}, was deleted until {deleted}, requested was {requested}"
        )


def check_ids(history: History) -> None:
    """No producer id is given twice, and each begins with epoch 0."""
    twice = [given for given, count in Counter(given for given, _ in history.given_ids).items() if count > 1]
    assert not twice, f"producer ids {twice[:3]} were given to two producers"
    later = [given for given in history.given_ids if given[1]]
    assert not later, f"a new producer id does not begin with epoch 0: {later[:3]}"


def check_ledger(history: History, committed: Mapping[TopicPartition, int]) -> None:
    """What a group has committed in transactions is the newest offset of a committed transaction."""
    for partition in {partition for o in history.transactions.values() for partition in o.offsets}:
        certain, possible, superseded = 0, {0}, list[int]()
        for outcome in history.transactions.values():
            offset = outcome.offsets.get(partition)
            if offset is not None and outcome.committed:
                certain, superseded = max((certain, superseded), (offset, outcome.superseded))
            elif offset is not None and outcome.committed is None and outcome.asked_to_commit:
                possible |= {offset, *outcome.superseded}
        has = committed.get(partition, 0)
        expected = {certain, *superseded, *(offset for offset in possible if offset > certain)}
        assert has in expected, f"{partition}: committed in transactions is {has}, expected {sorted(expected)[:5]}"


Records = list[tuple[int, bytes]]


def read_batches(log: PartitionLog) -> Iterator[tuple[BatchHeader, bytes, int]]:
    """Every batch from the log's start on, with the bytes that hold it and where it begins in them."""
    offset = log.log_start_offset
    while offset < log.end_offset:
        data, before = log.read(offset, READ_BYTES), offset
        for position, header in batches(data):
            check_crc(data, position, header)
            yield header, data, position
            offset = header.last_offset + 1
        assert offset > before, f"nothing can be read at offset {offset}, before the end {log.end_offset}"


def check_batches(name: str, log: PartitionLog) -> None:
    """Offsets have no gap; the sequence numbers of a producer id and epoch follow each other."""
    sequences: dict[tuple[int, int], int] = {}
    next_offset: int | None = None
    for header, _, _ in read_batches(log):
        expected = min(header.base_offset, log.log_start_offset) if next_offset is None else next_offset
        assert header.base_offset == expected, f"{name}: offset {header.base_offset} follows {expected - 1}"
        next_offset = header.last_offset + 1
        if header.producer_id < 0 or header.is_control:
            continue
        producer = header.producer_id, header.producer_epoch
        before = sequences.get(producer)
        assert before is None or header.base_sequence == before + 1, (
            f"{name}: of producer {producer} sequence {header.base_sequence} follows {before}"
        )
        sequences[producer] = header.last_sequence
    assert next_offset in (None, log.end_offset), f"{name}: the last batch ends at {next_offset}, not {log.end_offset}"


def committed_records(log: PartitionLog) -> Records:
    """Offset and value, by the markers alone, in the order of the log."""
    every: list[tuple[int | None, int, bytes]] = []
    open_at: dict[int, list[int]] = {}
    committed: set[int] = set()
    for header, data, position in read_batches(log):
        if header.is_control:
            mine = open_at.pop(header.producer_id, [])
            committed.update(mine if marker_of(data, position, header) else ())
            continue
        number = header.base_offset if header.is_of_a_transaction else None
        if number is not None:
            open_at.setdefault(header.producer_id, []).append(number)
        records = decode_records(data, position, header)
        every += [(number, r.offset, r.value or b"") for r in records if r.offset >= log.log_start_offset]
    return [(offset, value) for number, offset, value in every if number is None or number in committed]


def check_committed(name: str, log: PartitionLog, read: Records) -> None:
    """``read``: what a reader of committed records gets of the whole log."""
    expected = committed_records(log)
    if read != expected:
        missing = [record for record in expected if record not in read]
        more = [record for record in read if record not in expected]
        raise AssertionError(f"{name}: by the markers a reader should get {missing[:3]}, and should not {more[:3]}")


def check_epoch(name: str, log: PartitionLog, offset: int, epoch: int) -> None:
    """A committed offset has the epoch of the leader that appended what is before it (KIP-320)."""
    if epoch == UNDEFINED_EPOCH:
        assert not offset, f"{name}: {offset} is committed without a leader epoch"
        return
    begun = [entry.epoch for entry in log.epochs.cache.entries if entry.start_offset < offset]
    assert not begun or epoch == begun[-1], (
        f"{name}: {offset} is committed with leader epoch {epoch}, before it is {begun[-1]}"
    )


Consumers = Mapping[str, Consumer[Any, Any]]


def check_member(group: AnyGroup, name: str, consumer: Consumer[Any, Any], topic_ids: Mapping[str, bytes]) -> None:
    """What a member of the consumer protocol reads, the coordinator gives to nobody else."""
    if isinstance(group, ConsumerGroup):
        member_id = consumer.group_metadata().member_id
        used = {(topic_ids[tp.topic], tp.partition) for tp in consumer.assignment()}
        _check_user(group, name, member_id, consumer.generation, used)


def _check_user(group: ConsumerGroup, name: str, member_id: str, epoch: int, used: Iterable[TopicIdPartition]) -> None:
    """What ``name`` uses as this member in its present epoch, or the one before, the coordinator gives to nobody else. Who is
    in an older one, or in the group no more, does not know it yet."""
    member = group.members.get(member_id)
    if (
        member is not None
        and epoch > 0
        and epoch in (member.current.member_epoch, member.current.previous_member_epoch)
    ):
        free = set(used) - member.current.assigned.keys() - member.current.pending_revocation.keys()
        assert not free, f"{name} uses {sorted(free)}, which the coordinator may give to others"


def check_owners(group: AnyGroup, consumers: Consumers, running: Iterable[str]) -> None:
    """In a stable generation of the classic protocol no partition has two owners."""
    if isinstance(group, ConsumerGroup) or group.phase != Phase.STABLE:
        return
    owner: dict[Any, str] = {}
    for name in running:
        consumer = consumers.get(name)
        if consumer is None or consumer.generation != group.generation:
            continue
        if consumer.group_metadata().member_id in group.members:
            for partition in consumer.assignment():
                assert partition not in owner, f"{partition} is owned by {owner[partition]} and {name}"
                owner[partition] = name
