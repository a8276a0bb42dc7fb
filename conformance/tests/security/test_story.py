"""The part's machinery: what a check holds, and the clients of Python at a coterie; the part itself has Java's."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from coterie_conformance.security import clients, spark
from coterie_conformance.security.story import (
    DENIALS,
    MECHANISMS,
    OWN_ERRORS,
    PASSWORD,
    LoginCheck,
    _Lines,
    check_logins,
    checked,
)
from coterie_conformance.security.tokens import _token_of


@pytest.mark.parametrize(
    ("error", "expected", "lines", "line", "wrong"),
    [
        ("", "", [], "", ""),
        ("", "_AUTHENTICATION", ["x is refused (PLAIN)"], "is refused (PLAIN)", "the client reports nothing"),
        ("_SSL", "", [], "", "the client reports _SSL, not nothing"),
        ("", "", ["a line"], "", "the broker's log has ['a line']"),
        ("e", "e", ["another line"], "is refused", "the broker's log has ['another line']"),
        ("e", "e", [f"is refused: {PASSWORD}"], "is refused", "the broker's log has a secret"),
    ],
)
def test_what_is_wrong_with_a_login(error: str, expected: str, lines: list[str], line: str, wrong: str) -> None:
    log = _Lines()
    log.lines = lines
    check = checked("c", "case", error, expected, log, line)
    assert check.wrong.startswith(wrong)
    assert bool(check.wrong) == bool(wrong)


@pytest.mark.slow
def test_clients_of_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "java", lambda version, folder: clients.librdkafka)
    monkeypatch.setattr(spark, "spark_connector", lambda folder: nullcontext(clients.librdkafka))
    for name in ("kafkajs", "franz_go", "sarama"):
        monkeypatch.setattr(clients, name, lambda: clients.aiokafka)
    checks: list[LoginCheck] = check_logins("4.3.0", tmp_path / "logins", lambda check: None)
    without_transactions = 1  # Spark
    assert len(checks) == len(OWN_ERRORS) * (2 * len(MECHANISMS) + 1 + len(DENIALS) + 2 + 3) - without_transactions
    of_python = [check for check in checks if check.client in ("librdkafka", "aiokafka")]
    assert [check for check in of_python if check.wrong] == []


def test_the_token_of_what_the_tool_prints() -> None:
    printed = "Created\n\nTOKENID         HMAC     OWNER\n\nAbC aGk= User:alice\n[main] INFO x\n"
    assert _token_of(printed) == ("AbC", "aGk=")
    assert _token_of("Error while executing\n") == ("", "")
