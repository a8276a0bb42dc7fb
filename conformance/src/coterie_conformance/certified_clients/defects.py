"""What is known of the clients' own defects: which stories find them, why it is the client, and where it is reported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from coterie.certify.client.story import CONSUMER, PRODUCER


@dataclass(frozen=True, slots=True)
class KnownDefect:
    """``clients``: names of programs. ``rules``: of the findings. ``stories``: empty for each. ``report``: a link, or empty."""

    clients: Sequence[str]
    role: str
    rules: Sequence[str]
    reason: str
    stories: Sequence[str] = ()
    report: str = ""

    def explains(self, client: str, role: str, story: str, rule: str) -> bool:
        """Whether such a finding is this defect."""
        return (
            client in self.clients and role == self.role and rule in self.rules and story in (self.stories or (story,))
        )


KNOWN_DEFECTS: tuple[KnownDefect, ...] = (
    KnownDefect(
        ("librdkafka", "librdkafka, KIP-848"),
        CONSUMER,
        ("stuck",),
        "an OffsetFetch that is refused as a whole with NOT_COORDINATOR leaves its partitions in the list of queried ones: the "
        "coordinator is looked up again, the offsets are not, and the partitions are never fetched",
        ("offsets from the wrong broker",),
        "confluentinc/librdkafka#5586",
    ),
    KnownDefect(
        ("kafka-go",),
        CONSUMER,
        ("rewound", "duplicated"),
        "a commit of a record of an earlier generation is sent in the next one, behind or ahead of the commits of records that "
        "are read again: the group's offset goes back",
        report="segmentio/kafka-go#1308",
    ),
    KnownDefect(
        ("kafka-go", "platformatic"),
        CONSUMER,
        ("ended",),
        "the subscription names version 1 and ends ahead of the owned partitions, which that version has: Kafka takes it for "
        "malformed, so that no consumer of KIP-848 can join the group",
        ("a consumer of KIP-848 joins",),
    ),
    KnownDefect(
        ("kafkajs",),
        CONSUMER,
        ("rewound",),
        "after OFFSET_OUT_OF_RANGE it commits -2, the word for the earliest offset, as the group's offset",
        ("the log is cut", "the log is cut between two processes"),
        "tulios/kafkajs#1133",
    ),
    KnownDefect(
        ("kafkajs",),
        CONSUMER,
        ("ended",),
        "its only assignor has a name of its own, RoundRobinAssigner: the group refuses other libraries' consumers with "
        "INCONSISTENT_GROUP_PROTOCOL",
        ("another client joins",),
    ),
    KnownDefect(
        ("kafkajs",),
        PRODUCER,
        ("lost", "duplicated", "out of order", "stuck"),
        "idempotent: after a lost response it takes the sequence back, though the batch is written, and chooses partitions "
        "again: the records are in another partition once more, and the next batch has the sequence of the first one: it is "
        "acknowledged as a repeated one and not written, or refused for ever with OUT_OF_ORDER_SEQUENCE_NUMBER",
        report="tulios/kafkajs#598",
    ),
    KnownDefect(
        ("platformatic",),
        CONSUMER,
        ("rewound", "two at once", "duplicated", "uncommitted"),
        "the stream hands out what it has buffered of partitions that were revoked, and their commits are sent in the new "
        "generation: both members process a partition, and the group's offset goes back",
    ),
    KnownDefect(
        ("platformatic",),
        CONSUMER,
        ("stuck", "ended"),
        "an error of a fetch or of the coordinator that lasts for a few attempts ends the stream: FENCED_LEADER_EPOCH and "
        "brokers that are gone, since the metadata are not read again, COORDINATOR_NOT_AVAILABLE, and a TypeError in its pool "
        "of connections",
        (
            "no coordinator",
            "leaders move",
            "the leader dies",
            "the leader dies in a rebalance",
            "the coordinator dies",
            "the coordinator stands still",
        ),
    ),
    KnownDefect(
        ("platformatic",),
        PRODUCER,
        ("stuck",),
        "after NOT_LEADER_OR_FOLLOWER it reads the metadata once; where the broker that it reads them from does not know the "
        "new leader yet, it sends the batch to the old one each second, for 20 s and more",
        ("leaders move",),
    ),
    KnownDefect(
        ("platformatic",),
        CONSUMER,
        ("stuck", "ended"),
        "OFFSET_OUT_OF_RANGE of a fetch without a start of the log in it ends the stream",
        ("the log is cut", "the log is cut between two processes"),
        "platformatic/kafka#304",
    ),
)


def defect_of(client: str, role: str, story: str, rule: str) -> KnownDefect | None:
    """The known defect that a finding is; None for an unexplained one."""
    return next((defect for defect in KNOWN_DEFECTS if defect.explains(client, role, story, rule)), None)
