"""Scenarios of share groups at their coordinator (tests/spec/share_group): the language of tests/spec, the steps of
`modern_scenario`, and these.

sharer a join topics=t    ShareGroupHeartbeat with epoch 0; `sharer a`, `sharer a topics=u`, `sharer a leave`
initialized t-0 t-1       the share coordinator has initialized these states; `initialized failed t-0`: it could not
alter t-0=5               AlterShareGroupOffsets; `delete-states t u` is DeleteShareGroupOffsets
deleting, deleted t       all states are to be deleted; the share coordinator has deleted those of t
states                    which partitions have a state
share-describe            ShareGroupDescribe
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from coterie.coordinator.commands import Command, StatesDeleted, StatesDeleting, StatesInitialized, TopicsDeleted
from coterie.coordinator.consumer.state import TopicIdPartition
from coterie.coordinator.outcome import Reply
from coterie.coordinator.shard import Decision, Step
from coterie.coordinator.share import events as s
from coterie.coordinator.share.state import ShareAssignment, ShareGroup, ShareGroupState, StatePartitions, StateTopic
from coterie.coordinator.views.share_group import describe_share_group, explain_share_group
from coterie.laboratory.brokers.consumer_broker_actor import topic_id_of
from coterie.wire.errors import error_of
from coterie.wire.messages.share.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from coterie.wire.messages.share.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from coterie.wire.messages.share.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from coterie_conformance.scenarios.groups.modern_scenario import ModernScenario, because, name_of
from coterie_conformance.scenarios.groups.scenario_requests import Actors, Options, RequestActor, by_topic, plain
from coterie_conformance.scenarios.groups.scenario_responses import response_text

_EPOCHS = {"join": 0, "leave": -1}
_STORED = ("group_epoch", "metadata_hash", "assignment_epoch", "assignment_timestamp_ms", "members", "target", "phase")


def sharer(actor: RequestActor, actors: Actors, words: list[str], options: Options) -> Command:
    """`sharer a join topics=t+u rack=r id=x epoch=3 member=x group=g`; topics that are a dash are the empty list."""
    kind = words[0] if words else ""
    if kind == "join":
        if "id" in options or not actor.member_id:
            actor.member_id = plain(options.get("id", f"{options['actor']}-1"))
        options = {"topics": "t", **options}
    topics = options.get("topics", "null")
    return ShareGroupHeartbeatRequest(
        plain(options.get("group", "g")),
        plain(options.get("member", actor.member_id)),
        int(options.get("epoch", _EPOCHS.get(kind, actor.generation))),
        plain(options["rack"]) if "rack" in options else None,
        None if topics == "null" else [name for name in plain(topics).split("+") if name],
    )


def alter(actor: RequestActor, actors: Actors, words: list[str], options: Options) -> Command:
    """`alter t-0=5 u-1=3`"""
    topics: dict[str, list[AlterShareGroupOffsetsRequestPartition]] = {}
    for name, offset in options.items():
        topic, dash, partition = name.rpartition("-")
        if dash:
            topics.setdefault(topic, []).append(AlterShareGroupOffsetsRequestPartition(int(partition), int(offset)))
    rows = [AlterShareGroupOffsetsRequestTopic(topic, partitions) for topic, partitions in topics.items()]
    return AlterShareGroupOffsetsRequest(plain(options.get("group", "g")), rows)


def delete_states(actor: RequestActor, actors: Actors, words: list[str], options: Options) -> Command:
    """`delete-states t u`"""
    rows = [DeleteShareGroupOffsetsRequestTopic(word) for word in words]
    return DeleteShareGroupOffsetsRequest(plain(options.get("group", "g")), rows)


class ShareGroupScenario(ModernScenario[ShareGroup]):
    """A world with share groups; what the share coordinator does is a step."""

    kind, state, heartbeat_response = ShareGroup, ShareGroupState, ShareGroupHeartbeatResponse
    stored = _STORED

    def __init__(self) -> None:
        super().__init__()
        self.config.group_share_assignment_interval_ms = 0
        self._requests |= {"sharer": (sharer, 1), "alter": (alter, 0), "delete-states": (delete_states, 0)}
        self._verbs |= {
            "initialized": self._initialized,
            "deleting": lambda words, options: self._internal(StatesDeleting("g")),
            "deleted": lambda words, options: self._internal(StatesDeleted("g", frozenset(map(topic_id_of, words)))),
            "states": self._states,
            "share-describe": self._describe_share,
        }

    # -- the driver ------------------------------------------------------------------------------------------------

    def _ask(self, verb: str, words: list[str], options: dict[str, str]) -> None:
        super()._ask(verb, ["admin", *words] if verb in ("alter", "delete-states") else words, options)

    def _committed(self, decision: Decision, steps: list[Step]) -> None:
        super()._committed(decision, steps)
        if decision.outcome.initialize is not None:
            request = decision.outcome.initialize
            rows = [
                f"{name_of(topic.topic_id)}-{p.partition}@{p.state_epoch} from {p.start_offset}"
                for topic in request.topics
                for p in topic.partitions
            ]
            self.trace.append(f"{request.group_id}: initialize {', '.join(rows)}")

    def _respond(self, reply: Reply) -> None:
        if reply.token is not None:
            super()._respond(reply)
        else:  # a command of the driver's own
            self.trace.append(f"refused: {response_text(reply.response)}")

    def _event_text(self, event: object) -> str | None:
        return _event_text(event)

    def _current_text(self, current: ShareAssignment) -> str:
        return f"epoch {current.member_epoch} {_names(current.assigned)}"

    def _explained(self, group: ShareGroup) -> dict[str, Any]:
        return explain_share_group(group, self.now_ms, self.config)

    # -- steps -----------------------------------------------------------------------------------------------------

    def _delete_topic(self, words: list[str], options: dict[str, str]) -> None:
        """Each group gets the command about the deleted topics."""
        gone = tuple((word, topic_id_of(word)) for word in words)
        for group_id in [group.group_id for group in self.shard.every_group()]:
            self._internal(TopicsDeleted(group_id, gone))

    def _initialized(self, words: list[str], options: dict[str, str]) -> None:
        succeeded = "failed" not in words
        named = by_topic(word for word in words if word != "failed")
        partitions = {topic_id_of(topic): frozenset(numbers) for topic, numbers in named.items()}
        self._internal(StatesInitialized(options.get("group", "g"), partitions, succeeded))

    def _states(self, words: list[str], options: dict[str, str]) -> None:
        states = self.shard.of_kind(ShareGroup)["g"].states
        self.trace.append("no record" if states is None else _states_text(states))

    def _describe_share(self, words: list[str], options: dict[str, str]) -> None:
        group_id = plain(options.get("group", "g"))
        group = describe_share_group(self.shard.group(group_id), group_id, self.topics)
        text = f"{error_of(group.error_code).name} {group.error_message or ''}".rstrip()
        epochs = f" {group.group_state} epoch={group.group_epoch} target={group.assignment_epoch} {group.assignor_name}"
        self.trace.append(text if group.error_code else text + epochs)
        for m in group.members:
            has = " ".join(f"{t.topic_name}-{p}" for t in m.assignment.topic_partitions for p in t.partitions) or "-"
            rack = f" rack={m.rack_id}" if m.rack_id else ""
            who = f"{m.member_id}{rack} {m.client_id}{m.client_host}"
            self.trace.append(f"{who} epoch={m.member_epoch} topics={'+'.join(m.subscribed_topic_names)} has {has}")


def _event_text(event: object) -> str | None:
    """An event in words; "" for one that is not worth a line, None for one of another kind of group."""
    match event:
        case s.ShareMemberStored(member_id, subscription):
            rack = f" rack={subscription.rack_id}" if subscription.rack_id else ""
            return f"{member_id} subscribes to {'+'.join(sorted(subscription.topic_names)) or 'no topic'}{rack}"
        case s.ShareMemberRemoved(member_id, cause):
            return f"{member_id} is gone{because(cause)}"
        case s.ShareEpochStored(epoch, _, cause):
            return f"group epoch {epoch}{because(cause)}"
        case s.ShareEpochRemoved(cause):
            return f"removed{because(cause)}"
        case s.ShareTargetEpochStored(epoch, timestamp_ms):
            return f"target epoch {epoch} of {timestamp_ms}"
        case s.ShareTargetStored(member_id, partitions):
            return f"target of {member_id}: {_names(partitions)}"
        case s.ShareCurrentStored(member_id, current):
            epochs = f"epoch {current.member_epoch} after {current.previous_member_epoch}"
            return f"{member_id} {epochs} {_names(current.assigned)}"
        case s.StatePartitionsStored(states, cause):
            return f"states {_states_text(states)}{because(cause)}"
        case s.ShareExpiryDelayed(member_id, deadline_ms):
            return f"{member_id}'s end is retried at {deadline_ms}"
        case s.ShareTopicsChecked() | s.ShareTargetEpochRemoved() | s.ShareTargetRemoved() | s.ShareCurrentRemoved():
            return ""
        case s.StatePartitionsRemoved():
            return "no states"
    return None


def _names(partitions: Iterable[TopicIdPartition]) -> str:
    return " ".join(sorted(f"{name_of(topic_id)}-{number}" for topic_id, number in partitions)) or "-"


def _states_text(states: StatePartitions) -> str:
    def numbers(topics: Iterable[tuple[bytes, StateTopic]]) -> str:
        return _names((topic_id, number) for topic_id, topic in topics for number in topic.partitions)

    parts = [
        f"{word} {text}"
        for word, text in (
            ("initializing", numbers(states.initializing.items())),
            ("initialized", numbers(states.initialized.items())),
            ("deleting", "+".join(sorted(states.deleting.values())) or "-"),
        )
        if text != "-"
    ]
    return ", ".join(parts) or "of nothing"
