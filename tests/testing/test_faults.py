"""Every API that a test may fail, in every version with every error code: the response has the code where Kafka's has it.
The fixture ``coterie_proxy``: a cluster that somebody else runs, and the faults of a `LocalBroker` before it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from coterie.broker.requests.calls import Call, ClientConnection
from coterie.broker.requests.pending import Pending
from coterie.client import ConfigError
from coterie.client.blocking import BlockingConsumer
from coterie.testing import LocalBroker, LocalProxy
from coterie.testing.faults import API_KEYS, FAILABLE, FaultRule, Faults
from coterie.wire.apis import APIS
from coterie.wire.codec import decode
from coterie.wire.declaration import Message, Struct
from coterie.wire.errors import ErrorCode
from coterie.wire.fields import FieldType

CODES = [code for code in ErrorCode if code != ErrorCode.NONE]
NO_SERVICES: Any = None
VERSIONS = [
    (api, version)
    for api in FAILABLE
    for version in range(APIS[API_KEYS[api]].advertised.first, APIS[API_KEYS[api]].advertised.last + 1)
]
every_version = pytest.mark.parametrize(("api", "version"), VERSIONS, ids=lambda value: str(value))
OF_GROUPS = {"JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "TxnOffsetCommit", "OffsetDelete"}


def one_of_each(shape: type[Struct], version: int) -> Any:
    """A message with one element in every array, ``t`` in every text, zeros elsewhere."""
    return shape(**{s.name: _value(s.kind, version) for s in shape.fields if version in s.versions and s.tag is None})


def _value(kind: FieldType, version: int) -> Any:
    if kind.shape is not None:
        return one_of_each(kind.shape, version)
    if kind.element is not None:
        return [_value(kind.element, version)]
    values: dict[str, Any] = {"string": "t", "bytes": b"", "records": b"", "uuid": b"i" * 16, "boolean": False}
    return values.get(kind.name, 0)


def request_of(api: str, version: int) -> Any:
    """A request as the broker reads it."""
    shape = APIS[API_KEYS[api]].request
    request = one_of_each(shape, version)
    if api == "Produce":
        request.acks = -1
    return decode(shape, request.encode(version), version)[0]


def call(version: int, client_id: str = "c") -> Call:
    return Call(version, client_id, ClientConnection("127.0.0.1"))


def wrapped(api: str, rule: FaultRule) -> tuple[Any, list[Any]]:
    """The API's handler behind the rule, and the requests that reach it."""
    reached: list[Any] = []
    faults = Faults()
    faults.rules.append(rule)
    response = APIS[API_KEYS[api]].response()

    def handler(services: Any, request: Any, _: Call) -> Message:
        reached.append(request)
        return response

    return faults.wrap({API_KEYS[api]: handler})[API_KEYS[api]], reached


def fields(message: Any, wanted: set[str]) -> Iterator[tuple[str, Any]]:
    """The values of these fields in a message and its parts."""
    for spec in dataclasses.fields(message):
        value = getattr(message, spec.name)
        if spec.name in wanted:
            yield spec.name, value
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, Struct):
                yield from fields(part, wanted)


@every_version
def test_a_failed_request_is_answered_with_its_code_and_not_carried_out(api: str, version: int) -> None:
    request = request_of(api, version)
    for code in CODES:
        handle, reached = wrapped(api, FaultRule(api, None, None, 1, code))
        response = handle(NO_SERVICES, request, call(version))
        shape = APIS[API_KEYS[api]].response
        read = decode(shape, response.encode(version), version)[0]
        codes = {value for _, value in fields(read, {"error_code"})}
        assert code in codes, f"{code.name} is not in the response"
        assert codes <= {code, ErrorCode.NONE}
        assert not reached
        topics = list(fields(read, {"topic_id"}))
        wanted = set(fields(request, {"topic_id"})) or {("topic_id", bytes(16))}  # CreateTopics names none
        assert topics == [] or set(topics) == wanted, "a topic has the request's id"
        handle(NO_SERVICES, request, call(version))
        assert reached == [request], "the rule was for one request"


@pytest.mark.parametrize("version", range(APIS[API_KEYS["Produce"]].advertised.last + 1))
def test_a_produce_that_waits_for_no_response_gets_none(version: int) -> None:
    request = request_of("Produce", version)
    request.acks = 0
    handle, reached = wrapped("Produce", FaultRule("Produce", None, None, 1, ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert handle(NO_SERVICES, request, call(version)) is None
    assert not reached


OF_GROUPS |= {"OffsetFetch", "FindCoordinator"}


@pytest.mark.parametrize(
    ("api", "version"), [(api, version) for api, version in VERSIONS if api in OF_GROUPS], ids=lambda value: str(value)
)
def test_a_rule_for_a_group_or_a_client_touches_no_other(api: str, version: int) -> None:
    request = request_of(api, version)
    code = ErrorCode.NOT_COORDINATOR
    for rule, touched in (
        (FaultRule(api, "t", None, 1, code), True),
        (FaultRule(api, "other", None, 1, code), False),
        (FaultRule(api, None, "c", 1, code), True),
        (FaultRule(api, None, "d", 1, code), False),
        (FaultRule(api, "t", "d", 1, code), False),
        (FaultRule("Metadata", None, None, 1, code), False),
    ):
        handle, reached = wrapped(api, rule)
        handle(NO_SERVICES, request, call(version))
        assert bool(reached) != touched
        assert rule.times == (0 if touched else 1)


def test_a_held_request_is_answered_once_it_is_released_and_a_lost_one_never() -> None:
    request = request_of("Heartbeat", 4)
    rule = FaultRule("Heartbeat", None, None, 2)
    handle, reached = wrapped("Heartbeat", rule)
    first, second = (handle(NO_SERVICES, request, call(4)) for _ in range(2))
    assert isinstance(first, Pending)
    assert (len(rule.held), reached, first.response) == (2, [], None)
    rule.held.pop(0)()
    assert (len(reached), first.response is not None, second.response) == (1, True, None)
    lost, carried_out = wrapped("Heartbeat", FaultRule("Heartbeat", None, None, 1, lost=True))
    response = lost(NO_SERVICES, request, call(4))
    assert isinstance(response, Pending)
    assert (carried_out, response.response) == ([request], None)


Proxied = Callable[..., LocalProxy]


def test_a_commit_fails_at_the_proxy_and_is_retried(coterie_broker: LocalBroker, coterie_proxy: Proxied) -> None:
    coterie_broker.create_topic("orders")
    coterie_broker.produce("orders", b"one")
    proxy = coterie_proxy(coterie_broker.bootstrap_servers)
    settings = {"bootstrap.servers": proxy.bootstrap_servers, "group.id": "billing", "auto.offset.reset": "earliest"}
    with BlockingConsumer(settings | {"enable.auto.commit": "false"}) as consumer:
        consumer.subscribe(["orders"])
        while not consumer.poll(1000):
            pass
        proxy.fail("OffsetCommit", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, times=2, group="billing")
        consumer.commit()
        assert proxy.requested("OffsetCommit") == 3
        assert coterie_broker.requested("OffsetCommit") == 1
        proxy.cut("OffsetCommit", client_id="coterie")
        consumer.commit()
        assert proxy.drop_connections("coterie") > 0
        consumer.commit()
    coterie_broker.until_committed("billing", {("orders", 0): 1})


def test_what_waits_is_seen(coterie_cluster: LocalBroker, coterie_proxy: Proxied) -> None:
    proxy = coterie_proxy(coterie_cluster.bootstrap_servers)
    coterie_cluster.create_topic("orders")
    with proxy.hold("JoinGroup", group="billing") as held:
        settings = {"bootstrap.servers": proxy.bootstrap_servers, "group.id": "billing"}
        consumer = BlockingConsumer(settings)
        consumer.subscribe(["orders"])
        proxy.until_held(held)
        assert coterie_cluster.requested("JoinGroup") == 0
    coterie_cluster.until_stable("billing", members=1)
    consumer.close()


def test_a_proxy_that_does_not_run_says_so() -> None:
    with pytest.raises(RuntimeError, match="the proxy does not run"):
        LocalProxy("127.0.0.1:9092").cut("Fetch")
    with pytest.raises(ConfigError):
        LocalProxy("nowhere")
    with pytest.raises(ValueError, match="there is no Fetsch"):
        LocalProxy("127.0.0.1:9092").fail("Fetsch", "NOT_COORDINATOR")
