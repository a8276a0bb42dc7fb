"""Clients that lack a right, and have it then: Kafka's AuthorizerIntegrationTest and EndToEndAuthorizationTest, as data.

A row has what the user may do, the call, and the error that it raises: none where the call succeeds.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from coterie.authorizer.acls import CLUSTER_NAME, Acl, AclOperation, AclResourceType, PatternType, Permission
from coterie.client.blocking import BlockingAdmin, BlockingConsumer, BlockingProducer
from coterie.client.errors import KafkaError
from coterie.client.types import TopicPartition
from coterie.testing import LocalBroker
from coterie.wire.errors import ErrorCode

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
TOPIC, GROUP, CLUSTER, TRANSACTION = (
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
_NUMBERS = itertools.count()
_POLLS = 40


@dataclass(slots=True)
class Client:
    """A user with rights of its own, a topic with one record, and a group; ``is_new``: the topic does not exist."""

    broker: LocalBroker
    number: int = field(default_factory=lambda: next(_NUMBERS))
    is_new: bool = False

    @property
    def topic(self) -> str:
        return f"{'new' if self.is_new else 'topic'}-{self.number}"

    @property
    def partition(self) -> TopicPartition:
        return TopicPartition(self.topic, 0)

    def acl(self, text: str) -> Acl:
        """OPERATION KIND, and NAME where it is another; * at the end for a prefix."""
        operation, kind, *given = text.split()
        own = {"topic": self.topic, "group": f"group-{self.number}", "transactional_id": f"id-{self.number}"}
        name = given[0] if given else own.get(kind, CLUSTER_NAME)
        is_prefix = len(name) > 1 and name.endswith("*")
        pattern = PatternType.PREFIXED if is_prefix else PatternType.LITERAL
        what = AclResourceType[kind.upper()], name.removesuffix("*") if is_prefix else name, pattern
        return Acl(*what, "User:alice", "*", AclOperation[operation], Permission.ALLOW)

    def alter(self, added: list[Acl] | None = None, removed: list[Acl] | None = None) -> None:
        acls = self.broker.broker.clients.acls
        assert acls is not None
        self.broker._call(lambda: acls.alter(added or [], removed=removed or []))

    def settings(self, **more: Any) -> dict[str, Any]:
        quick = {
            "request.timeout.ms": 3_000,
            "default.api.timeout.ms": 3_000,
            "delivery.timeout.ms": 3_000,
            "linger.ms": 0,
        }
        known = {"group.id", "auto.offset.reset"} & more.keys()
        own = {
            name: value
            for name, value in quick.items()
            if not known or name not in ("delivery.timeout.ms", "linger.ms")
        }
        return self.broker.client_settings("alice", "PLAIN") | own | more

    # -- calls --------------------------------------------------------------------------------------------------------

    def consumer(self, **more: Any) -> BlockingConsumer[Any, Any]:
        given = {"group.id": f"group-{self.number}", "auto.offset.reset": "earliest"} | more
        return BlockingConsumer(self.settings(**{name: value for name, value in given.items() if value is not None}))

    def produce(self, **more: Any) -> None:
        with BlockingProducer(self.settings(**{"enable.idempotence": False} | more)) as producer:
            producer.send_and_wait(self.topic, b"one", partition=0)

    def _read(self, consumer: BlockingConsumer[Any, Any]) -> None:
        for _ in range(_POLLS):
            if consumer.poll(100):
                return
        raise AssertionError("no record came")

    def assigned(self) -> None:
        with self.consumer() as consumer:
            consumer.assign([self.partition])
            self._read(consumer)

    def subscribed(self) -> None:
        with self.consumer() as consumer:
            consumer.subscribe([self.topic])
            self._read(consumer)

    def matched(self) -> None:
        with self.consumer() as consumer:
            consumer.subscribe(re.compile(f"topic-{self.number}"))
            self._read(consumer)

    def sought(self) -> None:
        """Without a group."""
        with self.consumer(**{"group.id": None}) as consumer:
            consumer.assign([self.partition])
            consumer.seek_to_beginning([self.partition])
            self._read(consumer)

    def matched_internal(self) -> None:
        """An internal topic is matched where it is asked for alone."""
        with self.consumer(**{"exclude.internal.topics": False}) as consumer:
            consumer.subscribe(re.compile("__consumer_offsets"))
            consumer.poll(300)

    def commit(self) -> None:
        with self.consumer() as consumer:
            consumer.commit({self.partition: 5})

    def committed(self) -> None:
        with self.consumer() as consumer:
            consumer.committed([self.partition])

    def end_offsets(self) -> None:
        with self.consumer() as consumer:
            consumer.end_offsets([self.partition])

    def closed(self) -> None:
        self.consumer().close()

    def _admin(self, call: Callable[[BlockingAdmin], object]) -> None:
        with BlockingAdmin(self.broker.client_settings("alice", "PLAIN")) as admin:
            call(admin)

    def metadata(self) -> None:
        with BlockingProducer(self.settings()) as producer:
            producer.partitions_for(self.topic)

    def describe_group(self) -> None:
        self._admin(lambda admin: admin.describe_consumer_group(f"group-{self.number}"))

    def delete_group(self) -> None:
        self._admin(lambda admin: admin.delete_consumer_group(f"group-{self.number}"))

    def delete_offsets(self) -> None:
        self._admin(lambda admin: admin.delete_consumer_group_offsets(f"group-{self.number}", [self.partition]))

    def delete_topic(self) -> None:
        self._admin(lambda admin: admin.delete_topic(self.topic))

    def delete_records(self) -> None:
        self._admin(lambda admin: admin.delete_records({self.partition: 1}))

    def create_partitions(self) -> None:
        self._admin(lambda admin: admin.create_partitions(self.topic, 3))

    def cluster_id(self) -> None:
        self._admin(lambda admin: admin.describe_cluster())

    def _transactional(self) -> BlockingProducer:
        return BlockingProducer(self.settings(**{"transactional.id": f"id-{self.number}"}))

    def init_transactions(self) -> None:
        with self._transactional() as producer:
            producer.init_transactions()

    def transaction(self) -> None:
        with self._transactional() as producer:
            producer.init_transactions()
            with producer.transaction():
                producer.send_and_wait(self.topic, b"one", partition=0)

    def transaction_offsets(self) -> None:
        from coterie.client import ConsumerGroupMetadata

        with self._transactional() as producer:
            producer.init_transactions()
            with producer.transaction():
                producer.send_offsets_to_transaction({self.partition: 1}, ConsumerGroupMetadata(f"group-{self.number}"))


@dataclass(frozen=True, slots=True)
class Row:
    """``names``: of Kafka's tests."""

    names: str
    rights: str
    call: Callable[[Client], None]
    error: ErrorCode | None = None
    is_new: bool = False  # the topic does not exist

    def __str__(self) -> str:
        return self.names.split()[0]


_READS = "READ topic, READ group"
C = Client
ROWS = (
    Row("testProduceWithNoTopicAccess", "", C.produce, TOPIC),
    Row("testProduceWithTopicDescribe testNoProduceWithDescribeAcl", "DESCRIBE topic", C.produce, TOPIC),
    Row("testProduceWithTopicRead", "READ topic", C.produce, TOPIC),
    Row("testProduceWithTopicWrite", "WRITE topic", C.produce),
    Row("testCreatePermissionOnTopicToWriteToNonExistentTopic", "WRITE topic", C.produce, TOPIC, True),
    Row("testCreatePermissionOnTopicToWriteToNonExistentTopic", "WRITE topic, CREATE topic", C.produce, None, True),
    Row("testCreatePermissionOnClusterToWriteToNonExistentTopic", "WRITE topic, CREATE cluster", C.produce, None, True),
    Row("testProduceConsumeTopicAutoCreateTopicCreateAcl", "WRITE topic *, CREATE topic new*", C.produce, None, True),
    Row("testConsumeUsingAssignWithNoAccess", "", C.sought, TOPIC),
    Row("testSimpleConsumeWithOffsetLookupAndNoGroupAccess", "READ topic", C.assigned, GROUP),
    Row("testSimpleConsumeWithExplicitSeekAndNoGroupAccess", "READ topic", C.sought),
    Row("testConsumeWithoutTopicDescribeAccess testNoConsumeWithoutDescribeAclViaAssign", "READ group", C.assigned, TOPIC),
    Row("testConsumeWithTopicDescribe testNoConsumeWithDescribeAclViaAssign", "DESCRIBE topic, READ group", C.assigned, TOPIC),
    Row("testConsumeWithTopicWrite", "WRITE topic, READ group", C.assigned, TOPIC),
    Row("testConsumeWithTopicAndGroupRead testProduceConsumeViaAssign", _READS, C.assigned),
    Row("testProduceConsumeViaSubscribe", _READS, C.subscribed),
    Row("testNoConsumeWithoutDescribeAclViaSubscribe", "READ group", C.subscribed, TOPIC),
    Row("testNoConsumeWithDescribeAclViaSubscribe", "DESCRIBE topic, READ group", C.subscribed, TOPIC),
    Row("testNoGroupAcl", "READ topic", C.subscribed, GROUP),
    Row("testProduceConsumeWithWildcardAcls", "READ topic *, READ group *", C.subscribed),
    Row("testProduceConsumeWithPrefixedAcls testPrefixAcls", "READ topic topic-*, READ group group-*", C.subscribed),
    Row("testPatternSubscriptionWithTopicDescribeOnlyAndGroupRead", "DESCRIBE topic, READ group", C.matched, TOPIC),
    Row("testPatternSubscriptionWithTopicAndGroupRead", _READS, C.matched),
    Row("testPatternSubscriptionMatchingInternalTopicWithDescribeOnlyPermission",
        "DESCRIBE topic __consumer_offsets, READ group", C.matched_internal, TOPIC),
    Row("testCommitWithNoAccess", "", C.commit, GROUP),
    Row("testCommitWithNoTopicAccess", "READ group", C.commit, TOPIC),
    Row("testCommitWithTopicWrite", "READ group, WRITE topic", C.commit, TOPIC),
    Row("testCommitWithTopicDescribe", "READ group, DESCRIBE topic", C.commit, TOPIC),
    Row("testCommitWithNoGroupAccess", "READ topic", C.commit, GROUP),
    Row("testCommitWithTopicAndGroupRead", _READS, C.commit),
    Row("testOffsetFetchWithNoAccess", "", C.committed, GROUP),
    Row("testOffsetFetchWithNoGroupAccess", "READ topic", C.committed, GROUP),
    Row("testOffsetFetchWithNoTopicAccess", "READ group", C.committed, TOPIC),
    Row("testOffsetFetchTopicDescribe", "DESCRIBE topic, READ group", C.committed),
    Row("testOffsetFetchWithTopicAndGroupRead", _READS, C.committed),
    Row("testMetadataWithNoTopicAccess testNoDescribeProduceOrConsumeWithoutTopicDescribeAcl", "", C.metadata, TOPIC),
    Row("testMetadataWithTopicDescribe", "DESCRIBE topic", C.metadata),
    Row("testListOffsetsWithNoTopicAccess", "", C.end_offsets, TOPIC),
    Row("testListOffsetsWithTopicDescribe", "DESCRIBE topic", C.end_offsets),
    Row("testDescribeGroupApiWithNoGroupAcl testConsumerGroupDescribeWithoutDescribeAcl", "", C.describe_group, GROUP),
    Row("testDescribeGroupApiWithGroupDescribe", "DESCRIBE group, DESCRIBE topic", C.describe_group),
    Row("testDeleteGroupApiWithDeleteGroupAcl", "DELETE group", C.delete_group),
    Row("testDeleteGroupApiWithNoDeleteGroupAcl", "READ group", C.delete_group, GROUP),
    Row("testDeleteGroupApiWithNoDeleteGroupAcl2", "", C.delete_group, GROUP),
    Row("testDeleteGroupOffsetsWithAcl", "DELETE group, READ topic", C.delete_offsets),
    Row("testDeleteGroupOffsetsWithoutDeleteAcl", "READ group, READ topic", C.delete_offsets, GROUP),
    Row("testDeleteGroupOffsetsWithDeleteAclWithoutTopicAcl", "DELETE group", C.delete_offsets, TOPIC),
    Row("testDeleteGroupOffsetsWithNoAcl", "", C.delete_offsets, GROUP),
    Row("testUnauthorizedDeleteTopicsWithoutDescribe", "", C.delete_topic, TOPIC),
    Row("testUnauthorizedDeleteTopicsWithDescribe", "DESCRIBE topic", C.delete_topic, TOPIC),
    Row("testDeleteTopicsWithWildCardAuth", "DELETE topic *", C.delete_topic),
    Row("testUnauthorizedDeleteRecordsWithoutDescribe", "", C.delete_records, TOPIC),
    Row("testUnauthorizedDeleteRecordsWithDescribe", "DESCRIBE topic", C.delete_records, TOPIC),
    Row("testDeleteRecordsWithWildCardAuth", "DELETE topic *", C.delete_records),
    Row("testUnauthorizedCreatePartitions", "", C.create_partitions, TOPIC),
    Row("testCreatePartitionsWithWildCardAuth", "ALTER topic *", C.create_partitions),
    Row("testTransactionalProducerInitTransactionsNoWriteTransactionalIdAcl",
        "DESCRIBE transactional_id", C.init_transactions, TRANSACTION),
    Row("testTransactionalProducerInitTransactionsNoDescribeTransactionalIdAcl", "", C.init_transactions, TRANSACTION),
    Row("shouldInitTransactionsWhenAclSet", "WRITE transactional_id", C.init_transactions),
    Row("testTransactionalProducerTopicAuthorizationExceptionInSendCallback"
        " testTransactionalProducerTopicAuthorizationExceptionInCommit",
        "WRITE transactional_id, DESCRIBE topic", C.transaction, TOPIC),
    Row("testSendOffsetsWithNoConsumerGroupDescribeAccess", "WRITE transactional_id, READ topic", C.transaction_offsets, GROUP),
    Row("testSendOffsetsWithNoConsumerGroupWriteAccess",
        "WRITE transactional_id, READ topic, DESCRIBE group", C.transaction_offsets, GROUP),
    Row("testIdempotentProducerNoIdempotentWriteAclInInitProducerId",
        "DESCRIBE topic", lambda c: c.produce(**{"enable.idempotence": True}), CLUSTER),
    Row("shouldSendSuccessfullyWhenIdempotentAndHasCorrectACL",
        "WRITE topic, IDEMPOTENT_WRITE cluster", lambda c: c.produce(**{"enable.idempotence": True})),
    Row("testClusterId", "", C.cluster_id),
    Row("testCreateAndCloseConsumerWithNoAccess", "", C.closed),
)  # fmt: skip


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    given = {"authorizer.class.name": AUTHORIZER, "super.users": "User:admin", "group.initial.rebalance.delay.ms": 0}
    with LocalBroker(given, sasl={"alice": "secret", "admin": "secret"}) as running:
        yield running


@pytest.fixture
def client(broker: LocalBroker) -> Iterator[Client]:
    client = Client(broker)
    yield client
    acls = broker.broker.clients.acls
    assert acls is not None
    client.alter(removed=list(acls.authorizer.acls))


def prepared(client: Client, rights: str) -> None:
    """The topic, a record, and a commit of the group; then the rights."""
    if not client.is_new:
        client.broker.create_topic(client.topic, 1)
        client.broker.produce(client.topic, b"one")
        with BlockingAdmin(client.broker.client_settings("admin", "PLAIN")) as admin:
            admin.alter_consumer_group_offsets(f"group-{client.number}", {client.partition: 0})
    client.alter([client.acl(right) for right in rights.split(", ") if right])


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_call_with_these_rights(client: Client, row: Row) -> None:
    client.is_new = row.is_new
    prepared(client, row.rights)
    if row.error is None:
        row.call(client)
        return
    with pytest.raises(KafkaError) as error:
        row.call(client)
    assert error.value.code == row.error


def code_of(call: Callable[[], object]) -> ErrorCode:
    with pytest.raises(KafkaError) as error:
        call()
    return error.value.code


@pytest.mark.parametrize("is_internal", [False, True])
def test_a_pattern_sees_what_may_be_described(client: Client, is_internal: bool) -> None:
    """testPatternSubscriptionWithNoTopicAccess, testPatternSubscriptionNotMatchingInternalTopic,
    testPatternSubscriptionMatchingInternalTopic."""
    prepared(client, "READ group, READ topic __consumer_offsets")
    with client.consumer(**{"exclude.internal.topics": not is_internal}) as consumer:
        consumer.subscribe(re.compile(".*"))
        for _ in range(_POLLS):
            consumer.poll(100)
            if consumer.generation > 0:
                break
        assert consumer.subscription() == ({"__consumer_offsets"} if is_internal else set())


@pytest.mark.parametrize(
    ("kept", "topic_error"),
    [("", TOPIC), ("WRITE topic", None)],
)
def test_a_right_that_ends_within_a_transaction(client: Client, kept: str, topic_error: ErrorCode | None) -> None:
    """shouldThrowTransactionalIdAuthorizationExceptionWhenNoTransactionAccessDuringSend,
    shouldThrowTransactionalIdAuthorizationExceptionWhenNoTransactionAccessOnEndTransaction,
    shouldThrowTransactionalIdAuthorizationExceptionWhenNoTransactionAccessOnSendOffsetsToTxn: the id's right goes; where the
    topic's goes, shouldSuccessfullyAbortTransactionAfterTopicAuthorizationException."""
    from coterie.client import ConsumerGroupMetadata

    prepared(client, "WRITE transactional_id, WRITE topic, READ group")
    group = ConsumerGroupMetadata(f"group-{client.number}")
    if topic_error is not None:
        with client._transactional() as producer:
            producer.init_transactions()
            producer.begin_transaction()
            client.alter(removed=[client.acl("WRITE topic")])
            assert code_of(lambda: producer.send_and_wait(client.topic, b"two", partition=0)) == topic_error
            producer.abort_transaction()
            client.alter([client.acl("WRITE topic")])
            with producer.transaction():
                producer.send_and_wait(client.topic, b"three", partition=0)
        return
    ends: list[Callable[[BlockingProducer], object]] = [
        lambda p: p.send_and_wait(client.topic, b"two", partition=0),
        lambda p: p.send_offsets_to_transaction({client.partition: 1}, group),
        lambda p: p.commit_transaction(),
    ]
    for call in ends:
        with client._transactional() as producer:
            producer.init_transactions()
            producer.begin_transaction()
            if call is ends[-1]:
                producer.send_and_wait(client.topic, b"one", partition=0)
            client.alter(removed=[client.acl("WRITE transactional_id")])
            assert code_of(lambda producer=producer, call=call: call(producer)) == TRANSACTION  # type: ignore[misc]
        client.alter([client.acl("WRITE transactional_id")])


def test_a_right_that_comes_after_the_first_attempt(client: Client) -> None:
    """testRetryProducerInitializationAfterPermissionFix."""
    prepared(client, "WRITE topic")
    with client._transactional() as producer:
        assert code_of(producer.init_transactions) == TRANSACTION
    client.alter([client.acl("WRITE transactional_id")])
    client.transaction()


def test_an_idempotent_producer_loses_its_right(client: Client) -> None:
    """testIdempotentProducerNoIdempotentWriteAclInProduce."""
    prepared(client, "WRITE topic, IDEMPOTENT_WRITE cluster")
    with BlockingProducer(client.settings(**{"enable.idempotence": True})) as producer:
        producer.send_and_wait(client.topic, b"one", partition=0)
        client.alter(removed=[client.acl("WRITE topic"), client.acl("IDEMPOTENT_WRITE cluster")])
        assert code_of(lambda: producer.send_and_wait(client.topic, b"two", partition=0)) == TOPIC


def test_two_users_and_one_of_them_may_read(client: Client) -> None:
    """testTwoConsumersWithDifferentSaslCredentials."""
    prepared(client, "")
    given = client.broker.client_settings("admin", "PLAIN") | {"auto.offset.reset": "earliest"}
    with client.consumer() as alice, BlockingConsumer(given | {"group.id": f"group-{client.number}"}) as admin:
        for consumer in (alice, admin):
            consumer.assign([client.partition])
        assert code_of(lambda: client._read(alice)) == GROUP
        client._read(admin)


@pytest.mark.parametrize("by", ["CREATE topic", "CREATE cluster"])
def test_who_may_create_reads_from_a_topic_that_did_not_exist(client: Client, by: str) -> None:
    """testCreatePermissionOnTopicToReadFromNonExistentTopic, testCreatePermissionOnClusterToReadFromNonExistentTopic: a
    subscription asks for the topic, an assignment of ours does not."""
    client.is_new = True
    prepared(client, "READ topic, READ group")
    topics = client.broker.broker.topics.by_name
    with client.consumer(**{"allow.auto.create.topics": True}) as consumer:
        consumer.subscribe([client.topic])
        assert code_of(lambda: client._read(consumer)) == TOPIC
        assert client.topic not in topics
    client.alter([client.acl(by)])
    with client.consumer(**{"allow.auto.create.topics": True}) as consumer:
        consumer.subscribe([client.topic])
        for _ in range(_POLLS):
            consumer.poll(100)
            if client.topic in topics:
                break
        assert client.topic in topics
