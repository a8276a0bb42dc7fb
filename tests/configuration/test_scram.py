"""SCRAM logins beside ScramFormatter of Apache Kafka 4.3.0: the bytes of a password are its UTF-8, without SASLprep."""

from __future__ import annotations

import pytest

from coterie.client.errors import KafkaError
from coterie.client.scram import scram
from tests.configuration.java import PASSWORDS, recorded

LOGINS = [(mechanism, password, answer) for mechanism, password, answer in recorded("scram") if answer is not None]


@pytest.mark.parametrize(("mechanism", "password", "answer"), LOGINS)
def test_a_login_sends_what_kafkas_client_sends(mechanism: str, password: str, answer: list[str]) -> None:
    client_first, server_first, client_final, server_final = (part.encode() for part in answer)
    exchange = scram(mechanism, password, password, "nonce")
    assert next(exchange) == client_first
    assert exchange.send(server_first) == client_final
    with pytest.raises(StopIteration):
        exchange.send(server_final)


def test_java_has_no_login_with_an_empty_password_only() -> None:
    refused = {password for _, password, answer in recorded("scram") if answer is None}
    assert refused == {""}
    assert len(LOGINS) == 2 * (len(PASSWORDS) - 1)


def test_another_password_is_another_login() -> None:
    mechanism, _, answer = next(login for login in LOGINS if login[1] == "p\u00e4ss\u00df")
    exchange = scram(mechanism, "p\u00e4ss\u00df", "pa\u0308ss\u00df", "nonce")
    next(exchange)
    assert exchange.send(answer[1].encode()) != answer[2].encode()
    with pytest.raises(KafkaError, match="does not know the password"):
        exchange.send(answer[3].encode())
