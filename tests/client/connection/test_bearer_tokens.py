"""OAUTHBEARER as a client has it, and the end of a login's time, both beside the broker's own listener."""

from __future__ import annotations

import base64
import json
import pickle
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coterie.client.blocking import BlockingAdmin
from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.client.errors import ConfigError, KafkaError
from coterie.client.settings.settings import client_settings
from coterie.testing import LocalBroker
from coterie.wire.messages.topics.metadata import MetadataRequest

BASE = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}


def unsigned(expires_s: float = 60.0) -> str:
    parts = [{"alg": "none"}, {"sub": "alice", "exp": int(time.time() + expires_s)}]
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + "."


@pytest.fixture
def broker() -> Iterator[LocalBroker]:
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "coterie.sasl.oauthbearer.unsecured.enable": "true",
        "connection.failed.authentication.delay.ms": "0",
    }
    with LocalBroker(settings) as running:
        yield running


def brokers_of(broker: LocalBroker, settings: dict[str, Any]) -> int:
    with BlockingAdmin(BASE | {"bootstrap.servers": broker.bootstrap_servers} | settings) as admin:
        return len(admin.describe_cluster().nodes)


def test_a_token_of_a_function_and_of_a_file(broker: LocalBroker, tmp_path: Path) -> None:
    """The function is called for each login; the file is read for each."""
    calls = []

    def token() -> str:
        calls.append(1)
        return unsigned()

    assert brokers_of(broker, {"sasl.oauthbearer.token.callback": token}) == 1
    assert calls
    file = tmp_path / "token"
    file.write_text(unsigned() + "\n")
    by_file = {"sasl.oauthbearer.token.endpoint.url": f"file://{file}"}
    assert brokers_of(broker, by_file) == 1
    security = pickle.loads(pickle.dumps(client_settings(BASE | by_file).security()))  # for a task of Spark
    socket = BrokerSocket(broker.host, broker.port, security=security)
    assert socket.request(MetadataRequest([])).brokers
    socket.close()


def test_a_token_that_is_refused(broker: LocalBroker) -> None:
    with pytest.raises(KafkaError, match="SASL_AUTHENTICATION_FAILED: authentication failed: the token has expired"):
        brokers_of(broker, {"sasl.oauthbearer.token.callback": lambda: unsigned(-60)})


def test_a_token_that_is_not_there(broker: LocalBroker) -> None:
    def token() -> str:
        raise OSError("the issuer is away")

    with pytest.raises(KafkaError, match="there is no token for OAUTHBEARER: OSError: the issuer is away"):
        brokers_of(broker, {"sasl.oauthbearer.token.callback": token})


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({}, "needs sasl.oauthbearer.token.callback or sasl.oauthbearer.token.endpoint.url"),
        ({"sasl.oauthbearer.token.endpoint.url": "https://issuer"}, "must be file:///PATH here, not https://issuer"),
        ({"sasl.oauthbearer.token.callback": "text"}, "must be a function without arguments"),
    ],
)
def test_settings_without_a_token(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        client_settings(BASE | settings).security()


@pytest.mark.slow
def test_a_connection_is_replaced_before_its_login_ends(broker: LocalBroker) -> None:
    """KIP-368, in the client's way: it waits for no response then."""
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "sasl.oauthbearer.token.callback": lambda: unsigned(3.0),
    }
    with BlockingAdmin(BASE | settings) as admin:
        limit_s = time.monotonic() + 60
        while broker.requested("SaslHandshake") < 3 and time.monotonic() < limit_s:
            assert admin.describe_cluster().nodes
    assert broker.requested("SaslHandshake") >= 3
