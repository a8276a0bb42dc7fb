"""The application of Kafka Streams: `WordCounts.java`, built once, and its instances."""

from __future__ import annotations

from pathlib import Path

from coterie_conformance.servers.java_process import JavaProcess, java_program
from coterie_conformance.servers.kafka import SIMPLE_LOGGER, maven_jars

APPLICATION = "word-counts"
_SOURCE = Path(__file__).with_name("WordCounts.java")


def built(version: str, folder: Path) -> list[str]:
    """The command of the program for that version of Kafka Streams, without its arguments. Raises CannotRun."""
    wanted = [("org.apache.kafka", "kafka-streams", version), SIMPLE_LOGGER]
    lib = maven_jars(f"kafka-streams-{version}", wanted)
    return java_program(_SOURCE, lib, folder)


def instance(command: list[str], server: str, folder: Path, guarantee: str, protocol: str = "classic") -> JavaProcess:
    """A process of the application, which keeps its state in ``folder``. ``protocol`` is that of its group."""
    arguments = [server, APPLICATION, str(folder), guarantee, protocol]
    return JavaProcess([*command, *arguments], folder.with_name(f"{folder.name}.log"))
