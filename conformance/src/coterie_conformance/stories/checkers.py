"""What must hold of a story's history and of what the brokers have at its end. Each checker raises AssertionError."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from coterie_conformance.stories.history import History, TopicPartition
from coterie_conformance.stories.plan import OUTPUT
from coterie_conformance.stories.programs import COPY

Log = Sequence[tuple[int, bytes]]
Logs = Mapping[TopicPartition, Log]


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
        for value, record in history.sent.items():
            if record.partition == partition and record.offset is not None and record.offset >= 0:
                has = values.get(record.offset)
                assert has == value, f"{value!r} was acknowledged at {partition} {record.offset}, where {has!r} is"


def check_transactions(history: History, committed: Logs, *, loses: bool) -> None:
    """A transaction is visible as a whole or not at all: as it ended, where its producer learned of an end."""
    visible = {value for log in committed.values() for _, value in log}
    for name, outcome in history.transactions.items():
        there = [value in visible for value in outcome.values if value.startswith(COPY) or not _failed(history, value)]
        if outcome.values and outcome.values[0].startswith(COPY):
            continue  # `check_copies`: a value may be copied by several transactions, of which one is committed
        if outcome.committed and not loses:
            assert all(there), f"{name} was committed, and {there.count(False)} of its records are not there"
        elif not loses and (outcome.committed is False or not outcome.asked_to_commit):
            assert not any(there), f"{name} was not committed, and {there.count(True)} of its records are there"
        elif not loses:
            assert len(set(there)) <= 1, f"{name} is there in part: {there}"


def _failed(history: History, value: bytes) -> bool:
    return history.sent[value].failed


def check_deliveries(
    history: History, group: str, logs: Logs, committed: Mapping[TopicPartition, int], *, loses: bool
) -> None:
    """A group was given every record below its committed offsets, each with the value that the log has."""
    polled = history.polled.get(group, [])
    delivered: dict[TopicPartition, dict[int, bytes]] = {}
    for record in polled:
        delivered.setdefault(record.partition, {})[record.offset] = record.value
    for partition, log in logs.items():
        given = delivered.get(partition, {})
        for offset, value in log:
            if loses:
                break
            if offset < committed.get(partition, 0):
                assert offset in given, f"{group}: {partition} {offset} is committed and was not delivered"
            if offset in given:
                assert given[offset] == value, f"{group}: {partition} {offset} was delivered as {given[offset]!r}"


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
