"""`group_log` -> what the records of consumer groups (KIP-848) say, over time: epochs with their members and targets, what each
member had, and who owned what. Frame -> Frame, each by one pass over a group's records in order.

A group's records may begin in the middle, as compaction or an earlier run leaves them: nothing is required of what came before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from coterie.coordinator.consumer import events as e
from coterie.coordinator.consumer.state import ConsumerSubscription, CurrentAssignment, TopicIdPartition
from coterie.coordinator.consumer.stored import event_of
from coterie.coordinator.stored_records.stored_consumer_groups import from_bytes
from coterie.machines.ownership import PartitionOwners, count_moved
from coterie.pipeline.history.reading.decoding import CONSUMER_GROUP
from coterie.pipeline.history.tables import (
    ASSIGNMENTS,
    EPOCHS,
    GENERATIONS,
    MEMBERS,
    OWNERSHIP,
    REBALANCES,
    RECONCILIATIONS,
    origin_in_offsets,
)
from coterie.pipeline.offsets import id_text
from coterie.pipeline.tables.frame import Frame, arrow_schema
from coterie.records.arrow_arrays import table_of_rows
from coterie.wire.primitives import WireError

Row = dict[str, Any]
CONSUMER = "consumer"
SCHEMAS = {
    "generations": GENERATIONS,
    "members": MEMBERS,
    "assignments": ASSIGNMENTS,
    "ownership": OWNERSHIP,
    "rebalances": REBALANCES,
    "epochs": EPOCHS,
    "reconciliations": RECONCILIATIONS,
}
# The rows of all these tables, each with the columns of its own: one pass over the records makes them.
ROWS = ", ".join({"table string": 0} | {column: 0 for schema in SCHEMAS.values() for column in schema.split(", ")})
_POSITION = ("time_ms", "log_partition", "log_offset")


def rows_of_consumer_groups(group_log: Frame, topic_names: Mapping[str, str]) -> Frame:
    """GROUP_LOG -> ROWS: those of all tables. ``topic_names``: by id as Kafka prints it; of a topic that is not in it the id
    stands for the name."""
    names = dict(topic_names)

    def run(key: tuple[Any, ...], table: Any) -> Any:
        history = GroupHistory(key[0], names)
        history.read(table.sort_by("log_offset").to_pylist())
        rows = [{"table": name} | row for name, row in history.rows]
        return table_of_rows(rows, arrow_schema(ROWS))

    return group_log.where("kind", CONSUMER_GROUP).group(["group"], run, ROWS)


def rows_of_table(rows: Frame, name: str) -> Frame:
    """ROWS -> those of one table."""
    return rows.where("table", name).select(SCHEMAS[name])


@dataclass(slots=True)
class _Epoch:
    """An epoch under way: its row of `epochs`, and the members at its beginning."""

    row: Row
    subscriptions: dict[str, ConsumerSubscription]


@dataclass(slots=True)
class GroupHistory:
    """One group's records, read in order. ``rows``: (table, row), complete after `read`."""

    group: str
    topic_names: Mapping[str, str]
    rows: list[tuple[str, Row]] = field(default_factory=list)
    _subscriptions: dict[str, ConsumerSubscription] = field(default_factory=dict)
    _current: dict[str, CurrentAssignment] = field(default_factory=dict)
    _target: dict[str, frozenset[TopicIdPartition]] = field(default_factory=dict)
    _target_owners: PartitionOwners = field(default_factory=PartitionOwners)
    _stretches: dict[tuple[str, TopicIdPartition], Row] = field(default_factory=dict)
    _epoch: _Epoch | None = None
    _before: dict[str, ConsumerSubscription] | None = None  # the members of the epoch before

    def read(self, records: Iterable[Row]) -> None:
        """``records``: GROUP_LOG of this group, in the order of the log; an unreadable one is skipped, as by a broker."""
        for row in records:
            try:
                record = from_bytes(row["key"], row["value"])
            except WireError:
                continue
            if record is not None:
                self._apply(event_of(record), {name: row[name] for name in _POSITION})
        self._close_epoch()
        for stretch in self._stretches.values():
            self.rows.append(("ownership", stretch))

    def _apply(self, event: e.ConsumerEvent, position: Row) -> None:
        match event:
            case e.GroupEpochStored():
                self._epoch_stored(event, position)
            case e.GroupEpochRemoved():
                self._close_epoch()
                self._before = None
                self._target_owners = PartitionOwners()
                self.rows.append(("generations", {"group": self.group, "members": 0, "deleted": True} | position))
            case e.SubscriptionStored():
                self._subscriptions[event.member_id] = event.subscription
            case e.SubscriptionRemoved():
                self._subscriptions.pop(event.member_id, None)
            case e.TargetStored():
                self._target[event.member_id] = event.partitions
            case e.TargetRemoved():
                self._target.pop(event.member_id, None)
            case e.TargetEpochStored() if self._subscriptions:  # without members nothing was computed
                self._target_computed(event, position)
            case e.CurrentStored():
                self._reconciled(event.member_id, event.current, position)
            case e.CurrentRemoved():
                self._release(event.member_id, position["time_ms"])
                self._current.pop(event.member_id, None)
            case _:
                pass

    # -- epochs -----------------------------------------------------------------------------------------------------------

    def _epoch_stored(self, event: e.GroupEpochStored, position: Row) -> None:
        self._close_epoch()
        of_group = {"group": self.group, "generation": event.epoch}
        generation = {"protocol_type": CONSUMER, "members": len(self._subscriptions), "deleted": False}
        self.rows.append(("generations", of_group | generation | position))
        for member_id, subscription in self._subscriptions.items():
            self.rows.append(("members", of_group | _described(member_id, subscription) | position))
        fields = {"group": self.group, "epoch": event.epoch, "metadata_hash": event.metadata_hash}
        self._epoch = _Epoch(fields | {"members": len(self._subscriptions)} | position, dict(self._subscriptions))

    def _close_epoch(self) -> None:
        """The epoch's rows, once nothing is added to it any more. A group that an upgrade made did not rebalance by it."""
        if self._epoch is None:
            return
        row, members = self._epoch.row, self._epoch.subscriptions
        self.rows.append(("epochs", row))
        upgraded = self._before is None and members and all(s.classic is not None for s in members.values())
        if not upgraded:
            self.rows.append(("rebalances", _rebalance(row, self._before or {}, members)))
        self._before, self._epoch = members, None

    def _target_computed(self, event: e.TargetEpochStored, position: Row) -> None:
        owners = {partition: member for member, partitions in self._target.items() for partition in partitions}
        self._target_owners.present((member_id, s.instance_id) for member_id, s in self._subscriptions.items())
        changes = self._target_owners.assigned(dict(owners))
        if self._epoch is not None and self._epoch.row["epoch"] == event.epoch:
            self._epoch.row |= {"target_ms": position["time_ms"], "moved": count_moved(changes)}
            self._epoch.row["unowned"] = sum(change.owner is None for change in changes)
        for (topic_id, partition), member_id in sorted(owners.items()):
            of_member = {"group": self.group, "generation": event.epoch, "member_id": member_id}
            where = {"topic": self._name(topic_id), "partition": partition, "client_id": self._client(member_id)}
            self.rows.append(("assignments", of_member | where | position))

    # -- members ------------------------------------------------------------------------------------------------------------

    def _reconciled(self, member_id: str, current: CurrentAssignment, position: Row) -> None:
        before, now = self._held(member_id), {*current.assigned, *current.pending_revocation}
        epoch = self._epoch.row["epoch"] if self._epoch is not None else None
        of_member = {"group": self.group, "epoch": epoch, "member_id": member_id, "client_id": self._client(member_id)}
        step = {"member_epoch": current.member_epoch, "state": current.state.name, "owned": len(current.assigned)}
        moves = {
            "assigned": self._texts(now - before),
            "released": self._texts(before - now),
            "revoking": self._texts(current.pending_revocation),
        }
        self.rows.append(("reconciliations", of_member | step | moves | position))
        self._current[member_id] = current
        self._release(member_id, position["time_ms"], keep=now)
        for topic_id, partition in now - before:
            where = {"group": self.group, "topic": self._name(topic_id), "partition": partition}
            begun = {"member_id": member_id, "client_id": self._client(member_id), "from_ms": position["time_ms"]}
            epochs = {"first_generation": current.member_epoch, "last_generation": current.member_epoch}
            self._stretches[member_id, (topic_id, partition)] = where | begun | epochs
        for held in now:
            self._stretches[member_id, held]["last_generation"] = current.member_epoch
        self._note_reconciled(position["time_ms"])

    def _note_reconciled(self, time_ms: int) -> None:
        """The first time at which every member has the target of the epoch."""
        if self._epoch is None or "target_ms" not in self._epoch.row or "reconciled_ms" in self._epoch.row:
            return
        epoch = self._epoch.row["epoch"]
        standing = [self._current.get(member_id) for member_id in self._subscriptions]
        if all(c is not None and c.is_reconciled_to(epoch) for c in standing):
            self._epoch.row["reconciled_ms"] = time_ms

    def _held(self, member_id: str) -> set[TopicIdPartition]:
        current = self._current.get(member_id)
        return set() if current is None else {*current.assigned, *current.pending_revocation}

    def _release(self, member_id: str, time_ms: int, keep: Iterable[TopicIdPartition] = ()) -> None:
        for partition in {p for owner, p in self._stretches if owner == member_id} - set(keep):
            stretch = self._stretches.pop((member_id, partition))
            self.rows.append(("ownership", stretch | {"until_ms": time_ms}))

    def _client(self, member_id: str) -> str | None:
        subscription = self._subscriptions.get(member_id)
        return None if subscription is None else subscription.client_id

    def _name(self, topic_id: bytes) -> str:
        text = id_text(topic_id)
        return self.topic_names.get(text, text)

    def _texts(self, partitions: Iterable[TopicIdPartition]) -> list[str]:
        return sorted(f"{self._name(topic_id)}-{partition}" for topic_id, partition in partitions)


def _described(member_id: str, s: ConsumerSubscription) -> Row:
    return {
        "member_id": member_id,
        "group_instance_id": s.instance_id,
        "client_id": s.client_id,
        "client_host": s.client_host,
        "session_timeout_ms": None if s.classic is None else s.classic.session_timeout_ms,
        "rebalance_timeout_ms": s.rebalance_timeout_ms,
        "topics": sorted(s.topic_names),
    }


def _rebalance(
    epoch: Row, before: Mapping[str, ConsumerSubscription], members: Mapping[str, ConsumerSubscription]
) -> Row:
    old = {s.instance_id or member_id: s for member_id, s in before.items()}
    new = {s.instance_id or member_id: s for member_id, s in members.items()}
    joined, departed = [n for n in new if n not in old], [n for n in old if n not in new]
    causes = [("member_joined", f"{n} joined") for n in joined]
    causes += [("member_gone", f"{n} left or was removed") for n in departed]
    if not causes:
        changed = [n for n, s in new.items() if _topics(s) != _topics(old[n])]
        causes = [("subscription_changed", f"{n} changed its subscription") for n in changed]
    if not causes:
        causes = [("topic_metadata_changed", "the same members: topics or their partitions changed")]
    return {
        "group": epoch["group"],
        "generation": epoch["epoch"],
        "source": "offsets",
        "origin": origin_in_offsets(causes[0][0]),
        "event": "epoch_raised",
        "time_ms": epoch["time_ms"],
        "members": epoch["members"],
        "cause": causes[0][0],
        "why": "; ".join(text for _, text in causes),
        "causes": len(causes),
        "joined": len(joined),
        "departed": len(departed),
        "moved": epoch.get("moved"),
        "unowned": epoch.get("unowned"),
        "log_offset": epoch["log_offset"],
    }


def _topics(s: ConsumerSubscription) -> tuple[frozenset[str], str]:
    return s.topic_names, s.topic_regex
