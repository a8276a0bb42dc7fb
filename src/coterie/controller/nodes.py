"""Kafka 2.6's nodes of a cluster in ZooKeeper (ZkData): where they are and what they hold. A broker's node is read in any
version.

/controller                    ephemeral   {"version":1,"brokerid":1,"timestamp":"ms"}
/controller_epoch              persistent  in digits
/cluster/id                    persistent  version 1: the id of the cluster
/brokers/ids/B                 ephemeral   version 4
/brokers/topics/T              persistent  version 2: partitions, adding_replicas, removing_replicas; 3: topic_id as well
/brokers/topics/T/partitions/P/state       version 1: leader, leader_epoch, controller_epoch, isr
/isr_change_notification/isr_change_N      sequential: the partitions whose ISR has changed
/log_dir_event_notification/log_dir_event_N  sequential, version 1: the broker of which a log directory has failed
/admin/delete_topics/T         persistent  empty: the topic is to be deleted
/admin/reassign_partitions     persistent  version 1: partitions and their replicas, by tools before KIP-455
/admin/preferred_replica_election          version 1: partitions whose preferred leader shall lead, by tools before KIP-460
/config/topics/T               persistent  version 1: the settings that the topic has of its own
/config/{users,clients,ips}/N  persistent  version 1: quotas, and a user's credentials; /config/users/U/clients/C of both
/config/features/<default>     persistent  version 1: the finalized feature levels, which Kafka 2.7 has in /feature
/config/changes/config_change_N            sequential, version 2: whose settings were altered
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, unquote

from coterie.controller.assignment import ReplicaAssignment
from coterie.replication.states import PartitionState, TopicPartition
from coterie.text.addresses import parse_address
from coterie.zookeeper.operations import Corrupt, Create, Znode

CLUSTER_ID = "/cluster/id"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
ISR_CHANGES = "/isr_change_notification"
LOG_DIR_EVENTS = "/log_dir_event_notification"
DELETED_TOPICS = "/admin/delete_topics"
REASSIGNED = "/admin/reassign_partitions"
PREFERRED_ELECTION = "/admin/preferred_replica_election"
CONFIG_CHANGES = "/config/changes"
ID_BYTES = 16  # of a topic's id
TOPICS_KIND = "topics"
BROKERS_KIND = "brokers"
GROUPS_KIND = "groups"
CLIENT_METRICS_KIND = "client-metrics"
USERS_KIND = "users"
CLIENTS_KIND = "clients"
IPS_KIND = "ips"
FEATURES_KIND = "features"
CLIENT_KINDS = (USERS_KIND, CLIENTS_KIND, IPS_KIND)  # with quotas, and the credentials of users
DEFAULT_ENTITY = "<default>"  # of all brokers
PLAINTEXT = "PLAINTEXT"
_MALFORMED = (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, RecursionError)


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def cluster(cluster_id: str) -> str:
    """The node of the cluster's id, with its version in a string as Kafka writes it."""
    return _json({"version": "1", "id": cluster_id})


def cluster_id_of(text: str) -> str:
    """That node read. Raises Corrupt."""
    try:
        cluster_id = json.loads(text)["id"]
    except _MALFORMED as error:
        raise Corrupt(f"{CLUSTER_ID} holds {text[:200]!r}") from error
    if not isinstance(cluster_id, str) or not cluster_id:
        raise Corrupt(f"{CLUSTER_ID} holds {text[:200]!r}")
    return cluster_id


def controller(broker_id: int, now_ms: int) -> str:
    """The controller's node."""
    return _json({"version": 1, "brokerid": broker_id, "timestamp": str(now_ms)})


def broker(
    host: str, port: int, rack: str | None, now_ms: int, listener: tuple[str, str] = (PLAINTEXT, PLAINTEXT)
) -> str:
    """A broker's registration with one listener, of that name and protocol. Consumers of 0.8 read the ``host`` and ``port``
    beside the endpoints, which are those of a listener without security."""
    name, protocol = listener
    is_plain = protocol == PLAINTEXT
    node: dict[str, object] = {
        "listener_security_protocol_map": {name: protocol},
        "endpoints": [f"{name}://{host}:{port}"],
        "jmx_port": -1,
        "host": host if is_plain else None,
        "timestamp": str(now_ms),
        "port": port if is_plain else -1,
        "version": 4,
    }
    return _json(node if rack is None else {**node, "rack": rack})


@dataclass(frozen=True, slots=True)
class BrokerEndpoint:
    """A listener; ``security_protocol`` as Kafka names it: PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL."""

    host: str
    port: int
    listener: str = PLAINTEXT
    security_protocol: str = PLAINTEXT


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """A broker's node read: where it listens, one endpoint at least, and its rack."""

    endpoints: tuple[BrokerEndpoint, ...]
    rack: str | None = None

    def has_protocol(self, protocol: str) -> bool:
        """Whether it has a listener of that protocol."""
        return any(e.security_protocol == protocol for e in self.endpoints)

    @property
    def address(self) -> tuple[str, int]:
        """As `address_by` PLAINTEXT."""
        return self.address_by(PLAINTEXT)

    def address_by(self, protocol: str) -> tuple[str, int]:
        """The address of the broker's first listener of that protocol, or of its first."""
        reached = next((e for e in self.endpoints if e.security_protocol == protocol), self.endpoints[0])
        return reached.host, reached.port


def registration_of(text: str) -> BrokerRegistration:
    """Of a broker's node of any version. Raises Corrupt."""
    try:
        node = json.loads(text)
        protocols = node.get("listener_security_protocol_map", {})
        endpoints = tuple(_endpoint(str(one), protocols) for one in node.get("endpoints", ()))
        if not endpoints:  # version 1
            endpoints = (BrokerEndpoint(str(node["host"]), int(node["port"])),)
        rack = node.get("rack")
        return BrokerRegistration(endpoints, None if rack is None else str(rack))
    except _MALFORMED as error:
        raise Corrupt(f"a broker's node holds {text[:200]!r}") from error


def _endpoint(text: str, protocols: dict[str, str]) -> BrokerEndpoint:
    listener, _, address = text.partition("://")
    return BrokerEndpoint(*parse_address(address), listener, str(protocols.get(listener, listener)))


def topic(replicas: Mapping[int, Iterable[int]], topic_id: bytes | None = None) -> str:
    """A topic's node: partition -> its replicas, the preferred leader first. ``topic_id``: 16 bytes, None where a broker before
    2.8 may read it."""
    return assignments({p: ReplicaAssignment(tuple(ids)) for p, ids in replicas.items()}, topic_id)


def assignments(of: Mapping[int, ReplicaAssignment], topic_id: bytes | None = None) -> str:
    """A topic's node whose partitions may be reassigned: of version 3 with an id (KIP-516), else of version 2."""
    ordered = sorted(of.items())
    kept = {} if topic_id is None else {"topic_id": base64.urlsafe_b64encode(topic_id).decode().rstrip("=")}
    return _json(
        {
            "version": 2 if topic_id is None else 3,
            **kept,
            "partitions": {str(p): list(a.replicas) for p, a in ordered},
            "adding_replicas": {str(p): list(a.adding) for p, a in ordered if a.adding},
            "removing_replicas": {str(p): list(a.removing) for p, a in ordered if a.removing},
        }
    )


def assignments_of(text: str) -> dict[int, ReplicaAssignment]:
    """A topic's node read, of any version. Raises Corrupt."""
    try:
        node = json.loads(text)
        adding, removing = node.get("adding_replicas") or {}, node.get("removing_replicas") or {}
        return {
            int(p): ReplicaAssignment(_ids(ids), _ids(adding.get(p, ())), _ids(removing.get(p, ())))
            for p, ids in node["partitions"].items()
        }
    except _MALFORMED as error:
        raise Corrupt(f"a topic's node holds {text[:200]!r}") from error


def topic_id_of(text: str) -> bytes | None:
    """The id in a topic's node; None where there is none, or none that can be."""
    try:
        topic_id = base64.urlsafe_b64decode(json.loads(text)["topic_id"] + "==")
    except _MALFORMED:
        return None
    return topic_id if len(topic_id) == ID_BYTES else None


def _ids(value: Iterable[object]) -> tuple[int, ...]:
    return tuple(int(str(one)) for one in value)


def replicas_of(text: str) -> dict[int, tuple[int, ...]]:
    """The replicas in a topic's node. Raises Corrupt."""
    return {p: assignment.replicas for p, assignment in assignments_of(text).items()}


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


def partitions(of: Iterable[TopicPartition]) -> str:
    """What a notification of changed ISRs holds, and a request for preferred leaders."""
    return _json({"version": 1, "partitions": [{"topic": t, "partition": p} for t, p in sorted(of)]})


def isr_change(of: Iterable[TopicPartition]) -> Create:
    """The notification that ISRs have changed."""
    return Create(f"{ISR_CHANGES}/isr_change_", partitions(of), ephemeral=False, sequential=True)


def partitions_of(text: str) -> list[TopicPartition]:
    """Such a node read. Raises Corrupt."""
    try:
        return [(str(one["topic"]), int(one["partition"])) for one in json.loads(text)["partitions"]]
    except _MALFORMED as error:
        raise Corrupt(f"a list of partitions holds {text[:200]!r}") from error


def log_dir_event(broker_id: int) -> str:
    """A broker's notification that a log directory of its has failed (LogDirFailureEvent)."""
    return _json({"version": 1, "broker": broker_id, "event": 1})


def log_dir_event_of(text: str) -> int:
    """The broker of such a notification. Raises Corrupt."""
    try:
        return int(json.loads(text)["broker"])
    except _MALFORMED as error:
        raise Corrupt(f"a notification of a log directory holds {text[:200]!r}") from error


def reassigned(targets: Mapping[TopicPartition, Iterable[int]]) -> str:
    """The node of a tool that reassigns partitions."""
    ordered = sorted(targets.items())
    of = [{"topic": t, "partition": p, "replicas": list(ids)} for (t, p), ids in ordered]
    return _json({"version": 1, "partitions": of})


def reassigned_of(text: str) -> dict[TopicPartition, tuple[int, ...]]:
    """That node read. Raises Corrupt."""
    try:
        return {
            (str(one["topic"]), int(one["partition"])): _ids(one["replicas"]) for one in json.loads(text)["partitions"]
        }
    except _MALFORMED as error:
        raise Corrupt(f"{REASSIGNED} holds {text[:200]!r}") from error


def configs(kind: str) -> str:
    """Above the nodes of settings of a kind: topics, brokers, users, clients, groups or client-metrics."""
    return f"/config/{kind}"


def config(kind: str, name: str) -> str:
    """Where the settings of a topic, broker, user, client or group are."""
    return f"{configs(kind)}/{name}"


def clients_of(user: str) -> str:
    """What is the kind of the client ids of one user, by the name of the user's node."""
    return f"{USERS_KIND}/{user}/{CLIENTS_KIND}"


def sanitized(name: str) -> str:
    """A name that may hold any character, as a node's (Kafka's Sanitizer)."""
    return name.replace(".", "%2E") if name in (".", "..") else quote(name, safe="")


def unsanitized(name: str) -> str:
    """The name again."""
    return unquote(name)


def topic_config(topic_name: str) -> str:
    """Where a topic's settings are."""
    return config(TOPICS_KIND, topic_name)


def settings(of: Mapping[str, str]) -> str:
    """A node of settings."""
    return _json({"version": 1, "config": dict(of)})


def config_of(text: str) -> dict[str, str]:
    """A node of settings read. Raises Corrupt."""
    try:
        return {str(key): str(value) for key, value in json.loads(text)["config"].items()}
    except _MALFORMED as error:
        raise Corrupt(f"a node of settings holds {text[:200]!r}") from error


def config_change(kind: str, name: str) -> str:
    """The notification that settings were altered."""
    return _json({"version": 2, "entity_path": f"{kind}/{name}"})


def config_change_of(text: str) -> tuple[str, str]:
    """A notification read, of either version: kind and name. Raises Corrupt."""
    try:
        node = json.loads(text)
        if node.get("version") == 1:
            return str(node["entity_type"]), str(node["entity_name"])
        kind, _, name = str(node["entity_path"]).partition("/")
        return kind, name
    except _MALFORMED as error:
        raise Corrupt(f"a notification of settings holds {text[:200]!r}") from error
