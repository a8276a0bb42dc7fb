"""What a story may begin with: another transaction.version, and the log of an older coordinator."""

from __future__ import annotations

from coterie.broker.broker import Broker
from coterie.broker.settings.features import TRANSACTION_VERSION, UpgradeType
from coterie.client.connection.connection import Connection
from coterie.client.errors import check
from coterie.coordinator.events import OffsetStored
from coterie.coordinator.state import CommittedOffset
from coterie.coordinator.stored_records.stored import to_record
from coterie.records.batch import TRANSACTIONAL_BIT
from coterie.records.encoding import encode_batch
from coterie.wire.messages.groups.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from coterie.wire.messages.settings.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from coterie_conformance.stories.plan import INPUT, ORPHANS

ORPHANS_PRODUCER = 10**9
REQUEST_S = 10.0


async def set_transaction_version(host: str, port: int, level: int) -> None:
    """Of the finalized features. Raises KafkaError."""
    connection = await Connection.connect(host, port, "administrator", REQUEST_S)
    update = FeatureUpdateKey(TRANSACTION_VERSION, level, upgrade_type=UpgradeType.SAFE_DOWNGRADE)
    response = await connection.request(UpdateFeaturesRequest(60_000, [update]), UpdateFeaturesResponse, REQUEST_S)
    check(response.error_code, response.error_message)
    connection.close()


async def create_offsets_topic(host: str, port: int) -> None:
    """By the first look-up of a coordinator. Raises KafkaError."""
    connection = await Connection.connect(host, port, "administrator", REQUEST_S)
    await connection.request(FindCoordinatorRequest(coordinator_keys=[ORPHANS]), FindCoordinatorResponse, REQUEST_S)
    connection.close()


def plant_orphan(broker: Broker, now_ms: int) -> None:
    """An offset that no transaction will ever end, as a coordinator left it that did not check them."""
    record = to_record(ORPHANS, OffsetStored(INPUT, 0, CommittedOffset(1, -1, "", now_ms)))
    assert record is not None, "it is stored"
    batch = encode_batch(
        [(now_ms, record.key, record.value, ())],
        producer_id=ORPHANS_PRODUCER,
        producer_epoch=0,
        base_sequence=0,
        attributes=TRANSACTIONAL_BIT,
    )
    log = broker.topics.partition("__consumer_offsets", 0).log
    log.append_own(batch, now_ms)
    log.sync()
