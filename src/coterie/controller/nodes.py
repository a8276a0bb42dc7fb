"""Kafka 2.6's nodes of a cluster in ZooKeeper (ZkData): where they are and what they hold.

/controller                    ephemeral   {"version":1,"brokerid":1,"timestamp":"ms"}
/controller_epoch              persistent  in digits
/brokers/ids/B                 ephemeral   version 4
/brokers/topics/T              persistent  version 2: partitions, adding_replicas, removing_replicas
/brokers/topics/T/partitions/P/state       version 1: leader, leader_epoch, controller_epoch, isr
/isr_change_notification/isr_change_N      sequential: the partitions whose ISR a leader has changed
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from coterie.replication.states import PartitionState, TopicPartition
from coterie.zookeeper.operations import Corrupt, Znode

CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
ISR_CHANGES = "/isr_change_notification"
_MALFORMED = (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, RecursionError)


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def controller(broker_id: int, now_ms: int) -> str:
    """The controller's node."""
    return _json({"version": 1, "brokerid": broker_id, "timestamp": str(now_ms)})


def broker(host: str, port: int, rack: str | None, now_ms: int) -> str:
    """A broker's registration with one listener."""
    node: dict[str, object] = {
        "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
        "endpoints": [f"PLAINTEXT://{host}:{port}"],
        "jmx_port": -1,
        "host": host,
        "timestamp": str(now_ms),
        "port": port,
        "version": 4,
    }
    return _json(node if rack is None else {**node, "rack": rack})


def topic(replicas: Mapping[int, Iterable[int]]) -> str:
    """A topic's node: partition -> its replicas, the preferred leader first."""
    partitions = {str(p): list(ids) for p, ids in sorted(replicas.items())}
    return _json({"version": 2, "partitions": partitions, "adding_replicas": {}, "removing_replicas": {}})


def replicas_of(text: str) -> dict[int, tuple[int, ...]]:
    """A topic's node read, of any version. Raises Corrupt."""
    try:
        return {int(p): tuple(int(r) for r in ids) for p, ids in json.loads(text)["partitions"].items()}
    except _MALFORMED as error:
        raise Corrupt(f"a topic's node holds {text[:200]!r}") from error


def state(of: PartitionState) -> str:
    """A partition's state node."""
    return _json(
        {
            "controller_epoch": of.controller_epoch,
            "leader": of.leader,
            "version": 1,
            "leader_epoch": of.leader_epoch,
            "isr": list(of.isr),
        }
    )


def state_of(node: Znode, replicas: Sequence[int]) -> PartitionState:
    """A partition's state node read. Raises Corrupt."""
    try:
        held = json.loads(node.data)
        return PartitionState(
            int(held["leader"]),
            int(held["leader_epoch"]),
            tuple(int(r) for r in held["isr"]),
            int(held["controller_epoch"]),
            node.version,
            tuple(replicas),
        )
    except _MALFORMED as error:
        raise Corrupt(f"a partition's state holds {node.data[:200]!r}") from error


def isr_change(partitions: Iterable[TopicPartition]) -> str:
    """A notification's node."""
    return _json({"version": 1, "partitions": [{"topic": t, "partition": p} for t, p in sorted(partitions)]})


def isr_change_of(text: str) -> list[TopicPartition]:
    """A notification read. Raises Corrupt."""
    try:
        return [(str(one["topic"]), int(one["partition"])) for one in json.loads(text)["partitions"]]
    except _MALFORMED as error:
        raise Corrupt(f"an ISR notification holds {text[:200]!r}") from error
