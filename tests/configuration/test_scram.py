"""SCRAM logins beside ScramFormatter of Apache Kafka 4.3.0: the bytes of a password are its UTF-8, without SASLprep."""

from __future__ import annotations

import pytest

from coterie.client.errors import KafkaError
from coterie.client.scram import scram
from tests.configuration.java import PASSWORDS, recorded

LOGINS = [
    (mechanism, password, response) for mechanism, password, response in recorded("scram") if response is not None
]


@pytest.mark.parametrize(("mechanism", "password", "response"), LOGINS)
def test_a_login_sends_what_kafkas_client_sends(mechanism: str, password: str, response: list[str]) -> None:
    client_first, server_first, client_final, server_final = (part.encode() for part in response)
    exchange = scram(mechanism, password, password, "nonce")
    assert next(exchange) == client_first
    assert exchange.send(server_first) == client_final
    with pytest.raises(StopIteration):
        exchange.send(server_final)


def test_java_has_no_login_with_an_empty_password_only() -> None:
    refused = {password for _, password, response in recorded("scram") if response is None}
    assert refused == {""}
    assert len(LOGINS) == 2 * (len(PASSWORDS) - 1)


def test_another_password_is_another_login() -> None:
    mechanism, _, response = next(login for login in LOGINS if login[1] == "p\u00e4ss\u00df")
    exchange = scram(mechanism, "p\u00e4ss\u00df", "pa\u0308ss\u00df", "nonce")
    next(exchange)
    assert exchange.send(response[1].encode()) != response[2].encode()
    with pytest.raises(KafkaError, match="does not know the password"):
        exchange.send(response[3].encode())
