"""The programs of a story that neither write nor read records: one deletes the older ones, one asks for producer ids."""

from __future__ import annotations

import asyncio

from coterie.client import Admin, KafkaError
from coterie.client.connection.connection import Connection
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from coterie_conformance.stories.plan import INPUT, PARTITIONS
from coterie_conformance.stories.programs import PAUSES_S, RETRY_S, StoryWork

NOBODY = (-1, -1)
REQUEST_S = 3.0
DELETE_EVERY_S = (1.0, 8.0, 20.0)


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
