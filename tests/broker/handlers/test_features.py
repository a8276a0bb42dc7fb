"""Feature levels: what ApiVersions names, and what UpdateFeatures may set."""

from __future__ import annotations

import pytest

from coterie.broker.broker import Broker
from coterie.broker.settings import BrokerSettings, SettingError
from coterie.broker.settings.features import TRANSACTION_VERSION, Features, FeatureUpdate
from coterie.log.filesystem import MemoryFileSystem
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.brokers.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from coterie.wire.messages.clients.api_versions import ApiVersionsRequest, ApiVersionsResponse
from coterie.wire.messages.groups.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from coterie.wire.messages.groups.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from coterie.wire.messages.settings.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from tests.broker.connections.test_server import broker

BAD_LEVEL = ErrorCode.INVALID_UPDATE_VERSION


@pytest.mark.parametrize(
    ("version", "supported"),
    [
        (3, {"metadata.version": (7, 33)}),  # a minimum of 0 breaks clients that know no newer version
        (
            4,
            {
                "metadata.version": (7, 33),
                "group.version": (0, 1),
                "share.version": (0, 2),
                "streams.version": (0, 1),
                "transaction.version": (0, 2),
            },
        ),
    ],
)
async def test_api_versions_names_the_features(version: int, supported: dict[str, tuple[int, int]]) -> None:
    async with broker() as connect:
        response = await (await connect()).ask(ApiVersionsRequest("x", "1"), ApiVersionsResponse, version)
        assert {f.name: (f.min_version, f.max_version) for f in response.supported_features} == supported
        finalized = [(f.name, f.min_version_level, f.max_version_level) for f in response.finalized_features]
        assert finalized == [
            ("group.version", 1, 1),
            ("metadata.version", 33, 33),
            ("share.version", 2, 2),
            ("streams.version", 1, 1),
            ("transaction.version", 2, 2),
        ]
        assert response.finalized_features_epoch == 0


@pytest.mark.parametrize("name", ["", "a b", "a-", "A_b"])
async def test_client_software_has_a_plain_name(name: str) -> None:
    async with broker() as connect:
        client = await connect()
        for request in (ApiVersionsRequest(name, "1"), ApiVersionsRequest("x", name)):
            response = await client.ask(request, ApiVersionsResponse, 3)
            assert (response.error_code, response.api_keys) == (ErrorCode.INVALID_REQUEST, [])


@pytest.mark.parametrize(
    ("cluster", "node_id", "error"),
    [
        (None, -1, ErrorCode.NONE),  # of a client that bootstraps
        ("this", 1, ErrorCode.NONE),
        ("this", 2, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("another", 1, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("", 1, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("this", -1, ErrorCode.INVALID_REQUEST),
        (None, 1, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_a_client_may_name_the_broker_that_it_means(cluster: str | None, node_id: int, error: ErrorCode) -> None:
    """KIP-1242, as Kafka 4.4.0 responds; before version 5 nobody names one."""
    async with broker() as connect:
        client = await connect()
        own = (await client.ask(DescribeClusterRequest(), DescribeClusterResponse, 0)).cluster_id
        cluster_id = own if cluster == "this" else cluster
        for version in (4, 5):
            request = ApiVersionsRequest("x", "1", cluster_id, node_id)
            response = await client.ask(request, ApiVersionsResponse, version)
            assert response.error_code == (error if version == 5 else ErrorCode.NONE)


UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
UPDATES = [
    ("metadata.version", 33, UPGRADE, ErrorCode.NONE),
    ("group.version", 1, UPGRADE, ErrorCode.NONE),
    ("group.version", 0, UPGRADE, BAD_LEVEL),
    ("group.version", 0, SAFE_DOWNGRADE, ErrorCode.NONE),
    ("group.version", 2, UPGRADE, BAD_LEVEL),
    ("group.version", -1, UPGRADE, BAD_LEVEL),
    ("transaction.version", 2, UPGRADE, ErrorCode.NONE),
    ("transaction.version", 3, UPGRADE, BAD_LEVEL),
    ("transaction.version", 1, UPGRADE, BAD_LEVEL),
    ("transaction.version", 1, SAFE_DOWNGRADE, ErrorCode.NONE),
    ("transaction.version", 0, UNSAFE_DOWNGRADE, ErrorCode.NONE),
    ("metadata.version", 29, UPGRADE, BAD_LEVEL),
    ("metadata.version", 29, SAFE_DOWNGRADE, BAD_LEVEL),
    ("metadata.version", 29, UNSAFE_DOWNGRADE, BAD_LEVEL),
    ("metadata.version", 31, UPGRADE, BAD_LEVEL),
    ("metadata.version", 33, 9, BAD_LEVEL),
    ("nobody.version", 1, UPGRADE, BAD_LEVEL),
]


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize(("name", "level", "upgrade_type", "code"), UPDATES)
async def test_a_level_is_set_as_by_kafka(
    version: int, name: str, level: int, upgrade_type: int, code: ErrorCode
) -> None:
    if version == 0 and upgrade_type == 9:
        return  # v0 knows only whether a downgrade is allowed
    async with broker() as connect:
        update = FeatureUpdateKey(name, level, upgrade_type != UPGRADE, upgrade_type)
        response = await (await connect()).ask(UpdateFeaturesRequest(1000, [update]), UpdateFeaturesResponse, version)
        assert response.error_code == code
        expected = [] if code or version >= 2 else [name]
        assert [(r.feature, r.error_code) for r in response.results] == [(n, 0) for n in expected]


def test_levels_go_up_and_down_and_outlive_a_restart() -> None:
    fs = MemoryFileSystem()
    features = Features(fs)
    assert (features.level(TRANSACTION_VERSION), features.epoch) == (2, 0)
    down = [FeatureUpdate(TRANSACTION_VERSION, 0, SAFE_DOWNGRADE)]
    features.update(down, validate_only=True)
    assert (features.level(TRANSACTION_VERSION), features.epoch) == (2, 0)
    features.update(down, validate_only=False)
    assert (features.level(TRANSACTION_VERSION), features.epoch) == (0, 1)
    assert TRANSACTION_VERSION not in [f.name for f in features.finalized()]
    features = Features(fs)
    assert (features.level(TRANSACTION_VERSION), features.epoch) == (0, 1)
    with pytest.raises(Refusal, match="nobody"):
        features.update(
            [FeatureUpdate(TRANSACTION_VERSION, 2, UPGRADE), FeatureUpdate("nobody", 1, 1)], validate_only=False
        )
    assert features.level(TRANSACTION_VERSION) == 0, "all or none"
    features.update([FeatureUpdate(TRANSACTION_VERSION, 2, UPGRADE)], validate_only=False)
    assert (Features(fs).level(TRANSACTION_VERSION), features.epoch) == (2, 2)
    features.update([FeatureUpdate(TRANSACTION_VERSION, 2, UPGRADE)], validate_only=False)
    assert features.epoch == 2, "nothing changed"


async def test_a_level_that_was_changed_is_reported() -> None:
    async with broker() as connect:
        client = await connect()
        update = FeatureUpdateKey(TRANSACTION_VERSION, 1, True, SAFE_DOWNGRADE)
        received = await client.ask(UpdateFeaturesRequest(1000, [update]), UpdateFeaturesResponse, 2)
        assert not received.error_code
        response = await client.ask(ApiVersionsRequest("x", "1"), ApiVersionsResponse, 4)
        levels = {f.name: f.max_version_level for f in response.finalized_features}
        assert (levels[TRANSACTION_VERSION], response.finalized_features_epoch) == (1, 1)


async def test_without_group_version_consumer_groups_are_refused_as_by_kafka() -> None:
    async with broker() as connect:
        client = await connect()
        down = FeatureUpdateKey("group.version", 0, True, SAFE_DOWNGRADE)
        updated = await client.ask(UpdateFeaturesRequest(1000, [down]), UpdateFeaturesResponse, 2)
        assert updated.error_code == ErrorCode.NONE
        heartbeat = ConsumerGroupHeartbeatRequest("g", "m", 0, subscribed_topic_names=["t"], rebalance_timeout_ms=1000)
        refused = await client.ask(heartbeat, ConsumerGroupHeartbeatResponse, 1)
        assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION
        described = await client.ask(ConsumerGroupDescribeRequest(["g"]), ConsumerGroupDescribeResponse, 1)
        assert described.groups[0].error_code == ErrorCode.UNSUPPORTED_VERSION


async def test_a_cluster_with_older_brokers_has_no_feature_and_no_topic_ids() -> None:
    """inter.broker.protocol.version 2.6: Apache Kafka 2.6 beside coterie could not load groups of the consumer protocol, nor
    offsets with topic ids, nor transactions of version 1."""
    async with broker(inter_broker_protocol_version="2.6") as connect:
        client = await connect()
        response = await client.ask(ApiVersionsRequest("x", "1"), ApiVersionsResponse, 4)
        assert (response.supported_features, response.finalized_features) == ([], [])
        last = {row.api_key: row.max_version for row in response.api_keys}
        assert (last[0], last[1], last[3], last[8], last[9], last[20]) == (12, 12, 9, 9, 9, 5)
        assert not last.keys() & {68, 69, 75}
        request = ConsumerGroupHeartbeatRequest("crew", "m", subscribed_topic_names=["t"], rebalance_timeout_ms=1000)
        beat = await client.ask(request, ConsumerGroupHeartbeatResponse, 1)
        assert beat.error_code == ErrorCode.UNSUPPORTED_VERSION
        update = FeatureUpdateKey(TRANSACTION_VERSION, 2)
        refused = await client.ask(UpdateFeaturesRequest(1000, [update]), UpdateFeaturesResponse, 2)
        assert refused.error_code == BAD_LEVEL
        assert "inter.broker.protocol.version" in (refused.error_message or "")


@pytest.mark.parametrize(
    ("text", "are_absent"),
    [("2.6-IV0", True), ("2.7", True), ("2.7.2", True), ("2.8", False), ("2.8.1", False), ("3.9-IV0", False)],
)
def test_the_protocol_decides_whether_features_exist(text: str, are_absent: bool) -> None:
    assert Broker(BrokerSettings({"inter.broker.protocol.version": text})).lacks_topic_ids is are_absent


@pytest.mark.parametrize("text", ["2.5", "new", "", "2", "4.0", "3.10"])
def test_a_protocol_that_coterie_does_not_speak_is_refused(text: str) -> None:
    with pytest.raises(
        SettingError, match=r"inter\.broker\.protocol\.version must be a version of Apache Kafka from 2\.6"
    ):
        BrokerSettings({"inter.broker.protocol.version": text})
