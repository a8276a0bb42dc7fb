"""A data folder with damaged files, and one that cannot be used: what a start says, mends and refuses."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from coterie.authorizer.acls import Acl, AclOperation, AclResourceType, PatternType, Permission
from coterie.broker.broker import Broker
from coterie.broker.clients.scram_credentials import Credential
from coterie.broker.requests.turns import finish
from coterie.broker.settings import BrokerSettings
from coterie.broker.settings.altered_settings import ResourceType
from coterie.broker.storage.disk import DiskFileSystem
from coterie.broker.storage.last_run import PRIVATE_FILES
from coterie.broker.storage.topics import Topics
from coterie.broker.transactions.folder_producer_ids import loaded_producer_ids
from coterie.coordinator.transactions.producer_ids import ProducerIds
from coterie.log.checked_files import UnreadableFile
from coterie.log.retention import delete_records
from coterie.records.batch import batches, check_crc
from coterie.records.decoding import decode_records
from coterie.records.encoding import encode_batch
from coterie.wire.errors import ErrorCode, Refusal
from coterie_conformance.fuzzing.disk import FaultyFileSystem

EVERY_BIT = bool(os.environ.get("COTERIE_EVERY_BIT"))
SMALL = (
    "topics.json",
    "log-checkpoint.json",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
    "producer_ids",
)


def folder(*, orderly: bool) -> FaultyFileSystem:
    """Two topics with a moved start and a compaction, producer ids taken; closed, or killed."""
    fs = FaultyFileSystem()
    topics = Topics(fs, BrokerSettings())
    topics.load()
    topics.create("plain", 2, {"segment.bytes": "2000"})
    topics.create("compacted", 1, {"cleanup.policy": "compact"})
    for n in range(60):
        batch = encode_batch(
            [(n, b"k%d" % (n % 5), b"value %d" % n, ())], producer_id=3, producer_epoch=0, base_sequence=n
        )
        for name, index in (("plain", 1), ("compacted", 0)):
            topics.partition(name, index).log.append(batch, n)
    delete_records(topics.partition("plain", 1).log, 11)
    topics.partition("compacted", 0).log.cleaned_until = 7
    topics.save_start_offsets()
    topics.save_cleaned_offsets()
    ProducerIds(fs).take()
    if orderly:
        topics.close()
    return fs


def records(topics: Topics) -> dict[tuple[str, int, int], bytes | None]:
    """Every record by topic, partition and offset."""
    out: dict[tuple[str, int, int], bytes | None] = {}
    for topic in topics.by_name.values():
        for partition in topic.partitions:
            offset = partition.log.log_start_offset
            while offset < partition.log.end_offset:
                data = partition.log.read(offset, 1_000)
                for position, header in batches(data):
                    check_crc(data, position, header)
                    for record in decode_records(data, position, header):
                        out[topic.name, partition.index, record.offset] = record.value
                    offset = header.last_offset + 1
    return out


def loaded(fs: FaultyFileSystem) -> tuple[Topics, int]:
    """The topics, and the first producer id that would be handed out."""
    topics = Topics(fs, BrokerSettings())
    topics.load()
    return topics, loaded_producer_ids(fs, topics).take()


@pytest.mark.parametrize("orderly", [True, False])
@pytest.mark.parametrize("name", SMALL)
def test_a_bit_of_a_small_file(name: str, orderly: bool) -> None:
    """Each byte, one bit of it (all of them with COTERIE_EVERY_BIT=1): nothing of a log is lost or hidden, no id is handed
    out twice, settings are those that were set, and a finding says so; or the start is refused with the file's name."""
    undamaged = folder(orderly=orderly)
    topics, _ = loaded(undamaged.copy())
    expected, configs = records(topics), {t.name: t.configs for t in topics.by_name.values()}
    outcomes: Counter[str] = Counter()
    chosen = random.Random(7)
    for position in range(undamaged.files[name].size()):
        for bit in range(8) if EVERY_BIT else [chosen.randrange(8)]:
            fs = undamaged.copy()
            fs.flip(name, position, bit)
            try:
                topics, producer_id = loaded(fs)
            except UnreadableFile as error:
                outcomes["refused" if error.file == name else "another file is blamed"] += 1
                continue
            got = records(topics)
            assert got == expected, "nothing is lost, and no deleted record comes back"
            assert producer_id >= 1000
            assert {t.name: t.configs for t in topics.by_name.values()} == configs
            outcomes["findings" if topics.findings else "no effect"] += 1
    print(name, dict(outcomes))
    assert "another file is blamed" not in outcomes
    assert outcomes["refused"] + outcomes["findings"] > outcomes["no effect"], dict(outcomes)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"{}", b"null", b"[]", b"0\n1\n", b"0\n1\nplain 1 eleven\n"])
def test_a_small_file_with_something_else(name: str, content: bytes) -> None:
    """Each ended the start with some 40 lines of traceback that did not name the file."""
    fs = folder(orderly=True)
    fs.write_file(name, content)
    if name == "topics.json" and content != b"{}":
        with pytest.raises(UnreadableFile, match=r"^topics\.json cannot be read: .*; restore it from a backup"):
            loaded(fs)
        return
    topics, producer_id = loaded(fs)
    assert producer_id >= 1000
    if content == b"{}" and name == "topics.json":
        assert {f.file for f in topics.findings} == {"plain-0", "plain-1", "compacted-0"}
    else:
        assert len(records(topics)) >= 109


def test_an_undamaged_folder_has_no_finding() -> None:
    for orderly in (True, False):
        topics, producer_id = loaded(folder(orderly=orderly))
        assert topics.findings == []
        assert producer_id == 1000
        assert topics.partition("plain", 1).log.log_start_offset == 11


def test_a_lost_segment_is_named_after_an_orderly_end() -> None:
    fs = folder(orderly=True)
    segments = sorted(path for path in fs.files if path.startswith("plain-1/") and path.endswith(".log"))
    fs.lose(segments[1])
    topics, _ = loaded(fs)
    assert segments[1] in {f.file for f in topics.findings}


def test_a_start_offset_beyond_the_end_hides_nothing() -> None:
    fs = folder(orderly=False)
    fs.lose("log-checkpoint.json")
    fs.write_file("log-start-offset-checkpoint", b"0\n1\nplain 1 9999\n")
    topics, _ = loaded(fs)
    assert topics.partition("plain", 1).log.end_offset == 60
    assert topics.partition("plain", 1).log.log_start_offset <= 11
    assert any("beyond its end" in str(f) for f in topics.findings)


def test_logs_that_a_full_disk_does_not_close_are_as_after_a_crash() -> None:
    fs = folder(orderly=False)
    topics, _ = loaded(fs)
    expected = records(topics)
    with fs.failing(0, 10_000):
        topics.close()
    assert not fs.exists(".kafka_cleanshutdown")
    assert records(loaded(fs)[0]) == expected


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("topics.json", b"{"),
        ("meta.properties", b"\xff"),
        ("altered-configs.json", b"[1]"),
        ("quotas.json", b"x"),
        ("scram_credentials.json", b"{"),
        ("delegation_tokens.json", b"[{}]"),
    ],
)
def test_a_file_that_cannot_be_rebuilt_is_named(tmp_path: Path, name: str, content: bytes) -> None:
    from coterie.broker.clients import quotas

    name = quotas._FILE if name == "quotas.json" else name
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UnreadableFile) as refused:
        asyncio.run(Broker(BrokerSettings(), tmp_path).start("127.0.0.1", 0))
    assert str(refused.value).startswith(f"{name} cannot be read: ")
    assert "move it away" in str(refused.value)


def test_the_command_says_it_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "topics.json").write_text("{")
    command = [sys.executable, "-m", "coterie", "broker", "--listen", "127.0.0.1:0", "--data", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"Error: {tmp_path}/topics.json cannot be read: it is not JSON; restore it")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("name", PRIVATE_FILES)
def test_a_file_with_secrets_is_for_its_owner_alone(tmp_path: Path, name: str) -> None:
    """Also one that an earlier coterie wrote for all."""
    (tmp_path / name).write_text("{}")
    (tmp_path / name).chmod(0o644)
    fs = DiskFileSystem(tmp_path, PRIVATE_FILES)
    assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
    (tmp_path / name).unlink()
    fs.write_file(name, b"{}")
    assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
    fs.write_file("topics.json", b"{}")
    (tmp_path / "other").write_text("")
    assert (tmp_path / "topics.json").stat().st_mode == (tmp_path / "other").stat().st_mode


async def test_a_broker_keeps_its_secrets_to_itself(tmp_path: Path) -> None:
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    settings = {"coterie.journal.enable": "false", "authorizer.class.name": authorizer}
    broker = Broker(BrokerSettings(settings), tmp_path)
    await broker.start("127.0.0.1", 0)
    assert broker.clients.acls is not None
    entry = Acl(AclResourceType.TOPIC, "t", PatternType.LITERAL, "User:ann", "*", AclOperation.READ, Permission.ALLOW)
    broker.clients.acls.alter([entry])
    finish(broker.clients.scram_credentials.altering([Credential("ann", 1, 4096, b"salt", b"salted")]))
    broker.kept_configs.replace({(ResourceType.BROKER, ""): {"sasl.jaas.config": "secret"}})
    await broker.stop()
    modes = {path.name: path.stat().st_mode & 0o077 for path in tmp_path.iterdir() if path.is_file()}
    assert {name for name, mode in modes.items() if not mode} == set(PRIVATE_FILES)


def test_a_failed_write_leaves_no_file_beside(tmp_path: Path) -> None:
    fs = DiskFileSystem(tmp_path)
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError, match="Is a directory"):
        fs.write_file("taken", b"x")
    assert os.listdir(tmp_path) == ["taken"]


def test_a_change_that_cannot_be_kept_is_not_in_force() -> None:
    """A full disk: a deleted topic was gone until the next start, and new settings were in force until then."""
    fs = folder(orderly=True)
    topics, _ = loaded(fs)
    topic = topics.by_name["plain"]
    with fs.failing(0, 10_000):
        with pytest.raises(Refusal) as refused:
            topics.configure(topic, {"retention.ms": "1"})
        assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        with pytest.raises(Refusal) as refused:
            finish(topics.deleting(topic))
        assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert topics.by_name["plain"].configs == {"segment.bytes": "2000"}
    assert topic.partitions[0].log.config.segment_bytes == 2000
    topics.configure(topic, {"retention.ms": "1"})
    finish(topics.deleting(topic))
    assert "plain" not in topics.by_name
