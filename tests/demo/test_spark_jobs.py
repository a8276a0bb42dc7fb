"""The demo's Spark application: two jobs in one session, and its failures as one sentence."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from coterie.client.errors import KafkaError
from coterie.demo import spark_jobs
from coterie.pipeline.offsets import DataLossError
from coterie.pipeline.sentences import sentence_of
from coterie.pipeline.session import JavaMissing
from coterie.wire.errors import ErrorCode

TOPIC, RECORDS, KEYS = "records", 600, 7
STARTS_WITHIN_S = 300.0


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (JavaMissing("Spark needs a Java runtime"), "Spark needs a Java runtime"),
        (KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no topic x"), "no topic x"),
        (
            RuntimeError("in Spark\nDataLossError: offsets 3 to 5 of t-0 are gone\nat x"),
            "offsets 3 to 5 of t-0 are gone",
        ),
    ],
)
def test_a_failure_ends_it_with_its_sentence(
    error: Exception, text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(spark_jobs, "run_jobs", fail)
    monkeypatch.setattr(sys, "argv", ["spark_jobs", "127.0.0.1:1", TOPIC, "keys", str(tmp_path), "--master", "local"])
    with pytest.raises(SystemExit) as ended:
        spark_jobs.main()
    assert text in str(ended.value.code)


def test_an_error_without_a_sentence_keeps_its_traceback() -> None:
    assert sentence_of(RuntimeError("a defect")) is None
    assert sentence_of(DataLossError("gone")) == "gone"
