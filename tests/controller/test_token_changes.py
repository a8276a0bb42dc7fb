"""The delegation tokens of a cluster as each broker reads them, and their nodes as Kafka's DelegationTokenManager has them."""

from __future__ import annotations

import json

from coterie.authentication.delegation_tokens import DelegationToken
from coterie.authentication.principal import USER, Principal
from coterie.controller.changes import token_changes
from coterie.controller.changes.token_changes import TokenChanges, TokensRead
from coterie.controller.session_script import KEPT_MS
from coterie.zookeeper.operations import (
    ConnectionLost,
    Delete,
    List,
    SessionExpired,
    Write,
)
from tests.controller.notification_reader import NotificationReader


def token(token_id: str, owner: str = "alice") -> DelegationToken:
    principal = Principal(USER, owner)
    return DelegationToken(token_id, principal, principal, (Principal(USER, "b/c"),), 1, 3, 2)


A, B = token("a"), token("b", "ünï,cn=x")


class Reader(NotificationReader[TokenChanges, TokensRead]):
    def __init__(self) -> None:
        super().__init__(TokenChanges, lambda machine, _: machine.changed(), TokensRead)

    def write(self, *tokens: DelegationToken) -> None:
        for made in tokens:
            self.apply(Write(token_changes.path_of(made.token_id), token_changes.to_data(made)))
            self.notify(made.token_id)

    def notify(self, token_id: str) -> None:
        self.notify_by(token_changes.CHANGE, token_id)

    def seen(self) -> list[tuple[dict[str, DelegationToken | None], bool]]:
        """The tokens, and whether there are no others."""
        return [(effect.tokens, effect.is_all) for effect in self.effects(10)]


def test_nodes_are_those_of_kafka() -> None:
    assert token_changes.path_of("a") == "/delegation_token/tokens/a"
    assert json.loads(token_changes.to_data(A)) == {
        "version": 1,
        "owner": "User%3Aalice",
        "renewers": ["User%3Ab%2Fc"],
        "issueTimestamp": 1,
        "maxTimestamp": 3,
        "expiryTimestamp": 2,
        "tokenId": "a",
    }
    for made in (A, B):
        assert token_changes.of_data(token_changes.to_data(made)) == made


def test_all_are_read_at_the_start_and_each_change_afterwards() -> None:
    reader = Reader()
    assert reader.seen() == [({}, True)]
    reader.write(A)
    assert reader.seen() == [({"a": A}, False)]
    reader.write(B)
    reader.apply(Delete(token_changes.path_of("a")))
    reader.notify("a")
    assert reader.seen() == [({"b": B, "a": None}, False)]
    assert reader.seen() == []


def test_a_change_while_the_first_are_read_is_not_missed() -> None:
    reader = Reader()
    for _ in range(2):  # the watch, and the list of tokens
        effect = reader.machine.next(reader.world.now_ms)
        assert isinstance(effect, List)
        reader.machine.respond(reader.server.apply(reader.session, effect))
    reader.write(A)
    assert reader.seen() == [({}, True), ({"a": A}, False)]


def test_a_tools_mistake_is_no_token() -> None:
    reader = Reader()
    reader.write(A)
    reader.apply(Write(token_changes.path_of("x"), "{"))
    reader.apply(Write(token_changes.path_of("y"), token_changes.to_data(A)))  # another one's
    assert reader.seen() == [({"a": A, "x": None, "y": None}, True)]
    reader.notify("")
    reader.notify("a/b")
    assert reader.seen() == []


def test_the_connection_may_be_lost_and_the_session_end() -> None:
    reader = Reader()
    reader.write(A)
    reader.loses = ConnectionLost
    assert reader.seen() == [({"a": A}, True)]
    reader.write(B)
    reader.loses = SessionExpired
    assert reader.seen() == [({"a": A, "b": B}, True)]


def test_notifications_that_every_broker_could_read_are_deleted() -> None:
    reader = Reader()
    reader.seen()
    reader.write(A)
    reader.seen()
    reader.world.run_until(reader.world.now_ms + KEPT_MS + 1)
    reader.write(B)
    reader.seen()
    assert reader.apply(List(token_changes.CHANGES)) == ["token_change_0000000001"]
