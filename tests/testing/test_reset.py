"""`LocalBroker.reset`: what one test has planted, the next does not find."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from coterie.client.blocking import BlockingConsumer
from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.testing import LocalBroker
from coterie.text.addresses import parse_address
from coterie.wire.declaration import Message
from coterie.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from coterie.wire.messages.groups.list_groups import ListGroupsRequest
from coterie.wire.messages.groups.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie.wire.messages.security.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from coterie.wire.messages.security.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from coterie.wire.messages.settings.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from coterie.wire.messages.settings.describe_client_quotas import DescribeClientQuotasRequest
from coterie.wire.messages.settings.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from coterie.wire.messages.settings.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from coterie.wire.messages.settings.list_config_resources import ListConfigResourcesRequest
from coterie.wire.messages.topics.metadata import MetadataRequest
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest
from coterie.wire.messages.transactions.list_transactions import ListTransactionsRequest

TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
SET = 0
_CHANGES = [
    (TOPIC, "t", "retention.ms"),
    (BROKER, "", "log.retention.ms"),
    (GROUP, "billing", "consumer.session.timeout.ms"),
]
PLANTED: list[Message] = [
    IncrementalAlterConfigsRequest(
        [AlterConfigsResource(kind, name, [AlterableConfig(key, SET, "50000")]) for kind, name, key in _CHANGES]
    ),
    IncrementalAlterConfigsRequest(
        [AlterConfigsResource(CLIENT_METRICS, "m", [AlterableConfig("interval.ms", SET, "60000")])]
    ),
    AlterClientQuotasRequest([EntryData([EntityData("user", "u")], [OpData("request_percentage", 7.0)])]),
    AlterUserScramCredentialsRequest([], [ScramCredentialUpsertion("u", 1, 4096, b"salt" * 4, b"p" * 32)]),
    InitProducerIdRequest("tx", 60_000),
]
QUESTIONS: list[Message] = [
    MetadataRequest(None),
    ListGroupsRequest(),
    ListTransactionsRequest(),
    ListConfigResourcesRequest([TOPIC, CLIENT_METRICS, GROUP]),
    DescribeClientQuotasRequest(),
    DescribeUserScramCredentialsRequest(None),
    DescribeConfigsRequest(
        [DescribeConfigsResource(BROKER, "", None), DescribeConfigsResource(GROUP, "billing", None)]
    ),
]


@pytest.fixture(params=[1, 3], ids=["one broker", "three"])
def broker(request: pytest.FixtureRequest) -> Iterator[LocalBroker]:
    with LocalBroker(brokers=request.param) as running:
        yield running


def ask(address: tuple[str, int], request: Message) -> Any:
    socket = BrokerSocket(*address, "reset")
    try:
        return socket.request(request, highest=8)
    finally:
        socket.close()


def seen(broker: LocalBroker) -> dict[str, str]:
    """What clients see of each broker, but for the ids that each start makes, and the controller."""
    addresses = [parse_address(text) for text in broker.bootstrap_servers.split(",")]
    responded = {type(question).__name__: [ask(one, question) for one in addresses] for question in QUESTIONS}
    for metadata in responded["MetadataRequest"]:
        metadata.cluster_id, metadata.controller_id = "", 0
        metadata.brokers.sort(key=lambda one: one.node_id)
    controls = {"journal": str(broker.journal), "story": str(broker.story()), "rules": str(broker.faults.rules)}
    return {name: repr(responses) for name, responses in responded.items()} | controls


def plant(broker: LocalBroker) -> None:
    broker.create_topic("t", 2)
    broker.produce("t", b"a")
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "billing", "auto.offset.reset": "earliest"}
    with BlockingConsumer(settings) as consumer:
        consumer.subscribe(["t"])
        while not consumer.poll(1000):
            pass
        consumer.commit()
    for request in PLANTED:
        assert "error_code=0" in repr(ask(address_for(broker, request), request))
    broker.fail("JoinGroup", "NOT_COORDINATOR", times=9)
    broker.jump(1000)


def address_for(broker: LocalBroker, request: Message) -> tuple[str, int]:
    """Of the broker that carries it out."""
    if broker._cluster is None or not isinstance(request, InitProducerIdRequest):
        return broker._controller_address()
    ask((broker.host, broker.port), FindCoordinatorRequest("tx", 1, ["tx"]))  # which makes the topic of transactions
    one = broker._cluster.brokers[broker.transaction_coordinator_of("tx")]
    return one.host, one.port


def test_nothing_of_a_test_is_left_to_the_next(broker: LocalBroker) -> None:
    empty, addresses = seen(broker), broker.bootstrap_servers
    plant(broker)
    planted = seen(broker)
    assert [name for name in empty if planted[name] == empty[name]] == []  # each question sees something of it
    assert broker.requested("JoinGroup") > 0
    broker.reset()
    assert broker.requested("JoinGroup") == 0
    assert seen(broker) == empty
    assert broker.bootstrap_servers == addresses
    plant(broker)
    broker.until_committed("billing", {("t", 0): 1})


def test_connections_of_the_test_before_are_closed(coterie_broker: LocalBroker) -> None:
    socket = BrokerSocket(coterie_broker.host, coterie_broker.port, "before")
    socket.request(ListGroupsRequest(), highest=8)
    coterie_broker.reset()
    assert coterie_broker.drop_connections("before") == 0
    socket.close()


@pytest.mark.slow
def test_a_thousand_tests_in_one_broker(coterie_broker: LocalBroker) -> None:
    """Each begins with nothing, makes the same topic, and commits in a group of its own."""
    address = (coterie_broker.host, coterie_broker.port)
    for number in range(1_000):
        coterie_broker.reset()
        coterie_broker.create_topic("t")
        coterie_broker.produce("t", b"%d" % number)
        topic = OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 1)])
        ask(address, OffsetCommitRequest(f"group-{number}", -1, "", None, -1, [topic]))
        groups = ask(address, ListGroupsRequest()).groups
        assert [group.group_id for group in groups] == [f"group-{number}"]
        assert coterie_broker.lag(f"group-{number}") == {("t", 0): 0}
