"""The one history of a story: what each program asked of the brokers, and what it learned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

TopicPartition = tuple[str, int]


@dataclass(slots=True)
class SentRecord:
    """``number`` counts a producer's records, over all its lives; ``offset`` once it was acknowledged. ``due_s``: when its
    delivery.timeout.ms is over, once it is in a batch."""

    producer: str
    number: int
    partition: TopicPartition
    transaction: str | None = None
    offset: int | None = None
    failed: bool = False
    due_s: float | None = None


@dataclass(slots=True)
class TransactionOutcome:
    """Of one transaction; ``committed`` None: its producer did not learn of an end. ``offsets``: what it commits; after
    ``superseded`` ones, of which a request that was sent twice may be carried out last: TxnOffsetCommit has no sequence."""

    values: list[bytes] = field(default_factory=list)
    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    superseded: list[int] = field(default_factory=list)
    committed: bool | None = None
    asked_to_commit: bool = False


@dataclass(frozen=True, slots=True)
class PolledRecord:
    """A record that a poll returned to a member of a group."""

    process: str
    partition: TopicPartition
    offset: int
    value: bytes


@dataclass(slots=True)
class History:
    """``sent`` by value, each of which is unique; ``polled`` by group, in the order of time; ``committed``: by group the
    highest offsets whose commit was acknowledged; ``repeated``: sentences about records that were read again without a cause;
    ``strays``: about records of partitions that their member did not own; ``misreported``: about ends of records that came too
    late, or named another partition: a producer only logs what its callbacks raise. ``delete_requested`` and ``deleted``: the
    highest offset until which records were to be deleted, and until which they were; ``given_ids``: producer ids without a
    transactional id."""

    sent: dict[bytes, SentRecord] = field(default_factory=dict)
    transactions: dict[str, TransactionOutcome] = field(default_factory=dict)
    polled: dict[str, list[PolledRecord]] = field(default_factory=dict)
    committed: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    repeated: list[str] = field(default_factory=list)
    strays: list[str] = field(default_factory=list)
    misreported: list[str] = field(default_factory=list)
    delete_requested: dict[TopicPartition, int] = field(default_factory=dict)
    deleted: dict[TopicPartition, int] = field(default_factory=dict)
    given_ids: list[tuple[int, int]] = field(default_factory=list)  # with their epochs
    errors: list[tuple[str, str]] = field(default_factory=list)  # process, and what it was refused with

    def commit_acknowledged(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """The coordinator has accepted these offsets."""
        highest = self.committed.setdefault(group, {})
        for partition, offset in offsets.items():
            highest[partition] = max(offset, highest.get(partition, 0))

    def acknowledged(self) -> int:
        """How many records were."""
        return sum(record.offset is not None for record in self.sent.values())

    def deliveries(self) -> int:
        """How many records polls returned, over all groups."""
        return sum(map(len, self.polled.values()))
