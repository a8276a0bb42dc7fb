"""The clients, and how each one's program is started."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from coterie_conformance.clients.programs import PROGRAMS, environment
from coterie_conformance.cluster.java_load import ClientLoad, JavaClients, JavaLoad
from coterie_conformance.cluster.mixed import VERSION
from coterie_conformance.servers.kafka import jars

MEMBERS = 3
_SOURCES = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class GroupTopic:
    """What a client's group works on."""

    bootstrap: str
    topic: str
    partitions: int
    group: str
    log: Path
    polled: Callable[[int], None]
    committed: Callable[[], None]


@dataclass(frozen=True, slots=True)
class GroupProgram:
    """A client. ``member`` begins the names of its members in the history; ``prepare`` installs it the first time, and raises
    CannotRun."""

    name: str
    member: str
    prepare: Callable[[], object]
    start: Callable[[GroupTopic], ClientLoad]


def _java(work: GroupTopic) -> ClientLoad:
    clients = JavaClients(writers=1, readers=0, members=MEMBERS, group=work.group)
    return JavaLoad(
        work.bootstrap, work.topic, work.partitions, clients, log=work.log, polled=work.polled, committed=work.committed
    )


def _python(name: str, installed: str, module: str) -> GroupProgram:
    """``installed``: of `PROGRAMS`, each of which has an environment of its own."""
    client = next(program for program in PROGRAMS if program.name == installed)

    def start(work: GroupTopic) -> ClientLoad:
        python = environment(client)[0]
        arguments = (work.bootstrap, work.topic, str(work.partitions), str(MEMBERS), work.group)
        command = [python, "-m", f"coterie_conformance.cluster_clients.{module}", *arguments]
        variables = {**os.environ, "PYTHONPATH": str(_SOURCES)}
        return ClientLoad(command, work.topic, work.log, work.polled, work.committed, variables)

    return GroupProgram(name, f"{name}-member-", partial(environment, client), start)


GROUP_PROGRAMS = {
    "confluent-kafka": _python("confluent-kafka", "confluent-kafka", "confluent_work"),
    "aiokafka": _python("aiokafka", "aiokafka", "aiokafka_work"),
    "kafka-python": _python("kafka-python", "kafka-python 3.0", "kafka_python_work"),
    "java": GroupProgram(f"Java {VERSION}", "java-member-", partial(jars, VERSION), _java),
}
