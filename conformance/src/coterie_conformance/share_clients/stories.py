"""The stories of share consumers; each returns what is compared, records as (partition, offset, delivery count, value)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from coterie.client.blocking import BlockingAdmin, BlockingProducer
from coterie_conformance.share_clients.stage import SharerStage, all_accepted, polled, quiet

Outcome = dict[str, Any]
LIMIT = 5
LOCK_MS = 2_000
BROKER_SETTINGS = {
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "500",
    "group.share.heartbeat.interval.ms": "500",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "auto.create.topics.enable": "false",
    "errors.deadletterqueue.auto.create.topics.enable": "true",
}


def once_per_accept(stage: SharerStage) -> Outcome:
    """Implicit mode: each record once, and to no later member again."""
    stage.begin(partitions=2)
    for partition in (0, 1):
        stage.produce(*[f"{partition}-{n}" for n in range(60)], partition=partition)
    one, taken = stage.member("implicit"), list[Any]()
    while len(taken) < 120:
        taken += polled(one)
    failed = one.commit()
    one.close()
    two = stage.member("implicit")
    return {"delivered": sorted(taken), "failed": failed, "delivered to the next": quiet(two)}


def each_by_its_type(stage: SharerStage) -> Outcome:
    """Accept, release and reject of the records of one batch."""
    stage.begin()
    stage.produce(*[str(n) for n in range(9)])
    one, kinds = stage.member(), ("ACCEPT", "RELEASE", "REJECT")
    first = polled(one, 9)
    for record in first:
        one.acknowledge(record, kinds[record[1] % 3])
    failed = one.commit()
    return {"first": first, "failed": failed, "again": all_accepted(one, 3), "afterwards": quiet(one)}


def released_to_the_limit(stage: SharerStage) -> Outcome:
    """A record that is always released: the counts of its deliveries, then no more of it."""
    stage.begin()
    stage.produce("hard")
    one, counts = stage.member(), []
    for _ in range(LIMIT):
        (record,) = polled(one)
        counts.append(record[2])
        one.acknowledge(record, "RELEASE")
        assert not one.commit()
    stage.produce("easy")
    return {"counts": counts, "next": all_accepted(one, 1), "afterwards": quiet(one)}


def two_of_one_group(stage: SharerStage) -> Outcome:
    """Two members at the same two partitions: between them each record once."""
    stage.begin(partitions=2)
    one, two = stage.member(), stage.member()
    taken: list[Any] = []
    for n in range(10):
        for partition in (0, 1):
            stage.produce(*[f"{n}-{k}" for k in range(10)], partition=partition)
    while len(taken) < 200:
        for member in (one, two):
            records = member.poll(200)
            for record in records:
                member.acknowledge(record)
            taken += records
            assert not member.commit()
    return {"delivered": sorted(taken), "afterwards": quiet(one) + quiet(two)}


def killed_with_locks(stage: SharerStage) -> Outcome:
    """A member that is killed with records in hand: another one gets them a second time."""
    stage.begin()
    stage.produce(*[str(n) for n in range(20)])
    one = stage.member()
    first = polled(one, 20)
    one.kill()
    two = stage.member()
    return {"first": first, "again": all_accepted(two, 20), "afterwards": quiet(two)}


def lock_that_times_out(stage: SharerStage) -> Outcome:
    """A member that holds its record for longer than the lock: another one gets it."""
    stage.begin(share_record_lock_duration_ms=str(LOCK_MS))
    stage.produce("slow")
    one = stage.member()
    first = polled(one)
    two = stage.member()
    return {"first": first, "again": all_accepted(two, 1), "afterwards": quiet(two)}


def renewed_lock(stage: SharerStage) -> Outcome:
    """A member that renews its lock keeps the record for longer than one lock, and accepts it."""
    stage.begin(share_record_lock_duration_ms=str(LOCK_MS))
    one = stage.member()
    stage.produce("long")
    (record,) = polled(one)
    two = stage.member()
    two.send(f"poll {3 * LOCK_MS}")
    while not two.has_responded():
        one.renew(record)
        time.sleep(LOCK_MS / 10_000)
    meanwhile = two.receive()["records"]
    one.acknowledge(record)
    return {"first": record, "meanwhile": meanwhile, "failed": one.commit(), "afterwards": quiet(two)}


def closed_with_records(stage: SharerStage) -> Outcome:
    """A close sends what is acknowledged, and the rest goes to the next member."""
    stage.begin()
    stage.produce(*[str(n) for n in range(10)])
    one = stage.member()
    for record in polled(one, 10):
        one.acknowledge(record, "ACCEPT" if record[1] < 5 else "RELEASE")
    one.close()
    two = stage.member()
    return {"again": all_accepted(two, 5), "afterwards": quiet(two)}


def dead_letters_with_copies(stage: SharerStage) -> Outcome:
    """Rejected records of three partitions, in a dead letter topic of two: key, value and headers of each letter."""
    stage.begin(
        partitions=3,
        errors_deadletterqueue_topic_name=stage.letters,
        errors_deadletterqueue_copy_record_enable="true",
    )
    with BlockingAdmin({"bootstrap.servers": stage.address}) as admin:
        admin.create_topic(stage.letters, 2, {"errors.deadletterqueue.group.enable": "true"})
    with BlockingProducer({"bootstrap.servers": stage.address}) as producer:
        for partition in range(3):
            for n in range(6):
                key = b"key %d" % n if n else None
                producer.send(stage.topic, b"%d" % n, key, partition=partition, headers=[("own", b"1")]).result()
    one, taken = stage.member(), list[Any]()
    while len(taken) < 18:
        records = polled(one)
        for record in records:
            one.acknowledge(record, "ACCEPT" if record[1] % 3 else "REJECT")
        taken += records
        assert not one.commit()
    return {"delivered": sorted(taken), "letters": _unnumbered(stage, 6), "afterwards": quiet(one)}


def dead_letter_of_spent_deliveries(stage: SharerStage) -> Outcome:
    """A record that is always released, and one that times out: letters without copies, in a topic that the broker creates."""
    stage.begin(
        errors_deadletterqueue_topic_name=stage.letters,
        share_record_lock_duration_ms=str(LOCK_MS),
        share_delivery_count_limit="2",
    )
    stage.produce("released")
    one = stage.member()
    for _ in range(2):
        (record,) = polled(one)
        one.acknowledge(record, "RELEASE")
        assert not one.commit()
    first = _unnumbered(stage, 1)
    stage.produce("held")
    held = polled(one)
    one.close()
    two = stage.member()
    held += polled(two)
    time.sleep(2 * LOCK_MS / 1000)
    return {"first": first, "held": held, "letters": _unnumbered(stage, 2)}


def _unnumbered(stage: SharerStage, count: int) -> list[Any]:
    """The letters, without the number in the names of topic and group."""
    named = {stage.topic.encode(): b"TOPIC", stage.group.encode(): b"GROUP"}
    return [
        (partition, key, value, [(name, named.get(header, header)) for name, header in headers])
        for partition, key, value, headers in stage.dead_letters(count)
    ]


def _transactions(stage: SharerStage, isolation: str) -> Outcome:
    stage.begin(share_isolation_level=isolation)
    one, taken = stage.member(), list[Any]()
    for name, is_committed in (("first", True), ("second", False), ("third", True)):
        with stage.transaction(name) as producer:
            for n in range(3):
                producer.send(stage.topic, f"{name}-{n}".encode(), partition=0).result()
            if is_committed:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
    wanted = 6 if isolation == "read_committed" else 9
    while len(taken) < wanted:
        taken += all_accepted(one, 1)
    with stage.transaction("open") as producer:
        producer.send(stage.topic, b"open", partition=0).result()
        while_open = all_accepted(one, 1) if isolation == "read_uncommitted" else quiet(one)
        producer.commit_transaction()
    after = all_accepted(one, 1) if isolation == "read_committed" else quiet(one)
    return {"delivered": taken, "while one is open": while_open, "after its commit": after}


def of_committed_transactions(stage: SharerStage) -> Outcome:
    """share.isolation.level=read_committed."""
    return _transactions(stage, "read_committed")


def of_all_transactions(stage: SharerStage) -> Outcome:
    """share.isolation.level=read_uncommitted."""
    return _transactions(stage, "read_uncommitted")


STORIES: dict[str, Callable[[SharerStage], Outcome]] = {
    "each record once per accept": once_per_accept,
    "accept, release and reject": each_by_its_type,
    "released to the limit of deliveries": released_to_the_limit,
    "two members": two_of_one_group,
    "killed with locks held": killed_with_locks,
    "a lock that times out": lock_that_times_out,
    "a lock that is renewed": renewed_lock,
    "closed with records in hand": closed_with_records,
    "dead letters with copies": dead_letters_with_copies,
    "a dead letter of spent deliveries": dead_letter_of_spent_deliveries,
    "only committed transactions": of_committed_transactions,
    "all transactions": of_all_transactions,
}
NEED_RENEWALS = frozenset({"a lock that is renewed"})
NEED_DEAD_LETTERS = frozenset({"dead letters with copies", "a dead letter of spent deliveries"})
DEAD_LETTERS_SINCE = "4.4.0"
