"""Settings in a user's program, checked by mypy: the TypedDicts agree with the table, and a plain mapping is taken as well."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import coterie.client
from tests.client import typed_settings_source

ROOT = Path(__file__).parents[2]
PROGRAM = """
from collections.abc import Mapping
from coterie.client import (
    Admin, AdminSettings, Assignor, Consumer, ConsumerSettings, Producer, ProducerSettings, StringSerializer
)
from coterie.client.blocking import BlockingConsumer

consumer: ConsumerSettings = {
    "bootstrap.servers": ["a:1", "b:2"],
    "group.id": "g",
    "session.timeout.ms": 6000,
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
}
producer: ProducerSettings = {"bootstrap.servers": "a:1", "acks": 1, "partitioner": lambda topic, key, count: 0}
admin: AdminSettings = {"security.protocol": "SSL", "ssl.truststore.location": None}
texts: dict[str, str] = {"session.timeout.ms": "6000"}
Consumer(consumer), Producer(producer), Admin(admin)
Consumer(texts), Producer(texts), Admin(texts)
Consumer({"group.id": "g", "max.poll.records": 5}), Consumer(texts | {"a": "b"})
more = {"transactional.id": "t", "linger.ms": 5}
Producer({"bootstrap.servers": "a:1"} | more), BlockingConsumer(consumer)
def make(given: Mapping[str, object]) -> Consumer: return Consumer(given)
class Mine(Assignor): pass
named: ConsumerSettings = {"value.deserializer": "StringDeserializer", "key.deserializer": bytes.decode}
by_class: ProducerSettings = {"value.serializer": StringSerializer, "key.serializer": StringSerializer()}
wrong_serializer: ProducerSettings = {"value.serializer": 5}  # wrong
own: ConsumerSettings = {"partition.assignment.strategy": [Mine, "range"]}
wrong_assignor: ConsumerSettings = {"partition.assignment.strategy": [5]}  # wrong
wrong_name: ConsumerSettings = {"session.timeout": 6000}  # wrong
wrong_type: ConsumerSettings = {"session.timeout.ms": "6 s"}  # wrong
wrong_word: ConsumerSettings = {"auto.offset.reset": "first"}  # wrong
of_another_client: ConsumerSettings = {"linger.ms": 5}  # wrong
wrong_function: ProducerSettings = {"partitioner": lambda topic: 0}  # wrong
Consumer(["group.id"])  # wrong
"""


def test_the_typed_dicts_are_made_of_the_table() -> None:
    """`python -m tests.client.typed_settings_source` writes them anew."""
    assert typed_settings_source.FILE.read_text("utf-8") == typed_settings_source.source()


def test_mypy_finds_each_wrong_setting_and_nothing_else(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--no-error-summary",
        "--disable-error-code=func-returns-value",
        str(program),
    ]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    wrong = {number for number, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith("# wrong")}
    reported = {int(number) for number in re.findall(r"program\.py:(\d+): error", printed)}
    assert reported == wrong, printed


def test_the_keys_are_the_settings_of_each_client() -> None:
    keys = coterie.client.ConsumerSettings.__annotations__.keys()
    assert {"group.id", "bootstrap.servers", "sasl.password"} <= keys
    assert not {"acks", "linger.ms"} & keys
    assert coterie.client.AdminSettings.__annotations__.keys() < coterie.client.ProducerSettings.__annotations__.keys()
