"""The versions that Apache Kafka 4 has dropped, and kio with it, beside kafka-python's older codec."""

from __future__ import annotations

import importlib
import io
import pkgutil
import random
from typing import Any

import kafka.protocol.old
import pytest

from coterie.wire.apis import APIS
from coterie.wire.declaration import Message
from coterie_conformance.fuzzing.inputs import random_struct
from tests.wire.test_codec import kio_type

OLD_APIS = {0: 2, 1: 3, 2: 0, 19: 1, 20: 0, 32: 0, 23: 1}  # api key -> the newest version that kio lacks
MODULES = [
    importlib.import_module(f"{kafka.protocol.old.__name__}.{module.name}")
    for module in pkgutil.iter_modules(kafka.protocol.old.__path__)
]
VERSIONS = [
    (message, version)
    for key, newest in OLD_APIS.items()
    for message in (APIS[key].request, APIS[key].response)
    for version in range(newest + 1)
]


def their_type(message: type[Message], version: int) -> Any:
    name = f"{message.__name__}_v{version}"
    return next(getattr(module, name) for module in MODULES if hasattr(module, name))


@pytest.mark.parametrize(("message", "version"), VERSIONS, ids=lambda x: x.__name__ if isinstance(x, type) else f"v{x}")
def test_another_codec_reads_and_writes_the_same_bytes(message: type[Message], version: int) -> None:
    other = their_type(message, version)
    rng = random.Random(f"old-{message.__name__}-{version}")
    for _ in range(5):
        value = random_struct(message, version, rng)
        data = value.encode(version)
        assert other.decode(io.BytesIO(data)).encode() == data
        assert message.decode(data, version) == value


def test_kio_does_not_have_these() -> None:
    assert [(m.__name__, v) for m, v in VERSIONS if kio_type(m, v) is not None] == []
