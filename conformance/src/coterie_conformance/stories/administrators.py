"""What administrators do in a story: before it begins (another transaction.version, the log of an older coordinator), and as
programs that neither write nor read records: one deletes the older ones, one asks for producer ids."""

from __future__ import annotations

import asyncio

from coterie.broker.broker import Broker
from coterie.broker.settings.features import TRANSACTION_VERSION, UpgradeType
from coterie.client import Admin, KafkaError
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
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from coterie_conformance.stories.plan import INPUT, ORPHANS, PARTITIONS
from coterie_conformance.stories.programs import PAUSES_S, RETRY_S, StoryWork

NOBODY = (-1, -1)
REQUEST_S = 3.0
DELETE_EVERY_S = (1.0, 8.0, 20.0)
ORPHANS_PRODUCER = 10**9
BEGINNING_S = 10.0


async def delete_records(work: StoryWork, name: str) -> None:
    """Until an offset at which a record was acknowledged."""
    rng, history = work.begin(name), work.history
    async with Admin({"bootstrap.servers": work.servers, "request.timeout.ms": 3_000}) as admin:
        while not work.finishing:
            await asyncio.sleep(rng.choice(DELETE_EVERY_S))
            partition = INPUT, rng.randrange(PARTITIONS[INPUT])
            offsets = [r.offset for r in history.sent.values() if r.partition == partition and r.offset is not None]
            if not offsets:
                continue
            offset = max(rng.choice(offsets), 0)
            history.delete_requested[partition] = max(offset, history.delete_requested.get(partition, 0))
            try:
                (start,) = (await admin.delete_records({partition: offset})).values()
                history.deleted[partition] = max(start, history.deleted.get(partition, 0))
            except KafkaError as error:
                history.errors.append((name, error.code.name))


async def claim_ids(work: StoryWork, name: str) -> None:
    """Without a transactional id every request gets another producer id, whatever the process claims to have (KIP-360)."""
    rng = work.begin(name)
    host, port = work.servers.split(",")[0].rsplit(":", 1)
    claim = NOBODY
    while not work.finishing:
        try:
            connection = await Connection.connect(host, int(port), name, REQUEST_S)
            request = InitProducerIdRequest(None, 60_000, *claim)
            response = await connection.request(request, InitProducerIdResponse, REQUEST_S)
            connection.close()
            if not response.error_code:
                work.history.given_ids.append((response.producer_id, response.producer_epoch))
                claim = rng.choice([(response.producer_id, response.producer_epoch), NOBODY])
        except KafkaError as error:
            work.history.errors.append((name, error.code.name))
            await asyncio.sleep(RETRY_S)
        await asyncio.sleep(rng.choice(PAUSES_S))


async def set_transaction_version(host: str, port: int, level: int) -> None:
    """Of the finalized features. Raises KafkaError."""
    connection = await Connection.connect(host, port, "administrator", BEGINNING_S)
    update = FeatureUpdateKey(TRANSACTION_VERSION, level, upgrade_type=UpgradeType.SAFE_DOWNGRADE)
    response = await connection.request(UpdateFeaturesRequest(60_000, [update]), UpdateFeaturesResponse, BEGINNING_S)
    check(response.error_code, response.error_message)
    connection.close()


async def create_offsets_topic(host: str, port: int) -> None:
    """By the first look-up of a coordinator. Raises KafkaError."""
    connection = await Connection.connect(host, port, "administrator", BEGINNING_S)
    await connection.request(FindCoordinatorRequest(coordinator_keys=[ORPHANS]), FindCoordinatorResponse, BEGINNING_S)
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
