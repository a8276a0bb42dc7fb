"""What of Kafka's AuthorizerIntegrationTest the table of checks does not hold already, request by request."""

from __future__ import annotations

import pytest

from coterie.authorizer.acls import CLUSTER_NAME, AclOperation
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.brokers.unregister_broker import UnregisterBrokerRequest
from coterie.wire.messages.brokers.unregister_controller import UnregisterControllerRequest
from coterie.wire.messages.logs.fetch import FetchPartition, FetchRequest, FetchTopic
from coterie.wire.messages.logs.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from coterie.wire.messages.settings.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from coterie.wire.messages.settings.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from coterie.wire.messages.settings.update_features import UpdateFeaturesRequest
from coterie.wire.messages.transactions.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from coterie.wire.messages.transactions.describe_transactions import DescribeTransactionsRequest
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest
from coterie.wire.messages.transactions.list_transactions import ListTransactionsRequest
from tests.broker.access.restricted_broker import CLUSTER, GROUP, TOPIC, TRANSACTIONAL_ID, RestrictedBroker, errors_of

_O = AclOperation
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_CONFIGS, LOGGER = 32, 8  # kinds of resources with settings


def test_a_fetch_by_topic_id() -> None:
    """testTopicIdAuthorization: what may not be read is denied by its id too, and an unknown id is unknown to everybody."""
    broker = RestrictedBroker()
    topic_id = broker.topics.by_name["t"].topic_id

    def codes(wanted: bytes) -> set[int]:
        topics = [FetchTopic(topic_id=wanted, partitions=[FetchPartition(0, fetch_offset=0)])]
        return errors_of(broker.ask("alice", FetchRequest(topics=topics), 13))

    assert codes(topic_id) == {ErrorCode.NONE, DENIED}
    assert codes(b"x" * 16) == {ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_ID}
    broker.allow("alice", _O.READ, TOPIC, "t")
    assert codes(topic_id) == {ErrorCode.NONE}


def test_a_followers_fetch_needs_the_cluster() -> None:
    """testFetchFollowerRequest: READ on the topic is not enough for a replica."""
    broker = RestrictedBroker()
    topics = [FetchTopic("t", partitions=[FetchPartition(0, fetch_offset=0)])]
    request = FetchRequest(replica_id=2, topics=topics)
    assert errors_of(broker.ask("alice", request, 11)) >= {DENIED}
    broker.allow("alice", _O.READ, TOPIC, "t")
    assert errors_of(broker.ask("alice", request, 11)) >= {DENIED}
    broker.allow("alice", _O.CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)
    assert DENIED not in errors_of(broker.ask("alice", request, 11))


def test_epochs_of_leaders_by_the_cluster() -> None:
    """testOffsetsForLeaderEpochClusterPermission."""
    broker = RestrictedBroker()
    topics = [OffsetForLeaderTopic("t", [OffsetForLeaderPartition(0, leader_epoch=0)])]
    request = OffsetForLeaderEpochRequest(topics=topics)
    assert DENIED in errors_of(broker.ask("alice", request, 3))
    broker.allow("alice", _O.CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)
    assert DENIED not in errors_of(broker.ask("alice", request, 3))


@pytest.mark.parametrize(
    "request_",
    [UnregisterBrokerRequest(1), UnregisterControllerRequest(1), UpdateFeaturesRequest()],
    ids=["broker", "controller", "features"],
)
def test_a_change_of_the_cluster_is_refused_with_a_text(request_: Message) -> None:
    """ControllerApis: the response has the text of ClusterAuthorizationException."""
    response = RestrictedBroker().ask("alice", request_, 0)
    assert (response.error_code, response.error_message) == (31, ErrorCode.CLUSTER_AUTHORIZATION_FAILED.text)


def test_loggers_are_settings_of_the_cluster() -> None:
    """testIncrementalAlterConfigsRequestRequiresClusterPermissionForBrokerLogger."""
    broker = RestrictedBroker()
    resource = AlterConfigsResource(LOGGER, "1", [AlterableConfig("coterie.broker", 1, None)])
    request = IncrementalAlterConfigsRequest([resource])
    assert errors_of(broker.ask("alice", request, 1)) == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
    broker.allow("alice", _O.ALTER_CONFIGS, CLUSTER, CLUSTER_NAME)
    assert ErrorCode.CLUSTER_AUTHORIZATION_FAILED not in errors_of(broker.ask("alice", request, 1))


@pytest.mark.parametrize("operation", [_O.ALTER_CONFIGS, _O.ALL, None])
def test_settings_of_a_group_are_altered(operation: AclOperation | None) -> None:
    """testIncrementalAlterGroupConfigsWithAlterAcl, testIncrementalAlterGroupConfigsWithOperationAll,
    testIncrementalAlterGroupConfigsWithoutAlterAcl."""
    broker = RestrictedBroker()
    if operation is not None:
        broker.allow("alice", operation, GROUP, "g")
    resource = AlterConfigsResource(GROUP_CONFIGS, "g", [AlterableConfig("consumer.session.timeout.ms", 0, "50000")])
    codes = errors_of(broker.ask("alice", IncrementalAlterConfigsRequest([resource]), 1))
    assert codes == {ErrorCode.NONE if operation else ErrorCode.GROUP_AUTHORIZATION_FAILED}


@pytest.mark.parametrize("operation", [_O.DESCRIBE_CONFIGS, _O.ALL, None])
def test_settings_of_a_group_are_described(operation: AclOperation | None) -> None:
    """testDescribeGroupConfigsWithDescribeAcl, testDescribeGroupConfigsWithOperationAll,
    testDescribeGroupConfigsWithoutDescribeAcl."""
    broker = RestrictedBroker()
    if operation is not None:
        broker.allow("alice", operation, GROUP, "g")
    request = DescribeConfigsRequest([DescribeConfigsResource(GROUP_CONFIGS, "g")])
    codes = errors_of(broker.ask("alice", request, 4))
    assert codes == {ErrorCode.NONE if operation else ErrorCode.GROUP_AUTHORIZATION_FAILED}


def transactional(broker: RestrictedBroker, *topics: str) -> None:
    """A transaction of x that is open on these topics."""
    begun = broker.ask("admin", InitProducerIdRequest("x", 60_000), 4)
    rows = [AddPartitionsToTxnTopic(name, [0]) for name in topics]
    request = AddPartitionsToTxnRequest("x", begun.producer_id, begun.producer_epoch, rows)
    assert errors_of(broker.ask("admin", request, 3)) == {ErrorCode.NONE}


def test_transactions_are_listed_that_may_be_described() -> None:
    """testListTransactionsAuthorization."""
    broker = RestrictedBroker()
    transactional(broker, "t")
    assert broker.ask("alice", ListTransactionsRequest(), 0).transaction_states == []
    broker.allow("alice", _O.DESCRIBE, TRANSACTIONAL_ID, "x")
    (listed,) = broker.ask("alice", ListTransactionsRequest(), 0).transaction_states
    assert listed.transactional_id == "x"


def test_a_transaction_is_described_without_the_topics_that_may_not_be() -> None:
    """shouldNotIncludeUnauthorizedTopicsInDescribeTransactionsResponse."""
    broker = RestrictedBroker()
    transactional(broker, "t", "u")
    broker.allow("alice", _O.DESCRIBE, TRANSACTIONAL_ID, "x")
    broker.allow("alice", _O.DESCRIBE, TOPIC, "u")
    (described,) = broker.ask("alice", DescribeTransactionsRequest(["x"]), 0).transaction_states
    assert [topic.topic for topic in described.topics] == ["u"]
