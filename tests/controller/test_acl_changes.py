"""The ACLs of a cluster as each broker reads them, and their nodes as Kafka's AclAuthorizer writes them. What the
controller knows of a topic's own settings, which are read as everywhere else."""

from __future__ import annotations

import json

import pytest

from coterie.authorizer.acls import Acl, AclOperation, AclResourceType, PatternType, Permission
from coterie.controller.changes import acl_changes
from coterie.controller.changes.acl_changes import AclChanges, AclResource, AclsRead, resource_of
from coterie.controller.elected.view import ControllerConfig, ControllerView
from coterie.controller.session_script import KEPT_MS
from coterie.zookeeper.operations import (
    ConnectionLost,
    Create,
    Delete,
    List,
    SessionExpired,
    Write,
)
from tests.controller.notification_reader import NotificationReader

LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
TOPIC, TRANSACTIONAL_ID = AclResourceType.TOPIC, AclResourceType.TRANSACTIONAL_ID


def acl(name: str, pattern: PatternType = LITERAL, kind: AclResourceType = TOPIC) -> Acl:
    return Acl(kind, name, pattern, "User:alice", "*", AclOperation.DESCRIBE_CONFIGS, Permission.ALLOW)


A, B, P, X = acl("a"), acl("b"), acl("p", PREFIXED), acl("x", PREFIXED, TRANSACTIONAL_ID)


class Reader(NotificationReader[AclChanges, AclsRead]):
    def __init__(self) -> None:
        super().__init__(AclChanges, AclChanges.changed, AclsRead)

    def write(self, *acls: Acl, notifies: bool = True) -> None:
        """As Kafka does: the node of each resource, then a notification."""
        for resource in {resource_of(entry) for entry in acls}:
            self.apply(Write(resource.path, acl_changes.to_data(a for a in acls if resource_of(a) == resource)))
            if notifies:
                self.notify(resource)

    def notify(self, resource: AclResource) -> None:
        self.notify_by(*resource.change)

    def seen(self) -> list[set[Acl]]:
        return [set(effect.acls) for effect in self.effects(10)]


def test_nodes_are_those_of_kafka() -> None:
    assert resource_of(A).path == "/kafka-acl/Topic/a"
    assert resource_of(X).path == "/kafka-acl-extended/prefixed/TransactionalId/x"
    row = {"principal": "User:alice", "permissionType": "Allow", "operation": "DescribeConfigs", "host": "*"}
    assert json.loads(acl_changes.to_data([A])) == {"version": 1, "acls": [row]}
    assert resource_of(A).change == ("/kafka-acl-changes/acl_changes_", "TOPIC:a")
    path, data = resource_of(X).change
    assert path == "/kafka-acl-extended-changes/acl_changes_"
    parts = {"version": 1, "resourceType": "TRANSACTIONAL_ID", "name": "x", "patternType": "PREFIXED"}
    assert json.loads(data) == parts
    for entry in (A, X):
        resource = resource_of(entry)
        assert acl_changes.of_data(resource, acl_changes.to_data([entry])) == [entry]
        assert acl_changes.changed_resource(resource.pattern_type, resource.change[1]) == resource
    assert acl_changes.changed_resource(LITERAL, "Topic:a:b").name == "a:b"


def test_all_are_read_at_the_start_and_each_change_afterwards() -> None:
    reader = Reader()
    reader.write(A, X, notifies=False)
    assert reader.seen() == [{A, X}]
    assert reader.seen() == []
    reader.write(B)
    assert reader.seen() == [{A, X, B}]
    reader.write(P)
    assert reader.seen() == [{A, X, B, P}]
    reader.apply(Delete(resource_of(A).path))
    reader.notify(resource_of(A))
    assert reader.seen() == [{X, B, P}]


def test_a_change_while_the_first_are_read_is_not_missed() -> None:
    reader = Reader()
    for _ in range(3):  # both watches, and the first list of names
        effect = reader.machine.next(reader.world.now_ms)
        assert isinstance(effect, List)
        reader.machine.respond(reader.server.apply(reader.session, effect))
    reader.write(A)
    assert reader.seen()[-1] == {A}


def test_a_tools_mistake_allows_nobody() -> None:
    reader = Reader()
    reader.write(A, B)
    assert reader.seen() == [{A, B}]
    reader.apply(Write(resource_of(A).path, "{"))
    reader.notify(resource_of(A))
    reader.apply(Create("/kafka-acl-extended-changes/acl_changes_", "no json", ephemeral=False, sequential=True))
    assert reader.seen() == [{B}]


def test_the_connection_may_be_lost_and_the_session_end() -> None:
    reader = Reader()
    reader.write(A)
    reader.loses = ConnectionLost
    assert reader.seen() == [{A}]
    reader.write(B)
    reader.loses = SessionExpired
    assert reader.seen() == [{A, B}]


def test_notifications_that_every_broker_could_read_are_deleted() -> None:
    reader = Reader()
    reader.seen()
    reader.write(A)
    reader.seen()
    reader.world.run_until(reader.world.now_ms + KEPT_MS + 1)
    reader.write(B)
    reader.seen()
    assert reader.apply(List("/kafka-acl-changes")) == ["acl_changes_0000000001"]


@pytest.mark.parametrize(
    ("own", "expected"), [(None, 3), ("2", 2), (" 2 ", 2), ("+2", 2), ("many", 3), ("", 3), ("99999999999", 3)]
)
def test_min_insync_replicas_of_a_topic(own: str | None, expected: int) -> None:
    view = ControllerView(ControllerConfig(1, "", min_insync_replicas=3))
    view.topic_configs["t"] = {} if own is None else {"min.insync.replicas": own}
    assert view.min_insync_replicas("t") == expected


@pytest.mark.parametrize("default", [False, True])
@pytest.mark.parametrize(("own", "expected"), [(" TRUE ", True), ("false", False), ("yes", False), ("", False)])
def test_unclean_leader_election_of_a_topic(own: str, default: bool, expected: bool) -> None:
    """testTopicUncleanLeaderElectionInvalidConfig: a value that cannot be read elects nobody."""
    view = ControllerView(ControllerConfig(1, "", unclean_leader_election_enable=default))
    assert view.unclean_leader_election_enable("t") == default
    view.topic_configs["t"] = {"unclean.leader.election.enable": own}
    assert view.unclean_leader_election_enable("t") == expected
