"""Scenarios of streams groups (tests/spec/streams): the language of tests/spec, the steps of `modern_scenario`, and these.

thread a join             StreamsGroupHeartbeat with epoch 0; `thread a`, `thread a owns=0_0+0_1`, `thread a leave`
restored                  how far members have restored their tasks
config streams_num_standby_replicas=1   a setting, without its `group_`
configs rack_aware_assignment_tags=zone a setting of texts
streams-describe          StreamsGroupDescribe
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from coterie.coordinator.commands import Command
from coterie.coordinator.shard import Decision, Step
from coterie.coordinator.streams import events as s
from coterie.coordinator.streams.state import CurrentTasks, OwnedTasks, StreamsGroup, StreamsGroupState
from coterie.coordinator.streams.tasks import TaskId, Tasks
from coterie.coordinator.views.streams_group import describe_streams_group, explain_streams_group, task_names
from coterie.wire.errors import error_of
from coterie.wire.messages.streams.streams_group_describe import TaskAssignment
from coterie.wire.messages.streams.streams_group_heartbeat import (
    CopartitionGroup,
    Endpoint,
    InternalTopic,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    TaskOffset,
    Topology,
)
from coterie_conformance.scenarios.groups.modern_scenario import ModernScenario, because
from coterie_conformance.scenarios.groups.scenario_requests import Actors, Options, RequestActor, plain

_EPOCHS = {"join": 0, "leave": -1, "leave-static": -2}
_STORED = (
    "group_epoch",
    "metadata_hash",
    "validated_topology_epoch",
    "assignment_configs",
    "topology",
    "assignment_epoch",
    "assignment_timestamp_ms",
    "members",
    "static_members",
    "target",
    "owners",
    "offsets",
    "phase",
)
_ROLES = ("active", "standby", "warmup")
_TOPOLOGY = "0:in/log"


def topology_of(text: str, epoch: int = 0) -> Topology:
    """`0:in+in2>rep;1:<rep/log`: subtopology 0 reads in and in2 and writes rep, 1 reads the internal topic rep and has the
    changelog log; `log@2` has 2 partitions, `in+in2!` are read by equal numbers."""
    return Topology(epoch, [_subtopology(part) for part in text.split(";") if part])


def _subtopology(text: str) -> Subtopology:
    subtopology_id, _, rest = text.partition(":")
    rest, _, changelogs = rest.partition("/")
    rest, _, repartitions = rest.partition("<")
    sources, _, sinks = rest.partition(">")
    together, sources = sources.endswith("!"), sources.rstrip("!")
    names = [name for name in sources.split("+") if name]
    groups = [CopartitionGroup(list(range(len(names))), [], [])] if together else []
    return Subtopology(
        subtopology_id,
        names,
        state_changelog_topics=_internal(changelogs),
        repartition_sink_topics=[name for name in sinks.split("+") if name],
        repartition_source_topics=_internal(repartitions),
        copartition_groups=groups,
    )


def _internal(text: str) -> list[InternalTopic]:
    topics = (item.partition("@") for item in text.split("+") if item)
    return [InternalTopic(name, int(partitions or 0)) for name, _, partitions in topics]


def thread(actor: RequestActor, actors: Actors, words: list[str], options: Options) -> Command:
    """`thread a join topology=0:in/log topology-epoch=0 process=p rebalance=5000 instance=i rack=r tags=zone:x endpoint=h:1`;
    `thread a owns=0_0+0_1 standby=0_2 warmup=- restored=0_0:5 ends=0_0:9 shutdown=yes endpoints=1`. A dash is the empty list or
    string, and without `owns` no tasks are reported."""
    kind = words[0] if words else ""
    if kind == "join" and ("id" in options or not actor.member_id):
        actor.member_id = plain(options.get("id", f"{options['actor']}-1"))
    if kind == "join":
        options = {"topology": _TOPOLOGY, "rebalance": "5000", "process": options["actor"], "owns": "-", **options}
    if "instance" in options:
        actor.instance = None if options["instance"] == "null" else plain(options["instance"])
    request = StreamsGroupHeartbeatRequest(
        plain(options.get("group", "g")),
        plain(options.get("member", actor.member_id)),
        int(options.get("epoch", _EPOCHS.get(kind, actor.generation))),
        int(options.get("endpoints", 0)),
        actor.instance,
        plain(options["rack"]) if "rack" in options else None,
        int(options.get("rebalance", -1)),
        process_id=options.get("process"),
        shutdown_application="shutdown" in options,
    )
    if options.get("topology", "null") != "null":
        request.topology = topology_of(plain(options["topology"]), int(options.get("topology-epoch", 0)))
    if "regex" in options and request.topology is not None:
        request.topology.subtopologies[0].source_topic_regex = [options["regex"]]
    if "owns" in options:
        tasks = [_task_ids(options.get(name, "-")) for name in ("owns", "standby", "warmup")]
        request.active_tasks, request.standby_tasks, request.warmup_tasks = tasks
    if options.get("standby") == "null":
        request.standby_tasks = None
    if "tags" in options:
        pairs = (item.split(":") for item in options["tags"].split("+") if item != "-")
        request.client_tags = [KeyValue(key, value) for key, value in pairs]
    if "endpoint" in options:
        host, _, port = options["endpoint"].partition(":")
        request.user_endpoint = Endpoint(host, int(port))
    if "restored" in options:
        request.task_offsets = _offsets(options["restored"])
    if "ends" in options:
        request.task_end_offsets = _offsets(options["ends"])
    return request


def _task(text: str) -> TaskId:
    subtopology_id, _, partition = text.rpartition("_")
    return subtopology_id, int(partition)


def _task_ids(text: str) -> list[TaskIds]:
    by_subtopology: dict[str, list[int]] = {}
    for item in [] if text in ("-", "null") else text.split("+"):
        subtopology_id, partition = _task(item)
        by_subtopology.setdefault(subtopology_id, []).append(partition)
    return [TaskIds(subtopology_id, partitions) for subtopology_id, partitions in by_subtopology.items()]


def _offsets(text: str) -> list[TaskOffset]:
    pairs = (item.split(":") for item in text.split("+") if item != "-")
    return [TaskOffset(*_task(task), int(offset)) for task, offset in pairs]


class StreamsScenario(ModernScenario[StreamsGroup]):
    """A world with streams groups."""

    kind, state, heartbeat_response = StreamsGroup, StreamsGroupState, StreamsGroupHeartbeatResponse
    stored, lane = _STORED, "_"

    def __init__(self) -> None:
        super().__init__()
        self.config.group_streams_initial_rebalance_delay_ms = 0
        self.config.group_streams_assignment_interval_ms = 0
        self._requests["thread"] = (thread, 1)
        self._verbs |= {
            "restored": self._restored,
            "configs": self._configs,
            "streams-describe": self._describe_streams,
        }

    def _committed(self, decision: Decision, steps: list[Step]) -> None:
        super()._committed(decision, steps)
        if decision.outcome.internal_topics:
            wanted = " ".join(f"{t.name}={t.partitions}" for t in decision.outcome.internal_topics)
            self.trace.append(f"{decision.group.group_id}: create {wanted}")

    def _event_text(self, event: object) -> str | None:
        match event:
            case s.StreamsEpochStored():
                validated = event.validated_topology_epoch
                ready = "" if validated >= 0 else ", topology not ready"
                configs = ", ".join(f"{key}={value}" for key, value in event.assignment_configs)
                return f"group epoch {event.epoch}{because(event.cause)}{ready}, {configs}"
            case s.StreamsEpochRemoved():
                return f"removed{because(event.cause)}"
            case s.StreamsMetadataStored(member_id, m):
                static = f" instance={m.instance_id}" if m.instance_id is not None else ""
                tags = f" tags={'+'.join(map(':'.join, m.client_tags))}" if m.client_tags else ""
                rack = f" rack={m.rack_id}" if m.rack_id else ""
                more = f"{static}{rack}{tags}{' endpoint' if m.user_endpoint else ''}"
                return f"{member_id} process={m.process_id} topology={m.topology_epoch}{more}"
            case s.StreamsMetadataRemoved(member_id, cause):
                return f"{member_id} is gone{because(cause)}"
            case s.TaskTargetStored(member_id, tasks):
                return f"target of {member_id}: {_tasks_text(tasks)}"
            case s.TaskTargetEpochStored(epoch, _):
                return f"target epoch {epoch}"
            case s.CurrentTasksStored(member_id, current):
                return f"{member_id} {_current_text(current)}"
            case s.TopologyStored(topology):
                return f"topology {topology.epoch} of {len(topology.subtopologies)}"
            case s.TopologyRemoved():
                return "no topology"
            case s.ShutdownRequested(member_id):
                return f"{member_id} requests a shutdown"
            case s.EndpointsChanged(epoch):
                return f"endpoints {epoch}"
            case s.InitialDelaySet(until_ms):
                return f"initial delay until {until_ms}" if until_ms is not None else "initial delay over"
            case s.TasksRestored(member_id):
                return f"{member_id} reports offsets"
            case s.TaskTargetEpochRemoved() | s.CurrentTasksRemoved() | s.TaskTargetRemoved():
                return ""
            case s.TopologyConfigured():
                return f"topology {'ready' if event.configured.is_ready else 'not ready'} at {event.topics_version}"
            case s.StreamsExpiryDelayed(member_id, deadline_ms):
                return f"{member_id}'s end is retried at {deadline_ms}"
        return None

    def _current_text(self, current: CurrentTasks) -> str:
        return _current_text(current)

    def _explained(self, group: StreamsGroup) -> dict[str, Any]:
        return explain_streams_group(group, self.now_ms, self.config)

    # -- steps -----------------------------------------------------------------------------------------------------

    def _config(self, words: list[str], options: dict[str, str]) -> None:
        super()._config(
            words, {f"group_{name}" if name.startswith("streams") else name: v for name, v in options.items()}
        )

    def _configs(self, words: list[str], options: dict[str, str]) -> None:
        for name, value in options.items():
            if name == "streams_assignor_name":
                self.config.streams_assignor_name = value
            else:
                setattr(self.config, f"group_streams_{name}", tuple(v for v in value.split("+") if v != "-"))

    def _restored(self, words: list[str], options: dict[str, str]) -> None:
        for member_id, restored in self.shard.of_kind(StreamsGroup)["g"].restored.items():
            both = [
                "+".join(f"{task_names([task])[0]}:{offset}" for task, offset in offsets.items()) or "-"
                for offsets in (restored.offsets, restored.end_offsets)
            ]
            self.trace.append(f"{member_id} {both[0]} of {both[1]}")
        self.trace = self.trace or ["nothing"]

    def _describe_streams(self, words: list[str], options: dict[str, str]) -> None:
        group_id = plain(options.get("group", "g"))
        group = describe_streams_group(self.shard.group(group_id), group_id, self.config)
        text = f"{error_of(group.error_code).name} {group.error_message or ''}".rstrip()
        if not group.error_code:
            epochs = f"epoch={group.group_epoch} target={group.assignment_epoch} assignor={group.assignor_name}"
            text += f" {group.group_state} {epochs}"
        self.trace.append(text)
        for sub in (group.topology.subtopologies or []) if group.topology is not None else []:
            names = [[t.name for t in topics] for topics in (sub.repartition_source_topics, sub.state_changelog_topics)]
            flows = [sub.source_topics, sub.repartition_sink_topics, *names]
            self.trace.append(f"{sub.subtopology_id}: {' '.join('+'.join(flow) or '-' for flow in flows)}")
        for m in group.members:
            static = f" instance={m.instance_id}" if m.instance_id else ""
            has, is_to_have = _described(m.assignment), _described(m.target_assignment)
            self.trace.append(f"{m.member_id}{static} epoch={m.member_epoch} process={m.process_id} has {has}")
            offsets = [
                "+".join(f"{o.subtopology_id}_{o.partition}:{o.offset}" for o in each) or "-"
                for each in (m.task_offsets, m.task_end_offsets)
            ]
            self.trace.append(f"    is to have {is_to_have}; restored {offsets[0]} of {offsets[1]}")


def _described(assignment: TaskAssignment) -> str:
    roles = (assignment.active_tasks, assignment.standby_tasks, assignment.warmup_tasks)
    return _tasks_text(
        Tasks(*(frozenset((t.subtopology_id, p) for t in tasks for p in t.partitions) for tasks in roles))
    )


def _named(tasks: Iterable[TaskId]) -> str:
    return " ".join(task_names(tasks))


def _tasks_text(tasks: Tasks) -> str:
    named = [
        f"{name}{_named(getattr(tasks, role))}"
        for role, name in zip(_ROLES, ("", "standby ", "warm-up "), strict=True)
        if getattr(tasks, role)
    ]
    return ", ".join(named) or "-"


def _owned_text(owned: OwnedTasks) -> str:
    active = " ".join(f"{task_names([task])[0]}@{owned.active[task]}" for task in sorted(owned.active))
    named = [
        active,
        f"standby {_named(owned.standby)}" if owned.standby else "",
        f"warm-up {_named(owned.warmup)}" if owned.warmup else "",
    ]
    return ", ".join(filter(None, named)) or "-"


def _current_text(current: CurrentTasks) -> str:
    text = f"epoch {current.member_epoch} after {current.previous_member_epoch} {current.state.name} "
    text += _owned_text(current.assigned)
    return text + (f" revokes {_owned_text(current.pending_revocation)}" if current.pending_revocation else "")
