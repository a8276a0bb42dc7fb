"""The part's machinery: what a check holds, and the clients of Python at a coterie; the part itself has Java's."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie_conformance.security import clients
from coterie_conformance.security.story import (
    DENIALS,
    MECHANISMS,
    PASSWORD,
    LoginFiles,
    _Lines,
    checked,
    logins_of,
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
@pytest.mark.parametrize(("client", "attempt"), [("librdkafka", clients.librdkafka), ("aiokafka", clients.aiokafka)])
def test_a_client_of_python(client: str, attempt: clients.Attempt, tmp_path: Path) -> None:
    checks = list(logins_of(LoginFiles(tmp_path), client, attempt))
    assert len(checks) == 2 * len(MECHANISMS) + 1 + len(DENIALS) + 2 + 3
    assert [check for check in checks if check.wrong] == []


def test_the_token_of_what_the_tool_prints() -> None:
    printed = "Created\n\nTOKENID         HMAC     OWNER\n\nAbC aGk= User:alice\n[main] INFO x\n"
    assert _token_of(printed) == ("AbC", "aGk=")
    assert _token_of("Error while executing\n") == ("", "")
