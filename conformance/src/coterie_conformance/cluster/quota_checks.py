"""Client quotas in a cluster of Apache Kafka's and coterie's brokers: each describes what the other was asked to set."""

from __future__ import annotations

from coterie.client.connection.connection import Connection
from coterie.wire.messages.settings.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    OpData,
)
from coterie.wire.messages.settings.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from coterie_conformance.cluster.mixed import MixedBroker, MixedCluster, wait_until

REQUEST_S = 30.0
Entity = tuple[tuple[str, str | None], ...]
ALTERED: tuple[tuple[Entity, str, float], ...] = (
    ((("user", "a user"),), "producer_byte_rate", 2048.0),
    ((("client-id", "a/b"), ("user", "a user")), "request_percentage", 12.5),
    ((("client-id", None),), "consumer_byte_rate", 5.0),
)


async def quotas_are_the_clusters(cluster: MixedCluster, first: int, topic: str) -> str:
    """Set by one broker, described by all, and removed by another. Raises NotInTime, KafkaError."""
    brokers = [cluster.brokers[first], *(broker for number, broker in cluster.brokers.items() if number != first)]
    for setting, removing in zip(brokers, [*brokers[1:], brokers[0]], strict=True):
        wanted: dict[Entity, dict[str, float]] = {}
        for entity, key, value in ALTERED:
            await _alter(setting, entity, key, value)
            wanted[entity] = {key: value}
        await _until_described(brokers, wanted)
        for entity, key, _ in ALTERED:
            await _alter(removing, entity, key, None)
        await _until_described(brokers, {})
    return ""


async def _until_described(brokers: list[MixedBroker], wanted: dict[Entity, dict[str, float]]) -> None:
    last = ""

    async def do_describe() -> bool:
        nonlocal last
        for broker in brokers:
            described = await _described(broker)
            last = f"{broker} describes the quotas {wanted}; it describes {described}"
            if described != wanted:
                return False
        return True

    await wait_until(do_describe, lambda: last)


async def _alter(broker: MixedBroker, entity: Entity, key: str, value: float | None) -> None:
    connection = await Connection.connect(*broker.process.address, "judge", REQUEST_S)
    entry = EntryData(
        [EntityData(kind, name) for kind, name in entity], [OpData(key, value or 0.0, remove=value is None)]
    )
    await connection.request(AlterClientQuotasRequest([entry]), AlterClientQuotasResponse, REQUEST_S)
    connection.close()


async def _described(broker: MixedBroker) -> dict[Entity, dict[str, float]]:
    connection = await Connection.connect(*broker.process.address, "judge", REQUEST_S)
    response = await connection.request(DescribeClientQuotasRequest([]), DescribeClientQuotasResponse, REQUEST_S)
    connection.close()
    return {
        tuple(sorted((part.entity_type, part.entity_name) for part in entry.entity)): {
            value.key: value.value for value in entry.values
        }
        for entry in response.entries or ()
    }
