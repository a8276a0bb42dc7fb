"""One step of a group as one line of JSON: read by broker, laboratory, console and pipeline.

A line is the value of a record in the topic `__coterie_journal` (its key is the group id). A field that has nothing to say
is left out; FIELDS gives the meaning of each.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple

TOPIC = "__coterie_journal"
MOVED_SHOWN = 1000
OWNERS_SHOWN = 5000

FIELDS = {
    "time_ms": "when, in ms since 1970",
    "group": "the group's id",
    "generation": "the group's generation, or group epoch (KIP-848), after the event; -1 where the observer does not know it",
    "event": "one of the events below",
    "state_from": "the group's state before the event",
    "state_to": "the group's state after the event",
    "causes": "why: objects with kind, member_id, client_id, group_instance_id and reason (the client's own words, KIP-800); "
    "from `coterie observe` and `coterie proxy` also evidence (without it observed) and the rule of an inferred one",
    "leader": "the member id of the leader",
    "protocol": "the assignor in force",
    "members": "the number of members",
    "member": "the member id that the event is about (KIP-848)",
    "member_epoch": "that member's epoch after the event",
    "join_ms": "how long PreparingRebalance took",
    "sync_ms": "how long CompletingRebalance took",
    "moved": "partitions whose owner changed (of a streams group: active tasks, with the subtopology as topic): objects topic, "
    "partition, from (the last owner; null where there was none), "
    f"to (null: unowned); at most {MOVED_SHOWN} of them",
    "moved_count": "how many partitions moved: a member owns them that is another than the last that owned them",
    "unowned_count": "how many partitions had an owner before the event and have none after it",
    "unowned_ms": "how long partitions were unowned, summed over partitions that have one again: from the revocation, or the "
    "last heartbeat of an owner that died, to this event, while the group had live members",
    "undetected_ms": "the part of `unowned_ms` in which the coordinator had not noticed that the owner was dead",
    "coordinator": "the id of the broker that coordinates the group after the event",
    "coordinator_from": "the id of the broker that did before; left out where that is not known",
    "coordinator_epoch": "the leader epoch of the group's partition of `__consumer_offsets`",
    "loaded_groups": "how many groups that partition has",
    "load_ms": "how long they took to load",
    "owners": f"member id, topic, partitions; left out where there are more than {OWNERS_SHOWN} partitions",
}

EVENTS = {
    "id_reserved": "a newcomer was given a member id and is to join again with it",
    "id_dropped": "a reserved member id was dropped",
    "member_joined": "a new member joined",
    "member_rejoined": "a member joined again",
    "member_replaced": "a static member came back under a new member id",
    "member_removed": "a member left or was removed",
    "rebalance_wanted": "something calls for a rebalance",
    "rebalance_started": "the coordinator waits for the members to join",
    "join_extended": "the wait for further members is extended",
    "generation_formed": "all members have joined; the leader assigns",
    "stable": "the assignment is stored and sent to the members",
    "empty": "no members are left",
    "group_removed": "the group is gone",
    "coordinator_moved": "another broker of the cluster has loaded the group and coordinates it",
    "pattern_seen": "what several rebalances, or a long phase, show from outside (`coterie observe`)",
    "epoch_raised": "the group epoch rose: a new target assignment is due (KIP-848)",
    "target_computed": "the target assignment of the group epoch is computed; `moved` is what it changes",
    "member_revokes": "a member is to revoke the partitions in `moved`, and keeps its epoch until it has",
    "member_reconciled": "a member released and was assigned the partitions in `moved`",
    "tasks_restored": "a member of a streams group restores tasks, or has restored them; the causes' reasons have which",
    "records_archived": "records of a share group are archived, accepted by nobody; the reason has them and their letters",
    "states_changed": "an administrator altered or deleted the offsets of a share group (KIP-932)",
}


class CauseWords(NamedTuple):
    """A kind of cause: its ``verb`` behind the member in a line of the journal, its ``title`` where rebalances are counted by
    cause, and whether by it a member is no longer in the group (``is_departure``)."""

    verb: str
    title: str
    is_departure: bool = False


# Kinds of `coterie observe` alone, which sees neither requests nor timers.
SEEN_FROM_OUTSIDE = {
    "member_gone": CauseWords("left or was removed", "a member left or was removed", True),
    "not_seen": CauseWords("the cause was not seen", "the cause was not seen"),
    "deploy": CauseWords("a deploy: members are restarted one after the other", "a deploy"),
    "member_flaps": CauseWords("comes and goes again and again", "a member flaps"),
    "slow_join": CauseWords("the join phase is long", "the join phase was long"),
    "slow_sync": CauseWords("the leader has not sent the assignment", "the leader sent the assignment late"),
    "instance_fenced": CauseWords("another process has the same group.instance.id", "instances fenced each other"),
    "commit_by_stranger": CauseWords("a commit by no member", "somebody else committed"),
    "coordinator_lost": CauseWords("the group has no coordinator", "the group had no coordinator"),
}
CAUSE_WORDS = {
    "member_joined": CauseWords("joined", "a member joined"),
    "leader_rejoined": CauseWords("the leader requested a rebalance", "the leader rejoined"),
    "subscription_changed": CauseWords("changed its subscription", "a subscription changed"),
    "static_member_returned": CauseWords("returned as a static member", "a static member returned"),
    "member_left": CauseWords("left", "a member left", True),
    "session_timeout": CauseWords("was silent for its session timeout", "a session timed out", True),
    "join_timeout": CauseWords(
        "received no JoinGroup response within five minutes", "a member received no JoinGroup response", True
    ),
    "rebalance_timeout": CauseWords("did not rejoin in time", "a member did not rejoin in time", True),
    "sync_timeout": CauseWords("did not sync in time", "a member did not sync in time", True),
    "group_max_size": CauseWords("the group is larger than group.max.size", "the group was larger than group.max.size"),
    "assignment_not_stored": CauseWords("the assignment could not be stored", "an assignment could not be stored"),
    "topic_metadata_changed": CauseWords(
        "the partitions of a subscribed topic changed", "the partitions of a topic changed"
    ),
    "states_initialized": CauseWords(
        "partitions got a state at the share coordinator", "partitions of a share group got a state"
    ),
    "regex_resolved": CauseWords(
        "a regular expression matches other topics", "a regular expression matched other topics"
    ),
    "member_changed": CauseWords("changed what it says of itself", "a member of Kafka Streams changed"),
    "topology_validated": CauseWords("the topology has its topics", "a topology got its topics"),
    "topology_not_ready": CauseWords("topics of the topology are missing or do not fit", "a topology lost its topics"),
    "assignment_configs_changed": CauseWords(
        "the settings of the task assignor changed", "the settings of a task assignor changed"
    ),
    "member_replaced": CauseWords("came back under a new member id", "a member came back under a new member id"),
    "task_restores": CauseWords("restores", "a member began to restore tasks"),
    "task_restored": CauseWords("has restored", "a member restored tasks"),
    "became_streams": CauseWords("became a streams group", "the group became a streams group"),
    "upgraded": CauseWords("became a group of the consumer protocol", "the group moved to the consumer protocol"),
    "downgraded": CauseWords("became a group of the classic protocol", "the group moved to the classic protocol"),
    "deleted": CauseWords("deleted by an administrator", "an administrator deleted the group"),
    "expired": CauseWords("its offsets expired", "the group's offsets expired"),
    "offsets_altered": CauseWords("an administrator altered offsets", "an administrator altered offsets"),
    "offsets_deleted": CauseWords("an administrator deleted offsets", "an administrator deleted offsets"),
    "tombstone": CauseWords("a tombstone in the log", "a tombstone in the log"),
    "deliveries_spent": CauseWords("no delivery is left", "records were delivered as often as they may be"),
    "record_rejected": CauseWords("a member rejected records", "members rejected records"),
    **SEEN_FROM_OUTSIDE,
}
CAUSES = {kind: words.verb for kind, words in CAUSE_WORDS.items()}
CAUSE_TITLES = {kind: words.title for kind, words in CAUSE_WORDS.items()}
DEPARTURES = frozenset(kind for kind, words in CAUSE_WORDS.items() if words.is_departure)

_OF_COORDINATORS = ("coordinator", "coordinator_from", "coordinator_epoch", "loaded_groups", "load_ms")
_encode = json.JSONEncoder(separators=(",", ":")).encode
quote = json.encoder.encode_basestring_ascii


@dataclass(slots=True)
class JournalLine:
    """One line; FIELDS has the meaning of each field."""

    time_ms: int
    group: str
    generation: int
    event: str
    state_from: str
    state_to: str
    causes: list[dict[str, str]] = field(default_factory=list)
    leader: str | None = None
    protocol: str | None = None
    members: int | None = None
    member: str | None = None
    member_epoch: int | None = None
    join_ms: int | None = None
    sync_ms: int | None = None
    moved: list[dict[str, Any]] = field(default_factory=list)
    moved_count: int | None = None
    unowned_count: int | None = None
    unowned_ms: int | None = None
    undetected_ms: int | None = None
    coordinator: int | None = None
    coordinator_from: int | None = None
    coordinator_epoch: int | None = None
    loaded_groups: int | None = None
    load_ms: int | None = None
    owners: dict[str, dict[str, list[int]]] | None = None

    def to_json(self, causes: list[str] | None = None) -> str:
        """The line, its fields in their order; ``causes``: the JSON of each, where it is known. Written out: a generic encoder
        takes four times as long."""
        text = line_start(self.time_ms, self.group, self.generation, self.event, self.state_from, self.state_to)
        text += causes_json([_object(cause) for cause in self.causes] if causes is None else causes)
        if self.leader is not None:
            text += f',"leader":{quote(self.leader)}'
        if self.protocol is not None:
            text += f',"protocol":{quote(self.protocol)}'
        if self.members is not None:
            text += f',"members":{self.members}'
        if self.member is not None:
            text += f',"member":{quote(self.member)}'
        if self.member_epoch is not None:
            text += f',"member_epoch":{self.member_epoch}'
        if self.join_ms is not None:
            text += f',"join_ms":{self.join_ms}'
        if self.sync_ms is not None:
            text += f',"sync_ms":{self.sync_ms}'
        if self.moved:
            text += f',"moved":{_encode(self.moved)}'
        if self.moved_count is not None:
            text += f',"moved_count":{self.moved_count}'
        if self.unowned_count is not None:
            text += f',"unowned_count":{self.unowned_count}'
        if self.unowned_ms is not None:
            text += f',"unowned_ms":{self.unowned_ms}'
        if self.undetected_ms is not None:
            text += f',"undetected_ms":{self.undetected_ms}'
        if self.coordinator is not None:
            values = {name: getattr(self, name) for name in _OF_COORDINATORS}
            text += "".join([f',"{name}":{value}' for name, value in values.items() if value is not None])
        if self.owners is not None:
            text += f',"owners":{_encode(self.owners) if self.owners else "{}"}'
        return text + "}"

    @classmethod
    def from_json(cls, line: str | bytes) -> JournalLine:
        """Raises ValueError for a line that is not a journal's; unknown fields of later versions are passed over."""
        try:
            fields = json.loads(line)
        except RecursionError as error:
            raise ValueError("not a journal line: it is nested too deeply") from error
        if not isinstance(fields, dict):
            raise ValueError("not a journal line")
        values = {k: v for k, v in fields.items() if k in FIELDS}
        wrong = [k for k in _REQUIRED if k not in values] + [k for k in values if not isinstance(values[k], _KINDS[k])]
        if wrong or not all(map(_is_cause, values.get("causes", ()))):
            raise ValueError(f"not a journal line: {', '.join(wrong) or 'causes'}")
        return cls(**values)

    def why(self) -> str:
        """The causes in words: "consumer-1 joined; consumer-2 left"; of a coordinator, where it came from."""
        if self.coordinator is not None:
            return self._coordinator_text()
        return "; ".join(cause_text(cause) for cause in self.causes)

    def explained_json(self) -> str:
        """The line with ``why``, as commands and pages show it."""
        return f'{self.to_json()[:-1]},"why":{quote(self.why())}}}'

    def _coordinator_text(self) -> str:
        origin = "" if self.coordinator_from is None else f"from broker {self.coordinator_from} "
        loaded = "" if self.load_ms is None else f"; {self.loaded_groups} groups loaded in {self.load_ms} ms"
        return f"the coordinator moved {origin}to broker {self.coordinator} (epoch {self.coordinator_epoch}){loaded}"


_REQUIRED = {"time_ms": int, "group": str, "generation": int, "event": str, "state_from": str, "state_to": str}
_KINDS = dict.fromkeys(FIELDS, int) | _REQUIRED
_KINDS |= {"causes": list, "moved": list, "leader": str, "protocol": str, "member": str, "owners": dict}


def line_start(time_ms: int, group: str, generation: int, event: str, state_from: str, state_to: str) -> str:
    """The JSON of the fields that every line has, which come first."""
    return (
        f'{{"time_ms":{time_ms},"group":{quote(group)},"generation":{generation},"event":{quote(event)},'
        f'"state_from":{quote(state_from)},"state_to":{quote(state_to)}'
    )


def causes_json(causes: list[str]) -> str:
    """The JSON of the field that comes next; ``causes``: that of each of its objects."""
    return f',"causes":[{",".join(causes)}]' if causes else ""


def cause_json(
    kind: str,
    member_id: str,
    client_id: str = "",
    group_instance_id: str | None = None,
    reason: str | None = None,
) -> str:
    """The JSON of a cause; what is empty is left out."""
    text = f'{{"kind":{quote(kind)}'
    if member_id:
        text += f',"member_id":{quote(member_id)}'
    if client_id:
        text += f',"client_id":{quote(client_id)}'
    if group_instance_id:
        text += f',"group_instance_id":{quote(group_instance_id)}'
    if reason:
        text += f',"reason":{quote(reason)}'
    return text + "}"


def _object(texts: dict[str, str]) -> str:
    return f"{{{','.join([f'{quote(name)}:{quote(text)}' for name, text in texts.items()])}}}"


def _is_cause(value: Any) -> bool:
    return isinstance(value, dict) and "kind" in value and {*map(type, value.values())} == {str}


def cause_text(cause: dict[str, str]) -> str:
    """One cause in words."""
    who = cause.get("group_instance_id") or cause.get("member_id") or cause.get("client_id") or ""
    text = f"{who} {CAUSES.get(cause['kind'], cause['kind'])}".strip()
    more = [cause["reason"]] if cause.get("reason") else []
    more += [f"inferred: {cause['rule'].replace('_', ' ')}"] if cause.get("rule") else []
    return f"{text} ({', '.join(more)})" if more else text
