"""The clients of the part, each with a small program that is a consumer or a producer by its first argument.

A program processes a record by printing it, then commits; an error of a commit is logged, and the records are read again. It
has the client's defaults but for what that needs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from coterie.certify.client.history import DeliveryPromise
from coterie.certify.client.story import CONSUMER, PRODUCER
from coterie_conformance.clients.programs import PROGRAMS, environment
from coterie_conformance.servers.kafka import jars
from coterie_conformance.servers.programs import FRANZ_GO, go_program, java_program

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class CertifiedProgram:
    """``prepare(folder)`` builds it and returns its command without a role. It raises CannotRun. ``settings``: its further
    arguments. ``produces``: what the producer's settings promise. ``is_jvm``: each of its starts works for a second."""

    name: str
    prepare: Callable[[Path], list[str]]
    settings: Sequence[str] = ()
    roles: Sequence[str] = (CONSUMER, PRODUCER)
    produces: DeliveryPromise = DeliveryPromise.EXACTLY_ONCE
    is_jvm: bool = False

    def promise(self, role: str) -> DeliveryPromise:
        """What its settings promise."""
        return self.produces if role == PRODUCER else DeliveryPromise.AT_LEAST_ONCE


def _java(version: str) -> Callable[[Path], list[str]]:
    def prepare(folder: Path) -> list[str]:
        options = ("-XX:+UseSerialGC", "-Xshare:auto")
        return java_program(HERE / "CertifiedClient.java", jars(version), folder / version, heap="96m", options=options)

    return prepare


def _installed(name: str, script: str) -> Callable[[Path], list[str]]:
    """In the environment that the part `clients` has for that client."""

    def prepare(_: Path) -> list[str]:
        program, *words = environment(next(program for program in PROGRAMS if program.name == name))
        return [program, str(HERE / script), *(words[1:] if script.endswith(".js") else ())]

    return prepare


def _go(script: str, *modules: str) -> Callable[[Path], list[str]]:
    return lambda _: [str(go_program(HERE / script, *modules, beside=[HERE / "lines.go"]))]


def _packages(name: str) -> tuple[str, ...]:
    return next(program.packages for program in PROGRAMS if program.name == name)


def _ours(_: Path) -> list[str]:
    return [sys.executable, str(HERE / "our_program.py")]


_NEXT = ("group.protocol=consumer",)
CERTIFIED_PROGRAMS = (
    CertifiedProgram("Java 3.9.1", _java("3.9.1"), is_jvm=True),
    CertifiedProgram("Java 4.3.0", _java("4.3.0"), is_jvm=True),
    CertifiedProgram("Java 4.3.0, KIP-848", _java("4.3.0"), _NEXT, (CONSUMER,), is_jvm=True),
    CertifiedProgram("librdkafka", _installed("confluent-kafka", "confluent_program.py"), ("enable.idempotence=true",)),
    CertifiedProgram("librdkafka, KIP-848", _installed("confluent-kafka", "confluent_program.py"), _NEXT, (CONSUMER,)),
    CertifiedProgram("aiokafka", _installed("aiokafka", "aiokafka_program.py")),
    CertifiedProgram("kafkajs", _installed("kafkajs", "kafkajs_program.js")),
    CertifiedProgram("franz-go", _go("franz_go_program.go", f"github.com/twmb/franz-go/pkg/kgo@{FRANZ_GO}")),
    CertifiedProgram("sarama", _go("sarama_program.go", *_packages("sarama"))),
    CertifiedProgram(
        "kafka-go", _go("kafka_go_program.go", *_packages("kafka-go")), produces=DeliveryPromise.AT_LEAST_ONCE
    ),
    CertifiedProgram("kafka-python", _installed("kafka-python 3.0", "kafka_python_program.py")),
    CertifiedProgram("platformatic", _installed("platformatic-kafka", "platformatic_program.js")),
    CertifiedProgram("coterie", _ours),
    CertifiedProgram("coterie, KIP-848", _ours, _NEXT, (CONSUMER,)),
)
