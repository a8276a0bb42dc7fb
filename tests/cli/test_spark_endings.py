"""How a command on Spark ends where it is interrupted."""

from __future__ import annotations

import logging
import os
import signal
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from coterie.cli.pipeline.spark import INTERRUPTED, run_on_spark

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_jvm_is_silent_before_the_tasks_are_cut_off(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks that lose their files under them wrote a trace each, as at a SIGTERM of `pipeline what-if`."""
    pytest.importorskip("pyspark")
    calls: list[str] = []
    context = SimpleNamespace(
        setLogLevel=lambda level: calls.append(f"log level {level}"), cancelAllJobs=lambda: calls.append("cancel")
    )
    session = SimpleNamespace(sparkContext=context, stop=lambda: calls.append("stop"))
    monkeypatch.setattr("coterie.pipeline.session.make_session", lambda *_, **__: session)

    def interrupted(_: Any) -> NoReturn:
        os.kill(os.getpid(), number)
        raise AssertionError("the signal was not taken")

    try:
        with pytest.raises(SystemExit) as ended:
            run_on_spark("local[1]", interrupted)
    finally:
        logging.disable(logging.NOTSET)
    assert ended.value.code == INTERRUPTED
    assert calls == ["log level OFF", "cancel", "stop"]
