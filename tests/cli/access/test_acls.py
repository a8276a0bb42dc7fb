"""`coterie acls` and `coterie quotas` against a broker with an authorizer, and one without. `coterie users`: of a
cluster, and of a file; no password on the command line, in the output or on the disk."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from coterie.cli import main
from coterie.client.blocking import BlockingAdmin
from coterie.client.errors import KafkaError
from coterie.testing import LocalBroker
from tests.cli.test_json_documents import AUTHORIZED


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker(AUTHORIZED) as broker:
        yield broker


def ran(broker: LocalBroker, line: str) -> Result:
    return CliRunner(env={"COTERIE_BOOTSTRAP_SERVER": broker.bootstrap_servers}).invoke(main, line.split())


def test_acls_are_added_explained_and_removed(broker: LocalBroker) -> None:
    assert "there are no such ACLs" in ran(broker, "acls list").output
    assert ran(broker, "acls add --principal User:a --operation read --group crew --prefixed").exit_code == 0
    assert (
        ran(broker, "acls add --principal User:b --operation all --group crew-1 --deny --host 10.0.0.0/8").exit_code
        == 0
    )
    listed = json.loads(ran(broker, "acls list --group crew-1 --json").output)
    assert [(row["permission"], row["name"], row["pattern"], row["host"]) for row in listed] == [
        ("ALLOW", "crew", "PREFIXED", "*"),
        ("DENY", "crew-1", "LITERAL", "10.0.0.0/8"),
    ]
    allowed = ran(broker, "acls why --principal User:a --operation describe --group crew-2")
    assert (allowed.exit_code, allowed.output) == (
        0,
        "allowed: an ACL allows it: ALLOW User:a READ on group crew (prefixed) from host *\n",
    )
    denied = ran(broker, "acls why --principal User:b --operation read --group crew-1 --host 10.1.2.3")
    assert denied.exit_code == 1
    assert denied.output.startswith("denied: an ACL denies it: DENY User:b ALL on group crew-1")
    nobody = ran(broker, "acls why --principal User:c --operation read --topic t --allow-everyone")
    assert (nobody.exit_code, nobody.output.split(":")[0]) == (0, "allowed")
    removed = json.loads(
        ran(broker, "acls remove --principal User:a --operation read --group crew --prefixed --json").output
    )
    assert [row["name"] for row in removed] == ["crew"]
    assert "crew-2" not in ran(broker, "acls list --group crew-2").output


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("acls add --principal User:a --operation read", "Name one resource"),
        ("acls add --principal User:a --operation read --topic t --group g", "Name one resource"),
        ("quotas set --user a", "Give a --quota"),
        ("quotas set --quota producer_byte_rate=1", "Name a --user"),
        ("quotas set --user a --quota producer_byte_rate=many", "producer_byte_rate must be a number, not 'many'."),
        (
            "acls why --principal User:a --operation read --group g --host nowhere",
            "nowhere is no address: a client is known by its IP address.",
        ),
        (
            "acls add --principal User:a --operation read --group g --host nowhere",
            "nowhere is no address and no network; an ACL about it would never apply.",
        ),
        (
            "acls add --principal User:a --operation write --group g",
            "A group has no operation write; there are all, read, delete, describe, describe_configs, alter_configs.",
        ),
    ],
)
def test_what_is_missing_is_named(broker: LocalBroker, line: str, sentence: str) -> None:
    outcome = ran(broker, line)
    assert outcome.exit_code == 2
    assert sentence in outcome.output


def test_rights_to_delegation_tokens_are_given(broker: LocalBroker) -> None:
    options = "--principal User:a --operation create_tokens --user-principal User:b"
    assert ran(broker, f"acls add {options}").exit_code == 0
    assert ran(broker, f"acls why {options}").exit_code == 0
    assert ran(broker, "acls add --principal User:a --operation describe --delegation-token id").exit_code == 0
    (row,) = json.loads(ran(broker, "acls list --user-principal User:b --json").output)
    assert (row["resource"], row["name"], row["operation"]) == ("USER", "User:b", "CREATE_TOKENS")


def test_quotas_are_set_listed_and_removed(broker: LocalBroker) -> None:
    assert ran(broker, "quotas set --user alice --client-id app --quota producer_byte_rate=1024").exit_code == 0
    assert "client-id app, user alice" in ran(broker, "quotas list").output
    removed = ran(broker, "quotas remove producer_byte_rate consumer_byte_rate --user alice --client-id app --json")
    entity = {"client-id": "app", "user": "alice"}
    assert (removed.exit_code, json.loads(removed.output)) == (
        0,
        {"entity": entity, "quotas": {"producer_byte_rate": None}},
    )
    assert "alice" not in ran(broker, "quotas list").output
    again = ran(broker, "quotas remove producer_byte_rate --user alice --client-id app")
    assert (again.exit_code, again.output) == (0, "there were no such quotas of client-id app, user alice\n")


def test_a_broker_without_an_authorizer_says_so() -> None:
    with LocalBroker() as broker:
        outcome = ran(broker, "acls list")
    assert outcome.exit_code == 1
    assert "no authorizer" in outcome.output


def ran_users(*arguments: str, given: str | None = None) -> Result:
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
            done = ran_users("add", name, "--mechanism", mechanism, "-b", address, given="secret\n")
            assert done.exit_code == 0, done.output
            assert "secret" not in done.output
        assert json.loads(ran_users("list", "-b", address, "--json").stdout) == [
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
        assert ran_users("remove", "alice", "-b", address).exit_code == 0
        with pytest.raises(KafkaError, match="SASL_AUTHENTICATION_FAILED"), BlockingAdmin(login) as admin:
            admin.describe_cluster()
        assert ran_users("remove", "alice", "-b", address).exit_code == 1


def test_users_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "users"
    assert ran_users("add", "alice", "--file", str(file), given="secret\n").exit_code == 0
    assert ran_users("add", "bob", "--mechanism", "SCRAM-SHA-256", "--file", str(file), given="word\n").exit_code == 0
    first = file.read_text()
    assert ran_users("add", "alice", "--file", str(file), given="other\n").exit_code == 0
    assert file.read_text() != first
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not any(word in file.read_text() for word in ("secret", "word", "other"))
    assert [row["user"] for row in json.loads(ran_users("list", "--file", str(file), "--json").stdout)] == [
        "alice",
        "bob",
    ]
    assert ran_users("remove", "bob", "--mechanism", "SCRAM-SHA-256", "--file", str(file)).exit_code == 0
    missing = ran_users("remove", "bob", "--file", str(file))
    assert missing.exit_code == 1
    assert "has no user bob with SCRAM-SHA-512" in missing.output


def test_a_password_has_to_be_given(tmp_path: Path) -> None:
    done = ran_users("add", "alice", "--file", str(tmp_path / "users"), given="")
    assert done.exit_code == 2
    assert "The password is missing" in done.output
