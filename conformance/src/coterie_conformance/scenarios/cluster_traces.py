"""Traces of a controller: its writes to ZooKeeper and its requests, each in a line."""

from __future__ import annotations

import json
from collections.abc import Mapping

from coterie.controller.commands import LeadersElected, ReassignmentsAltered, ReassignmentsListed
from coterie.controller.requests import LeaderAndIsr, Offline, Request, ShutdownAllowed, StopReplica, UpdateMetadata
from coterie.replication.states import (
    EPOCH_DURING_DELETE,
    LEADER_DURING_DELETE,
    NO_LEADER,
    PartitionState,
    TopicPartition,
)
from coterie.wire.errors import ErrorCode
from coterie.zookeeper.operations import CheckVersion, Create, Delete, Multi, Operation, Write

_LEADERS = {NO_LEADER: "none", LEADER_DURING_DELETE: "deleted"}


def partition_name(partition: TopicPartition) -> str:
    """``t-0``."""
    return f"{partition[0]}-{partition[1]}"


def partition_of(text: str) -> TopicPartition:
    """``t-0`` read."""
    topic, _, number = text.rpartition("-")
    return topic, int(number)


def error_name(error: ErrorCode) -> str:
    """Kafka's, or ``done``."""
    return "done" if error is ErrorCode.NONE else error.name


def write_texts(operation: Operation | CheckVersion) -> list[str]:
    """What is written; [] of a read."""
    match operation:
        case Multi(operations):
            return [text for one in operations for text in write_texts(one)]
        case Create(path, data) | Write(path, data):
            verb = "create" if isinstance(operation, Create) else "write"
            return [f"{verb} {path} {_node_text(data)}".rstrip()]
        case Delete(path):
            return [f"delete {path}"]
    return []


def _node_text(data: str) -> str:
    """JSON without what every version has."""
    if not data.startswith("{"):
        return data
    node = json.loads(data)
    if "leader" in node:
        isr = ",".join(map(str, node["isr"]))
        return f"leader={_LEADERS.get(node['leader'], node['leader'])} epoch={node['leader_epoch']} isr={isr}"
    if "timestamp" in node:
        return ""
    return json.dumps({key: value for key, value in node.items() if key != "version" and value}, separators=(",", ":"))


def effect_text(effect: Request | LeadersElected | ReassignmentsAltered | ReassignmentsListed | ShutdownAllowed) -> str:
    """An effect in a line."""
    match effect:
        case LeaderAndIsr(states=states, new=new):
            return "LeaderAndIsr " + _states(states, new)
        case UpdateMetadata(live=live, states=states, offline=offline):
            return f"UpdateMetadata live={_list(live)} {_leaders(states, offline)}".rstrip()
        case StopReplica(stopped=stopped):
            parts = [
                f"{partition_name(p)} epoch={'deleted' if one.leader_epoch == EPOCH_DURING_DELETE else one.leader_epoch}"
                + (" delete" if one.delete else "")
                for p, one in sorted(stopped.items())
            ]
            return "StopReplica " + ", ".join(parts)
        case LeadersElected(results=results, error=error) | ReassignmentsAltered(results=results, error=error):
            parts = [f"{partition_name(p)} {error_name(one)}" for p, one in sorted(results.items())]
            return f"{type(effect).__name__} {', '.join(parts) or error_name(error)}"
        case ReassignmentsListed(assignments=assignments, error=error):
            parts = [
                f"{partition_name(p)} replicas={_list(a.replicas)} adding={_list(a.adding)} removing={_list(a.removing)}"
                for p, a in assignments.items()
            ]
            return f"ReassignmentsListed {', '.join(parts) or (error.name if error else 'none')}"
        case ShutdownAllowed(broker, remaining, error):
            left = " ".join(map(partition_name, remaining))
            return f"ShutdownAllowed {broker} " + (f"leads {left}" if left else error_name(error))


def _list(numbers: object) -> str:
    return ",".join(map(str, numbers)) if isinstance(numbers, tuple | dict) else str(numbers)


def _states(states: Mapping[TopicPartition, PartitionState], new: frozenset[TopicPartition]) -> str:
    parts = []
    for partition, state in sorted(states.items()):
        text = (
            f"{partition_name(partition)} leader={_LEADERS.get(state.leader, state.leader)} epoch={state.leader_epoch}"
        )
        text += f" isr={_list(state.isr)} replicas={_list(state.replicas)}"
        text += f" adding={_list(state.adding_replicas)}" if state.adding_replicas else ""
        text += f" removing={_list(state.removing_replicas)}" if state.removing_replicas else ""
        parts.append(text + (" new" if partition in new else ""))
    return ", ".join(parts)


def _leaders(states: Mapping[TopicPartition, PartitionState], offline: Offline) -> str:
    parts = [
        f"{partition_name(p)} leader={_LEADERS.get(s.leader, s.leader)} isr={_list(s.isr)}"
        + (f" offline={_list(offline[p])}" if p in offline else "")
        for p, s in sorted(states.items())
    ]
    return ", ".join(parts)
