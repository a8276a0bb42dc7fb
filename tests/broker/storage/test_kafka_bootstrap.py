"""`coterie log bootstrap`: what Apache Kafka's metadata log is to begin with. That Kafka starts on it is checked by the factory
(`modern_folders`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from coterie.broker.broker import Broker
from coterie.broker.settings import BrokerSettings
from coterie.broker.settings.altered_settings import ResourceType
from coterie.broker.settings.features import STREAMS_VERSION, FeatureUpdate
from coterie.broker.storage.disk import DiskFileSystem
from coterie.broker.storage.identity import read_topic_id
from coterie.cli import main
from coterie.client import Admin
from coterie.records.batch import batches
from coterie.records.decoding import decode_records
from coterie.wire.messages.stored import metadata_records as m
from coterie.wire.primitives import read_unsigned_varint
from tests.broker.storage.test_folder_check import contents

KINDS = (m.TopicRecord, m.PartitionRecord, m.ConfigRecord, m.FeatureLevelRecord, m.ProducerIdsRecord)
BY_KEY = {kind.api_key: kind for kind in KINDS}


async def folder_of(path: Path) -> dict[str, bytes]:
    """A folder with two topics and a group's settings; returns the ids of the topics."""
    broker = Broker(BrokerSettings({"node.id": "7", "coterie.journal.enable": "false"}), data=path)
    host, port = await broker.start("127.0.0.1", 0)
    async with Admin({"bootstrap.servers": f"{host}:{port}"}) as admin:
        await admin.create_topic("orders", 2, {"cleanup.policy": "compact"})
        await admin.create_topic("jobs", 1)
    broker.kept_configs.replace({(ResourceType.GROUP, "g"): {"share.auto.offset.reset": "earliest"}})
    broker.features.update([FeatureUpdate(STREAMS_VERSION, 0, 2)], validate_only=False)
    ids = {name: topic.topic_id for name, topic in broker.topics.by_name.items()}
    await broker.stop()
    return ids


def bootstrap(path: Path, release: str = "4.4") -> Result:
    return CliRunner().invoke(main, ["log", "bootstrap", str(path), "--release", release])


def records(path: Path) -> list[Any]:
    data, read = (path / "bootstrap.checkpoint").read_bytes(), list[Any]()
    for position, header in batches(data):
        for record in decode_records(data, position, header):
            value, at, numbers = record.value or b"", 0, []
            for _ in range(3):
                number, at = read_unsigned_varint(value, at)
                numbers.append(number)
            frame, key, version = numbers
            assert (frame, record.key) == (1, None)
            read.append(BY_KEY[key].decode(value[at:], version))
    return read


async def test_topics_settings_features_and_producer_ids_are_handed_over(tmp_path: Path) -> None:
    ids = await folder_of(tmp_path)
    ended = bootstrap(tmp_path, "4.3")
    assert ended.exit_code == 0, ended.output
    assert "has 2 topics with 3 partitions; start Kafka 4.3" in ended.output
    assert "node.id=7" in ended.output
    rest = records(tmp_path)
    levels = {r.name: r.feature_level for r in rest if isinstance(r, m.FeatureLevelRecord)}
    assert levels == {"metadata.version": 30, "group.version": 1, "share.version": 1, "transaction.version": 2}
    assert isinstance(rest[0], m.FeatureLevelRecord)
    assert rest[0].name == "metadata.version"
    assert {r.name: r.topic_id for r in rest if isinstance(r, m.TopicRecord)} == ids
    partitions = [r for r in rest if isinstance(r, m.PartitionRecord)]
    assert {(r.topic_id, r.partition_id) for r in partitions} == {
        (ids["orders"], 0),
        (ids["orders"], 1),
        (ids["jobs"], 0),
    }
    assert {(tuple(r.replicas), tuple(r.isr), r.leader, r.leader_epoch) for r in partitions} == {((7,), (7,), -1, 0)}
    assert [(r.resource_type, r.resource_name, r.name, r.value) for r in rest if isinstance(r, m.ConfigRecord)] == [
        (2, "orders", "cleanup.policy", "compact"),
        (32, "g", "share.auto.offset.reset", "earliest"),
    ]
    (next_id,) = [r.next_producer_id for r in rest if isinstance(r, m.ProducerIdsRecord)]
    assert next_id == 0
    for partition in range(2):
        assert read_topic_id(DiskFileSystem(tmp_path), f"orders-{partition}") == ids["orders"]


async def test_a_newer_release_has_its_own_levels(tmp_path: Path) -> None:
    await folder_of(tmp_path)
    bootstrap(tmp_path, "4.4")
    levels = {r.name: r.feature_level for r in records(tmp_path) if isinstance(r, m.FeatureLevelRecord)}
    assert (levels["metadata.version"], levels["share.version"]) == (33, 2)


async def test_a_folder_that_cannot_be_handed_over_is_left_as_it_is(tmp_path: Path) -> None:
    unclean, begun, empty = (tmp_path / name for name in ("unclean", "begun", "empty"))
    await folder_of(unclean)
    (unclean / ".kafka_cleanshutdown").unlink()
    await folder_of(begun)
    (begun / "__cluster_metadata-0").mkdir()
    empty.mkdir()
    for path, why in (
        (unclean, "has not stopped cleanly"),
        (begun, "Kafka has begun a metadata log"),
        (empty, "is not the data folder of a single broker"),
    ):
        before = contents(path)
        ended = bootstrap(path)
        assert (ended.exit_code, why in ended.output) == (1, True), ended.output
        assert contents(path) == before
