"""One Spark session for all, and a broker in a process of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.broker_process import BrokerProcess

# Of a plan that runs once, Spark's code generation takes longer than its run. The jobs that make a session of their own, of the
# demo, the tutorial and the examples, have it.
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from coterie.pipeline.session import make_session

    session = make_session("local[2]", "coterie-tests", tmp_path_factory.mktemp("spark"), short=True, more=INTERPRETED)
    yield session
    for query in session.streams.active:
        query.stop()
    session.stop()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path / "data")
    yield process
    process.stop()
