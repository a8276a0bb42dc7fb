"""Every method of an admin through errors that pass: whatever API it asks refuses some requests, each code in turn, and the
call succeeds once the API does not (KafkaAdminClient: the handlers of org.apache.kafka.clients.admin.internals, and
handleNotControllerError)."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from coterie.broker.handlers import HANDLERS
from coterie.broker.handlers.services import Services
from coterie.broker.requests.calls import Call as BrokerCall
from coterie.client import Admin, Consumer, KafkaError, NewTopic
from coterie.client.admin.acls import AclCalls
from coterie.client.admin.cluster_types import UserScramCredentialUpsertion
from coterie.client.admin.delegation_tokens import TokenCalls
from coterie.client.admin.each import Each
from coterie.testing import ErrorCode, LocalBroker, simulate
from coterie.testing.faults import API_KEYS
from coterie.wire.messages.topics.create_topics import CreatableTopicResult, CreateTopicsResponse

QUICK = {"retry.backoff.ms": 2, "retry.backoff.max.ms": 5}
TIMES = 3
COORDINATOR = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
CONTROLLER = (ErrorCode.NOT_CONTROLLER,)
CHANGES = (*CONTROLLER, ErrorCode.THROTTLING_QUOTA_EXCEEDED)
LEADER = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.KAFKA_STORAGE_ERROR)
PASSING: dict[str, tuple[ErrorCode, ...]] = {
    "AlterClientQuotas": CONTROLLER,
    "AlterPartitionReassignments": CONTROLLER,
    "AlterShareGroupOffsets": COORDINATOR,
    "AlterUserScramCredentials": CONTROLLER,
    "ConsumerGroupDescribe": COORDINATOR,
    "CreatePartitions": CHANGES,
    "CreateTopics": CHANGES,
    "DeleteGroups": COORDINATOR,
    "DeleteRecords": LEADER,
    "DeleteShareGroupOffsets": COORDINATOR,
    "DeleteTopics": CHANGES,
    "DescribeGroups": COORDINATOR,
    "DescribeProducers": LEADER,
    "DescribeShareGroupOffsets": COORDINATOR,
    "DescribeTransactions": COORDINATOR,
    "DescribeUserScramCredentials": CONTROLLER,
    "ElectLeaders": CONTROLLER,
    "ExplainGroup": COORDINATOR,
    "FindCoordinator": COORDINATOR[:2],
    "InitProducerId": (*COORDINATOR, ErrorCode.CONCURRENT_TRANSACTIONS),
    "LeaveGroup": COORDINATOR,
    "ListGroups": COORDINATOR[:2],
    "ListOffsets": LEADER,
    "ListPartitionReassignments": CONTROLLER,
    "ListTransactions": COORDINATOR[:1],
    "OffsetCommit": COORDINATOR,
    "OffsetDelete": COORDINATOR,
    "OffsetFetch": COORDINATOR,
    "UpdateFeatures": CONTROLLER,
    "WriteTxnMarkers": LEADER,
}
ANY_BROKER = {
    *("ApiVersions", "DescribeClientQuotas", "DescribeCluster", "DescribeConfigs", "DescribeLogDirs"),
    *("IncrementalAlterConfigs", "ListClients", "ListConfigResources", "Metadata"),
}
LEFT_OUT = {"Fetch"}  # of record_times, which does not wait for a partition that is not read now
WITHOUT_REQUEST = {"close"}
# Refused by a broker without an authorizer, and to a client that has not logged in: test_acl_calls, test_cluster_calls.
REFUSED_HERE = {name for kind in (AclCalls, TokenCalls) for name in vars(kind)}

ALICE = (("user", "alice"),)


async def described_after_fencing(admin: Admin, topic: str, group: str) -> object:
    await admin.fence_producers([group])
    return await admin.describe_transactions([group])


async def deleted_after_altering(admin: Admin, topic: str, group: str) -> object:
    await admin.alter_share_group_offsets(f"share-{group}", {(topic, 0): 0})
    return await admin.delete_share_group_offsets(f"share-{group}", [topic])


# The call of each method, given a topic of one record for which the group, without members, has an offset.
Call = Callable[[Any, str, str], Awaitable[Any]]
OF_ADMIN: dict[str, Call] = {
    "describe_cluster": lambda admin, topic, group: admin.describe_cluster(),
    "describe_topics": lambda admin, topic, group: admin.describe_topics([topic]),
    "create_topic": lambda admin, topic, group: admin.create_topic(f"{topic}-new"),
    "delete_topic": lambda admin, topic, group: admin.delete_topic(topic),
    "create_partitions": lambda admin, topic, group: admin.create_partitions(topic, 2),
    "describe_configs": lambda admin, topic, group: admin.describe_configs(topic),
    "incremental_alter_configs": lambda admin, topic, group: admin.incremental_alter_configs(
        topic, {"retention.ms": "7"}
    ),
    "delete_records": lambda admin, topic, group: admin.delete_records({(topic, 0): 1}),
    "list_offsets": lambda admin, topic, group: admin.list_offsets({(topic, 0): -1}),
    "partitions": lambda admin, topic, group: admin.partitions([topic]),
    "elect_leaders": lambda admin, topic, group: admin.elect_leaders([(topic, 0)]),
    "alter_partition_reassignments": lambda admin, topic, group: admin.alter_partition_reassignments({(topic, 0): [1]}),
    "list_partition_reassignments": lambda admin, topic, group: admin.list_partition_reassignments(),
    "list_groups": lambda admin, topic, group: admin.list_groups(),
    "describe_consumer_group": lambda admin, topic, group: admin.describe_consumer_group(group),
    "explain_group": lambda admin, topic, group: admin.explain_group(group),
    "telemetry_clients": lambda admin, topic, group: admin.telemetry_clients(),
    "record_times": lambda admin, topic, group: admin.record_times({(topic, 0): 0}),
    "lint_group": lambda admin, topic, group: admin.lint_group(group),
    "delete_consumer_group": lambda admin, topic, group: admin.delete_consumer_group(group),
    "remove_members_from_consumer_group": lambda admin, topic, group: admin.remove_members_from_consumer_group(
        group, ["m"]
    ),
    "list_consumer_group_offsets": lambda admin, topic, group: admin.list_consumer_group_offsets(group),
    "list_consumer_group_offsets_metadata": lambda admin, topic, group: admin.list_consumer_group_offsets_metadata(
        group
    ),
    "alter_consumer_group_offsets": lambda admin, topic, group: admin.alter_consumer_group_offsets(
        group, {(topic, 0): 1}
    ),
    "delete_consumer_group_offsets": lambda admin, topic, group: admin.delete_consumer_group_offsets(
        group, [(topic, 0)]
    ),
    "lag": lambda admin, topic, group: admin.lag(group),
    "describe_features": lambda admin, topic, group: admin.describe_features(),
    "update_features": lambda admin, topic, group: admin.update_features({"group.version": 1}),
    "describe_log_dirs": lambda admin, topic, group: admin.describe_log_dirs(),
    "list_config_resources": lambda admin, topic, group: admin.list_config_resources(),
    "describe_client_quotas": lambda admin, topic, group: admin.describe_client_quotas(),
    "alter_client_quotas": lambda admin, topic, group: admin.alter_client_quotas({ALICE: {"request_percentage": 1e6}}),
    "describe_user_scram_credentials": lambda admin, topic, group: admin.describe_user_scram_credentials(),
    "alter_user_scram_credentials": lambda admin, topic, group: admin.alter_user_scram_credentials(
        [UserScramCredentialUpsertion(group, "SCRAM-SHA-256", "secret")]
    ),
    "list_transactions": lambda admin, topic, group: admin.list_transactions(),
    "describe_transactions": described_after_fencing,
    "describe_producers": lambda admin, topic, group: admin.describe_producers([(topic, 0)]),
    "abort_transaction": lambda admin, topic, group: admin.abort_transaction((topic, 0), 7, 0, 0),
    "fence_producers": lambda admin, topic, group: admin.fence_producers([group]),
    "list_share_group_offsets": lambda admin, topic, group: admin.list_share_group_offsets(f"share-{group}"),
    "alter_share_group_offsets": lambda admin, topic, group: admin.alter_share_group_offsets(
        f"share-{group}", {(topic, 0): 0}
    ),
    "delete_share_group_offsets": deleted_after_altering,
}
OF_EACH: dict[str, Callable[[Each, str, str], Mapping[Any, Awaitable[Any]]]] = {
    "create_topics": lambda each, topic, group: each.create_topics([NewTopic(f"{topic}-new")]),
    "delete_topics": lambda each, topic, group: each.delete_topics([topic]),
    "create_partitions": lambda each, topic, group: each.create_partitions({topic: 2}),
    "describe_configs": lambda each, topic, group: each.describe_configs([topic]),
    "incremental_alter_configs": lambda each, topic, group: each.incremental_alter_configs(
        {topic: {"retention.ms": "7"}}
    ),
    "alter_partition_reassignments": lambda each, topic, group: each.alter_partition_reassignments({(topic, 0): [1]}),
    "describe_consumer_groups": lambda each, topic, group: each.describe_consumer_groups([group]),
    "delete_consumer_groups": lambda each, topic, group: each.delete_consumer_groups([group]),
    "list_consumer_group_offsets": lambda each, topic, group: each.list_consumer_group_offsets([group]),
    "alter_consumer_group_offsets": lambda each, topic, group: each.alter_consumer_group_offsets(
        group, {(topic, 0): 1}
    ),
    "delete_consumer_group_offsets": lambda each, topic, group: each.delete_consumer_group_offsets(group, [(topic, 0)]),
    "remove_members_from_consumer_group": lambda each, topic, group: each.remove_members_from_consumer_group(
        group, ["m"]
    ),
    "delete_records": lambda each, topic, group: each.delete_records({(topic, 0): 1}),
    "list_offsets": lambda each, topic, group: each.list_offsets({(topic, 0): -1}),
}


BEST_EFFORT = {"record_times"}  # what a broker that fails has is left out


def methods(kind: type) -> list[str]:
    return [
        name
        for name, _ in inspect.getmembers(kind, inspect.isfunction)
        if name[0] != "_" and name not in WITHOUT_REQUEST | BEST_EFFORT | REFUSED_HERE
    ]


async def result(admin: Admin, method: str, topic: str, group: str) -> object:
    """What the method returns; of a future that fails with an error that no repetition changes, its code."""
    kind, _, name = method.partition(".")
    if kind == "Admin":
        return await OF_ADMIN[name](admin, topic, group)
    (future,) = OF_EACH[name](admin.each, topic, group).values()
    try:
        return await future
    except KafkaError as error:
        if error.retriable:
            raise
        return error.code


async def prepared(broker: LocalBroker, number: int) -> tuple[str, str]:
    topic, group = f"t{number}", f"g{number}"
    broker.create_topic(topic, 1)
    broker.produce(topic, b"v")
    async with Admin({"bootstrap.servers": broker.bootstrap_servers}) as admin:
        await admin.alter_consumer_group_offsets(group, {(topic, 0): 1})
    return topic, group


@pytest.mark.parametrize("method", [f"{kind.__name__}.{name}" for kind in (Admin, Each) for name in methods(kind)])
async def test_an_error_that_passes_is_repeated(coterie_broker: LocalBroker, method: str) -> None:
    broker = coterie_broker
    settings = {"bootstrap.servers": broker.bootstrap_servers} | QUICK
    topic, group = await prepared(broker, 0)
    before = broker.faults.requested.copy()
    async with Admin(settings) as admin:
        expected = await result(admin, method, topic, group)
    apis = set(broker.faults.requested - before)
    assert apis <= PASSING.keys() | ANY_BROKER | LEFT_OUT, "whom does a new API go to?"
    cases = [(api, code) for api in sorted(apis & PASSING.keys()) for code in PASSING[api]]
    for number, (api, code) in enumerate(cases, 1):
        topic, group = await prepared(broker, number)
        rule = broker.fail(api, code, times=TIMES)
        async with asyncio.timeout(20), Admin(settings) as admin:
            try:
                got = await result(admin, method, topic, group)
            except KafkaError as error:
                pytest.fail(f"{api} was refused with {code.name}: {error!r}")
        assert rule.times == 0, f"{api}, {code.name}: the refusals were not all met"
        assert type(got) is type(expected), f"{api}, {code.name}: {got}"
        if isinstance(expected, dict | list):
            assert bool(got) == bool(expected), f"{api}, {code.name}: {got}"


@pytest.mark.parametrize("code", COORDINATOR)
async def test_a_group_of_the_consumer_protocol_is_described_once_its_coordinator_has_it(
    coterie_broker: LocalBroker, code: ErrorCode
) -> None:
    """The classic request names none; that the other one cannot be served yet must not become GROUP_ID_NOT_FOUND."""
    coterie_broker.create_topic("t", 1)
    server = {"bootstrap.servers": coterie_broker.bootstrap_servers}
    async with asyncio.timeout(20), Consumer(server | {"group.id": "g", "group.protocol": "consumer"}) as consumer:
        consumer.subscribe(["t"])
        while not consumer.assignment():
            await consumer.poll(50)
        rule = coterie_broker.fail("ConsumerGroupDescribe", code, times=TIMES)
        async with Admin(server | QUICK) as admin:
            assert len((await admin.describe_consumer_group("g")).members) == 1
        assert rule.times == 0


async def test_the_attempts_end_with_default_api_timeout_ms(coterie_broker: LocalBroker) -> None:
    """The last error is raised."""
    coterie_broker.fail("FindCoordinator", ErrorCode.COORDINATOR_NOT_AVAILABLE, times=1_000_000)
    given = {"bootstrap.servers": coterie_broker.bootstrap_servers, "default.api.timeout.ms": 500} | QUICK
    async with asyncio.timeout(20), Admin(given) as admin:
        with pytest.raises(KafkaError) as caught:
            await admin.describe_consumer_group("g")
    assert caught.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert coterie_broker.requested("FindCoordinator") > TIMES


async def test_an_error_that_lasts_is_raised_at_once(coterie_broker: LocalBroker) -> None:
    """A topic that nobody has is one, too: a DeleteTopics that is repeated would hide a slip for a minute."""
    async with asyncio.timeout(20), Admin({"bootstrap.servers": coterie_broker.bootstrap_servers}) as admin:
        for call, api in (
            (admin.delete_topic("none"), "DeleteTopics"),
            (admin.create_partitions("none", 2), "CreatePartitions"),
            (admin.alter_consumer_group_offsets("g", {("none", 0): 0}), "OffsetCommit"),
            (admin.delete_records({("none", 0): 0}), "Metadata"),
        ):
            before = coterie_broker.requested(api)
            with pytest.raises(KafkaError, match="none") as caught:
                await call
            assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert coterie_broker.requested(api) == before + 1
        coterie_broker.fail("DeleteTopics", ErrorCode.REQUEST_TIMED_OUT)
        with pytest.raises(KafkaError) as caught:  # of the broker: the deletion goes on
            await admin.delete_topic("t")
        assert caught.value.code == ErrorCode.REQUEST_TIMED_OUT


def test_what_the_quota_of_changes_refuses_is_requested_again_alone() -> None:
    """testCreateTopicsRetryThrottlingExceptionWhenEnabled, testCreateTopicsDontRetryThrottlingExceptionWhenDisabled: after
    default.api.timeout.ms the refusal is that of the key alone."""
    requested: list[list[str]] = []
    refused, key = "b", API_KEYS["CreateTopics"]
    create = HANDLERS[key]

    def throttled(broker: Services, request: Any, call: BrokerCall) -> CreateTopicsResponse:
        names = [topic.name for topic in request.topics]
        requested.append(names)
        request.topics = [topic for topic in request.topics if topic.name != refused]
        response = create(broker, request, call)
        assert isinstance(response, CreateTopicsResponse)
        if refused in names:
            response.topics.append(CreatableTopicResult(refused, error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED))
        return response

    async def story(address: str) -> None:
        nonlocal refused
        given = {"bootstrap.servers": address, "default.api.timeout.ms": 60} | QUICK
        async with asyncio.timeout(20), Admin(given) as admin:
            futures = admin.each.create_topics([NewTopic("a", 1), NewTopic("b", 1)])
            await futures["a"]
            with pytest.raises(KafkaError, match="THROTTLING_QUOTA_EXCEEDED: topic b"):
                await futures["b"]
            assert len(requested) > TIMES
            assert requested == [["a", "b"], *[["b"]] * (len(requested) - 1)]
            refused = ""
            await admin.create_topic("b", 1)

    with simulate() as world:
        broker = world.broker()
        broker.broker.handlers = HANDLERS | {key: throttled}
        world.run(story(broker.bootstrap_servers))
