"""A data folder in which every kind of file is, and what a broker that starts on it knows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from coterie.broker.broker import Broker
from coterie.broker.clients.scram_credentials import Credential
from coterie.broker.requests.turns import finish
from coterie.broker.settings import BrokerSettings
from coterie.broker.settings.altered_settings import ResourceType
from coterie.broker.settings.features import FeatureUpdate
from coterie.log.reading import read_committed
from coterie.log.retention import delete_records
from coterie.records.batch import TRANSACTIONAL_BIT, batches
from coterie.records.decoding import decode_records
from coterie.records.encoding import encode_batch
from coterie.records.markers import end_of_transaction
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from coterie_conformance.fuzzing.disk import FaultyFileSystem
from tests.broker.connections.test_server import Client
from tests.broker.groups.raw_commits import commit

SETTINGS = {
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "coterie.journal.enable": "false",
    "log.cleaner.enable": "false",
}
DELETED_BEFORE = 11
USER, DOWN = "ann", 2


@asynccontextmanager
async def started(fs: FaultyFileSystem) -> AsyncIterator[tuple[Broker, Client]]:
    broker = Broker(BrokerSettings(SETTINGS), memory=fs)
    host, port = await broker.start("127.0.0.1", 0)
    await broker.groups.loaded()
    client = Client(*await asyncio.open_connection(host, port))
    try:
        yield broker, client
    finally:
        client.writer.close()
        await broker.stop()


async def make_folder(*, orderly: bool) -> FaultyFileSystem:
    """The folder of a broker that was stopped, or killed; and once before, so that its logs have a second leader epoch."""
    fs = FaultyFileSystem()
    async with started(fs) as (broker, client):
        await _fill(broker, client)
        fs = fs.copy()
    async with started(fs) as (broker, client):
        log = broker.topics.partition("compacted", 0).log
        log.append(encode_batch([(61, b"k1", b"of the second life", ())]), 61)
        _keep(broker)
        if not orderly:
            return fs.copy()
    return fs


def _keep(broker: Broker) -> None:
    """What a broker writes from time to time."""
    broker.topics.save_start_offsets()
    broker.topics.save_cleaned_offsets()
    broker.topics.save_high_watermarks()
    broker.keep_files()


async def _fill(broker: Broker, client: Client) -> None:
    broker.topics.create("plain", 2, {"segment.bytes": "2000"})
    broker.topics.create("t", 1)
    broker.topics.create("compacted", 1, {"cleanup.policy": "compact"})
    for n in range(60):
        batch = encode_batch([(n, b"k%d" % (n % 5), b"v%d" % n, ())], producer_id=3, producer_epoch=0, base_sequence=n)
        for name, index in (("plain", 1), ("compacted", 0)):
            broker.topics.partition(name, index).log.append(batch, n)
    log = broker.topics.partition("plain", 1).log
    for producer_id, committed in ((5, False), (6, True)):
        records = [(60, b"k", b"t%d" % producer_id, ())]
        log.append_own(
            encode_batch(
                records, producer_id=producer_id, producer_epoch=0, base_sequence=0, attributes=TRANSACTIONAL_BIT
            ),
            60,
        )
        log.append_own(end_of_transaction(producer_id, 0, committed, 0, 60), 60)
    delete_records(log, DELETED_BEFORE)
    broker.topics.partition("compacted", 0).log.cleaned_until = 7
    assert [await commit(client, group, 10 + n) for n, group in enumerate(("g1", "g2", "g3"))] == [0, 0, 0]
    for name in ("one", "two"):
        await client.ask(InitProducerIdRequest(name, 60_000), InitProducerIdResponse, 4)
    broker.clients.quotas.alter({(("user", USER),): {"producer_byte_rate": 5.0}})
    finish(broker.clients.scram_credentials.altering([Credential(USER, 1, 4096, b"salt", b"salted")]))
    broker.features.update([FeatureUpdate("group.version", 0, DOWN)], validate_only=False)
    broker.kept_configs.replace({(ResourceType.CLIENT_METRICS, "m"): {"interval.ms": "1000"}})
    broker.kept_configs.replace({(ResourceType.BROKER, ""): {"log.retention.ms": "12345"}})
    _keep(broker)


async def known(fs: FaultyFileSystem) -> dict[str, Any]:
    """All responses that a client can receive after a start."""
    async with started(fs) as (broker, _):
        kept, credentials = broker.kept_configs, broker.clients.scram_credentials
        group = {g.group_id: dict(g.offsets) for g in broker.groups.groups()}
        return {
            "cluster id": broker.cluster_id,
            "topics": {t.name: (t.topic_id, t.configs, len(t.partitions)) for t in broker.topics.by_name.values()},
            "records": {
                (t.name, p.index): _records(p.log) for t in broker.topics.by_name.values() for p in t.partitions
            },
            "commits": {name: sorted((k, v.offset) for k, v in offsets.items()) for name, offsets in group.items()},
            "transactional ids": {t.transactional_id: t.producer_id for t in broker.transactions.every_transaction()},
            "quotas": list(broker.clients.quotas.describe([], strict=False)),
            "credentials": {user: credentials.iterations(user) for user in credentials.users()},
            "features": (broker.features.epoch, [(f.name, f.max_version_level) for f in broker.features.finalized()]),
            "settings": {(kind.name, name): kept.of(kind, name) for kind in ResourceType for name in kept.names(kind)},
            "retention": broker.settings["log.retention.ms"],
            "findings": [str(finding) for finding in broker.topics.findings],
            "producer id": broker._producer_ids.take(),
        }


def _records(log: Any) -> tuple[int, int, list[tuple[int, bytes | None]], Any]:
    rows: list[tuple[int, bytes | None]] = []
    aborted: list[Any] = []
    offset = log.log_start_offset
    while offset < log.end_offset:
        data, aborts = read_committed(log, offset, 1_000, at_least_one=True)
        aborted += aborts
        if not data:
            break
        for position, header in batches(data):
            rows += [(r.offset, r.value) for r in decode_records(data, position, header) if not header.is_control]
            offset = header.last_offset + 1
    return log.log_start_offset, log.last_stable_offset, rows, aborted
