"""The application of Kafka Streams: `WordCounts.java`, built once, and its instances."""

from __future__ import annotations

from pathlib import Path

from coterie_conformance.servers.go_programs import BUILD_LIMIT_S
from coterie_conformance.servers.java_process import JavaProcess, need_javac
from coterie_conformance.servers.kafka import SIMPLE_LOGGER, CannotRun, maven_jars
from coterie_conformance.tools.programs import output_of

APPLICATION = "word-counts"
_SOURCE = Path(__file__).with_name("WordCounts.java")


def built(version: str, folder: Path) -> list[str]:
    """The command of the program for that version of Kafka Streams, without its arguments. Raises CannotRun."""
    wanted = [("org.apache.kafka", "kafka-streams", version), SIMPLE_LOGGER]
    lib = maven_jars(f"kafka-streams-{version}", wanted)
    need_javac()
    exit_code, printed = output_of(["javac", "-cp", f"{lib}/*", "-d", str(folder), str(_SOURCE)], folder, BUILD_LIMIT_S)
    if exit_code:
        raise CannotRun(f"javac failed: {printed}")
    log_level = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    return ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", log_level, "-cp", f"{folder}:{lib}/*", "WordCounts"]


def instance(command: list[str], server: str, folder: Path, guarantee: str, protocol: str = "classic") -> JavaProcess:
    """A process of the application, which keeps its state in ``folder``. ``protocol`` is that of its group."""
    arguments = [server, APPLICATION, str(folder), guarantee, protocol]
    return JavaProcess([*command, *arguments], folder.with_name(f"{folder.name}.log"))
