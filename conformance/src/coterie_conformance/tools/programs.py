"""Programs of Kafka's world beside its own tools in part `tools`: Spring's KafkaAdmin, franz-go's guess at a broker's version
(Go), and MirrorMaker 2. Each is a function of a broker's address and a folder of its own that returns what is compared.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

from coterie.client import Admin, Consumer, KafkaError, Producer
from coterie_conformance.client.checks import read, until
from coterie_conformance.servers.kafka import SIMPLE_LOGGER, end, maven_jars
from coterie_conformance.servers.programs import FRANZ_GO, go_program

SPRING, MIRROR = "3.3.4", "3.9.1"
KADM = "v1.19.0"
PROGRAM_LIMIT_S = 180.0
NO_END = 124  # the exit code of a program that was killed after its limit, as timeout(1) has it
MIRRORED_RECORDS = 20
EARLIEST = -2  # the start of the log, to ListOffsets
Printed = tuple[int, str]  # exit code, output


def spring_kafka_admin(server: str, folder: Path) -> Printed:
    """A topic that names min.insync.replicas, altered once. Raises CannotRun."""
    lib = maven_jars(
        f"spring-kafka-{SPRING}",
        [("org.springframework.kafka", "spring-kafka", SPRING), ("org.slf4j", "slf4j-simple", "2.0.16")],
    )
    source = Path(__file__).with_name("SpringTopics.java")
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    return output_of(["java", "-Xmx256m", quiet, "-cp", f"{lib}/*", str(source), server], folder)


def franz_go_version_guess(server: str, folder: Path) -> Printed:
    """The version that franz-go takes the broker for, by its ApiVersions. Raises CannotRun."""
    program = go_program(
        Path(__file__).with_name("version_guess.go"),
        f"github.com/twmb/franz-go@{FRANZ_GO}",
        f"github.com/twmb/franz-go/pkg/kadm@{KADM}",
    )
    return output_of([str(program), server], folder)


def output_of(command: list[str], folder: Path, limit_s: float = PROGRAM_LIMIT_S) -> Printed:
    """Of a program that is killed after ``limit_s``, the exit code `NO_END`."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            check=False,
            timeout=limit_s,
        )
    except subprocess.TimeoutExpired:
        return NO_END, f"no end within {limit_s:g} s"
    return done.returncode, done.stdout


# -- MirrorMaker 2 -----------------------------------------------------------------------------------------------------

_MIRROR_SETTINGS = """clusters = source, target
source.bootstrap.servers = {server}
target.bootstrap.servers = {server}
source->target.enabled = true
source->target.topics = mirrored
source->target.groups = mirrored-.*
source->target.emit.heartbeats.enabled = false
target->source.enabled = false
target->source.emit.heartbeats.enabled = false
replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset-syncs.topic.replication.factor = 1
offset.storage.replication.factor = 1
offset.storage.partitions = 1
status.storage.replication.factor = 1
status.storage.partitions = 1
config.storage.replication.factor = 1
refresh.topics.interval.seconds = 2
refresh.groups.interval.seconds = 2
sync.topic.configs.interval.seconds = 2
sync.topic.acls.interval.seconds = 2
sync.group.offsets.enabled = true
sync.group.offsets.interval.seconds = 2
emit.checkpoints.interval.seconds = 2
"""
_BEFORE = {"retention.ms": "-1", "min.insync.replicas": "1", "compression.type": "gzip"}
_AFTER = {"retention.ms": "-1", "min.insync.replicas": "1", "compression.type": "zstd"}
_MIRROR_TOPIC = "source.mirrored"
_ERROR_LINE = re.compile(r"^\[.*\] ERROR (org\.apache\.kafka\.connect\.mirror\.\S+)", re.MULTILINE)


def mirror_maker(server: str, folder: Path) -> Printed:
    """MirrorMaker 2 from the broker to itself: records, settings before and after a change, and which of its own classes
    logged an error. Raises CannotRun."""
    wanted = [("org.apache.kafka", name, MIRROR) for name in ("connect-mirror", "connect-runtime")]
    lib = maven_jars(f"connect-mirror-{MIRROR}", [*wanted, SIMPLE_LOGGER])
    folder.mkdir(parents=True, exist_ok=True)
    settings, log = folder / "mirror.properties", folder / "mirror.log"
    settings.write_text(_MIRROR_SETTINGS.format(server=server))
    asyncio.run(_make_mirrored(server))
    command = ["java", "-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{lib}/*"]
    command += ["org.apache.kafka.connect.mirror.MirrorMaker", str(settings)]
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, cwd=folder)
        try:
            lines = asyncio.run(_watch_mirror(server))
        except (AssertionError, KafkaError) as failure:
            lines = [str(failure)]
        finally:
            end([process])
    errors = sorted(set(_ERROR_LINE.findall(log.read_text(errors="replace"))))
    return 0, "\n".join([*lines, *(f"error logged by {name}" for name in errors)])


async def _make_mirrored(server: str) -> None:
    async with Admin({"bootstrap.servers": server}) as admin:
        await admin.create_topic("mirrored", 2, _BEFORE)

        async def led() -> bool:
            topics = await admin.describe_topics(["mirrored"])
            return "mirrored" in topics and [p.leader is not None for p in topics["mirrored"].partitions] == [
                True,
                True,
            ]

        await until(led, "mirrored has leaders")
    async with Producer({"bootstrap.servers": server}) as producer:
        for n in range(MIRRORED_RECORDS):
            await producer.send("mirrored", b"value-%d" % n, partition=n % 2)


async def _watch_mirror(server: str) -> list[str]:
    lines, partitions = list[str](), [(_MIRROR_TOPIC, p) for p in range(2)]
    async with Admin({"bootstrap.servers": server}) as admin:

        async def readable() -> bool:
            # Kafka's metadata has a topic a moment before its partitions have leaders.
            with contextlib.suppress(KafkaError):
                return len(await admin.list_offsets(dict.fromkeys(partitions, EARLIEST))) == len(partitions)
            return False

        async def altered() -> bool:
            return await _settings(admin, _AFTER) == _AFTER

        await until(readable, f"{_MIRROR_TOPIC} can be read", PROGRAM_LIMIT_S)
        async with Consumer({"bootstrap.servers": server, "auto.offset.reset": "earliest"}) as consumer:
            await consumer.assign(partitions)
            lines += sorted(str(record.value) for record in await read(consumer, MIRRORED_RECORDS))
        lines.append(f"settings: {await _settings(admin, _BEFORE)}")
        await admin.incremental_alter_configs("mirrored", {"compression.type": "zstd"})
        await until(altered, f"{_MIRROR_TOPIC} has the altered setting")
        lines.append(f"settings: {await _settings(admin, _AFTER)}")
    return lines


async def _settings(admin: Admin, names: dict[str, str]) -> dict[str, str | None]:
    configs = await admin.describe_configs(_MIRROR_TOPIC)
    return {name: configs[name].value if name in configs else None for name in names}


PROGRAMS: dict[str, Callable[[str, Path], Printed]] = {
    "spring-kafka-admin": spring_kafka_admin,
    "franz-go-version-guess": franz_go_version_guess,
    "mirror-maker-2": mirror_maker,
}
