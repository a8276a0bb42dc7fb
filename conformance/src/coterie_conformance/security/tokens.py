"""Delegation tokens by Kafka's own tools: created, a login by it and by Spark's connector, no further token by it, described,
renewed, expired, and then refused."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from coterie_conformance.security import clients
from coterie_conformance.security.clients import spark_connector
from coterie_conformance.security.story import (
    LoginCheck,
    LoginFiles,
    broker_log,
    checked,
    create_words,
    sasl_broker,
    settings_of,
)
from coterie_conformance.servers.kafka import jars

MECHANISM = "SCRAM-SHA-512"
SECRET = {"delegation.token.secret.key": "a-secret-of-the-brokers"}
CLIENT = "java, delegation token"


def check_tokens(version: str, folder: Path, report: Callable[[LoginCheck], None]) -> list[LoginCheck]:
    """Java's tools and client are those of the version. Raises CannotRun."""
    folder.mkdir(parents=True, exist_ok=True)
    files, attempt, checks = LoginFiles(folder), clients.java(version, folder), list[LoginCheck]()

    def note(case: str, error: str, expected: str = "", line: str = "") -> None:
        checks.append(checked(CLIENT, case, error, expected, log, line))
        report(checks[-1])

    with (
        spark_connector(folder) as connector,
        sasl_broker(files, files.broker, SECRET) as broker,
        broker_log() as log,
    ):
        alice = settings_of(files, broker, MECHANISM)
        created = _tool(version, folder, alice, "--create", "--max-life-time-period", "-1")
        token_id, hmac = _token_of(created)
        note("created by kafka-delegation-tokens", "" if hmac else created)
        by_token = alice | {"sasl.username": token_id, "sasl.password": hmac, "is.token": "true"}
        note("a login by it", attempt(by_token))
        further = _tool(version, folder, by_token, "--create", "--max-life-time-period", "-1")
        note("creates no other", _error_of(further), "DelegationTokenNotAllowed")
        described = _tool(version, folder, alice, "--describe", "--owner-principal", "User:alice")
        note("described by kafka-delegation-tokens", "" if _token_of(described) == (token_id, hmac) else described)
        renewed = _tool(version, folder, alice, "--renew", "--renew-time-period", "-1", "--hmac", hmac)
        note("renewed by kafka-delegation-tokens", "" if "Completed renew operation" in renewed else renewed)
        note("a login by it once it is renewed", attempt(by_token))
        create_words(alice)
        note("Spark's connector reads and writes by it", connector(by_token))
        expired = _tool(version, folder, alice, "--expire", "--expiry-time-period", "-1", "--hmac", hmac)
        note("expired by kafka-delegation-tokens", "" if "Completed expire operation" in expired else expired)
        refused = "SaslAuthenticationException", "is refused ("
        note("a login by it once it has ended", attempt(by_token), *refused)
        note("Spark's connector once it has ended", connector(by_token), *refused)
    return checks


def _tool(version: str, folder: Path, settings: clients.Settings, *words: str) -> str:
    """What kafka-delegation-tokens prints."""
    file = clients.write_properties(settings, folder)
    command = ["java", "-cp", f"{jars(version)}/*", "org.apache.kafka.tools.DelegationTokenCommand"]
    command += ["--bootstrap-server", settings["bootstrap.servers"], "--command-config", str(file), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * clients.TIMEOUT_S, check=False)
    return done.stdout + done.stderr


def _token_of(printed: str) -> tuple[str, str]:
    """Its id and its HMAC, which are the first two columns below the heading; empty where there is none."""
    lines = [words for line in printed.splitlines() if len(words := line.split()) > 1]
    rows = [words for words, before in zip(lines[1:], lines, strict=False) if before[:2] == ["TOKENID", "HMAC"]]
    return (rows[0][0], rows[0][1]) if rows else ("", "")


def _error_of(printed: str) -> str:
    """The error of a creation."""
    return "DelegationTokenNotAllowed" if "requests are not allowed" in printed else printed
