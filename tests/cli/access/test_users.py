"""`coterie users`: of a cluster, and of a file; no password on the command line, in the output or on the disk."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from coterie.cli import main
from coterie.client.blocking import BlockingAdmin
from coterie.client.errors import KafkaError
from coterie.testing import LocalBroker


def ran(*arguments: str, given: str | None = None) -> Result:
    return CliRunner().invoke(main, ["users", *arguments], input=given)


def test_users_of_a_broker_log_in() -> None:
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512,SCRAM-SHA-256",
        "connection.failed.authentication.delay.ms": "0",
    }
    with LocalBroker(settings) as broker:
        address = broker.bootstrap_servers
        for name, mechanism in (("alice", "SCRAM-SHA-512"), ("bob", "SCRAM-SHA-256")):
            done = ran("add", name, "--mechanism", mechanism, "-b", address, given="secret\n")
            assert done.exit_code == 0, done.output
            assert "secret" not in done.output
        assert json.loads(ran("list", "-b", address, "--json").stdout) == [
            {"user": "alice", "mechanism": "SCRAM-SHA-512", "iterations": 4096},
            {"user": "bob", "mechanism": "SCRAM-SHA-256", "iterations": 4096},
        ]
        login = {
            "bootstrap.servers": f"127.0.0.1:{broker.broker.listeners[1].port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "alice",
            "sasl.password": "secret",
        }
        with BlockingAdmin(login) as admin:
            assert admin.describe_cluster().nodes[0].port == broker.broker.listeners[1].port
        assert ran("remove", "alice", "-b", address).exit_code == 0
        with pytest.raises(KafkaError, match="SASL_AUTHENTICATION_FAILED"), BlockingAdmin(login) as admin:
            admin.describe_cluster()
        assert ran("remove", "alice", "-b", address).exit_code == 1


def test_users_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "users"
    assert ran("add", "alice", "--file", str(file), given="secret\n").exit_code == 0
    assert ran("add", "bob", "--mechanism", "SCRAM-SHA-256", "--file", str(file), given="word\n").exit_code == 0
    first = file.read_text()
    assert ran("add", "alice", "--file", str(file), given="other\n").exit_code == 0
    assert file.read_text() != first
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not any(word in file.read_text() for word in ("secret", "word", "other"))
    assert [row["user"] for row in json.loads(ran("list", "--file", str(file), "--json").stdout)] == ["alice", "bob"]
    assert ran("remove", "bob", "--mechanism", "SCRAM-SHA-256", "--file", str(file)).exit_code == 0
    missing = ran("remove", "bob", "--file", str(file))
    assert missing.exit_code == 1
    assert "has no user bob with SCRAM-SHA-512" in missing.output


def test_a_password_has_to_be_given(tmp_path: Path) -> None:
    done = ran("add", "alice", "--file", str(tmp_path / "users"), given="")
    assert done.exit_code == 2
    assert "The password is missing" in done.output
