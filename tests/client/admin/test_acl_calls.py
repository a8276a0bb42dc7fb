"""The admin's calls about ACLs: created, described and deleted by filters, as Kafka's Admin; what a broker refuses."""

from __future__ import annotations

import pytest

from coterie.broker.settings.tables.broker_table import KAFKA_AUTHORIZERS
from coterie.client import (
    Acl,
    AclFilter,
    AclOperation,
    AclResourceType,
    AuthorizationError,
    KafkaError,
    PatternType,
    Permission,
)
from coterie.client.blocking import BlockingAdmin
from coterie.testing import ErrorCode, LocalBroker

TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP


def allowed(kind: AclResourceType, name: str, user: str, pattern: PatternType = PatternType.LITERAL) -> Acl:
    return Acl(kind, name, pattern, f"User:{user}", "*", AclOperation.READ, Permission.ALLOW)


ACLS = [allowed(TOPIC, "t", "alice"), allowed(TOPIC, "p", "bob", PatternType.PREFIXED), allowed(GROUP, "g", "alice")]


@pytest.mark.coterie(authorizer_class_name=KAFKA_AUTHORIZERS[0], super_users="User:ANONYMOUS")
def test_created_described_and_deleted(coterie_broker: LocalBroker) -> None:
    with BlockingAdmin(coterie_broker.client_settings()) as admin:
        admin.create_acls(ACLS)
        admin.create_acls(ACLS[:1])
        assert admin.describe_acls() == sorted(ACLS)
        assert admin.describe_acls(AclFilter(TOPIC, "p-1", PatternType.MATCH)) == [ACLS[1]]
        assert admin.delete_acls([AclFilter(TOPIC, "t"), AclFilter(principal="User:alice")]) == [ACLS[0], ACLS[2]]
        assert admin.describe_acls() == [ACLS[1]]
        with pytest.raises(KafkaError) as invalid:
            admin.create_acls([ACLS[0]._replace(name=""), ACLS[2]])
        assert invalid.value.code is ErrorCode.INVALID_REQUEST
        assert ACLS[2] in admin.describe_acls()
        with pytest.raises(TypeError, match="acls must be of the type Acl, not AclFilter"):
            admin.create_acls([AclFilter()])  # type: ignore[list-item]
        with pytest.raises(TypeError, match="filters must be of the type AclFilter, not Acl"):
            admin.delete_acls(ACLS)  # type: ignore[arg-type]


@pytest.mark.coterie(authorizer_class_name=KAFKA_AUTHORIZERS[0], super_users="User:ANONYMOUS")
def test_errors_receives_what_is_refused_and_the_others_are_done(coterie_broker: LocalBroker) -> None:
    nameless = ACLS[0]._replace(name="")
    with BlockingAdmin(coterie_broker.client_settings()) as admin:
        refused: dict[Acl, KafkaError] = {}
        admin.create_acls([nameless, *ACLS], errors=refused)
        assert {acl: error.code for acl, error in refused.items()} == {nameless: ErrorCode.INVALID_REQUEST}
        assert admin.describe_acls() == sorted(ACLS)


@pytest.mark.coterie(authorizer_class_name=KAFKA_AUTHORIZERS[0])
def test_not_without_the_right(coterie_broker: LocalBroker) -> None:
    with BlockingAdmin(coterie_broker.client_settings()) as admin:
        for call in (admin.describe_acls, lambda: admin.create_acls(ACLS), lambda: admin.delete_acls([AclFilter()])):
            with pytest.raises(AuthorizationError, match="CLUSTER_AUTHORIZATION_FAILED"):
                call()


def test_not_without_an_authorizer(coterie_broker: LocalBroker) -> None:
    with BlockingAdmin(coterie_broker.client_settings()) as admin, pytest.raises(KafkaError, match="SECURITY_DISABLED"):
        admin.create_acls(ACLS)
