"""Feature levels of a cluster (KIP-584): what one broker is asked to set is finalized for all."""

from __future__ import annotations

import pytest

from coterie.client.connection.connection import Connection
from coterie.testing import ErrorCode
from coterie.testing.simulated import WorldBroker, simulate
from coterie.wire.messages.clients.api_versions import ApiVersionsRequest, ApiVersionsResponse
from coterie.wire.messages.settings.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

REQUEST_S = 30.0
UPGRADE, DOWNGRADE = 1, 2
TRANSACTIONS = "transaction.version"


async def connected(broker: WorldBroker, *numbers: int) -> list[Connection]:
    every = [address.rsplit(":", 1) for address in broker.bootstrap_servers.split(",")]
    addresses = [every[number - 1] for number in numbers or (1, 2, 3)]
    return [await Connection.connect(host, int(port), "test", REQUEST_S) for host, port in addresses]


async def update(one: Connection, level: int, kind: int, *, validate_only: bool = False) -> int:
    request = UpdateFeaturesRequest(
        feature_updates=[FeatureUpdateKey(TRANSACTIONS, level, upgrade_type=kind)], validate_only=validate_only
    )
    return (await one.request(request, UpdateFeaturesResponse, REQUEST_S)).error_code


async def finalized(one: Connection) -> tuple[int, int]:
    """The level, 0 where there is none, and the epoch."""
    response = await one.request(ApiVersionsRequest("x", "1"), ApiVersionsResponse, REQUEST_S, highest=4)
    levels = {feature.name: feature.max_version_level for feature in response.finalized_features}
    return levels.get(TRANSACTIONS, 0), response.finalized_features_epoch


def test_a_level_that_one_broker_sets_is_finalized_for_all() -> None:
    with simulate(seed=1) as world:
        broker = world.broker(brokers=3)

        async def story() -> None:
            first, second, _ = brokers = await connected(broker)
            assert await update(first, 1, UPGRADE) == ErrorCode.INVALID_UPDATE_VERSION
            assert await update(first, 1, DOWNGRADE, validate_only=True) == ErrorCode.NONE
            assert [await finalized(one) for one in brokers] == [(2, 0)] * 3
            assert await update(first, 0, DOWNGRADE) == ErrorCode.NONE
            assert await finalized(first) == (0, 1)
            # What another broker is asked next knows it, notified or not.
            assert await update(second, 1, UPGRADE) == ErrorCode.NONE
            assert await finalized(second) == (1, 2)

        world.run(story())
        world.advance(1.0)

        async def notified() -> None:
            assert [await finalized(one) for one in await connected(broker)] == [(1, 2)] * 3

        world.run(notified())


@pytest.mark.parametrize("starts_after", [False, True])
def test_a_broker_that_was_away_has_the_levels_of_the_cluster(starts_after: bool) -> None:
    with simulate(seed=1) as world:
        broker = world.broker(brokers=3)
        if starts_after:
            broker.kill(3)

        async def story() -> None:
            (one,) = await connected(broker, 1)
            assert await update(one, 1, DOWNGRADE) == ErrorCode.NONE

        world.run(story())
        if starts_after:
            broker.restart(3)
        world.advance(10.0)

        async def levels() -> None:
            (last,) = await connected(broker, 3)
            assert await finalized(last) == (1, 1)

        world.run(levels())
