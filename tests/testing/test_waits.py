"""LocalBroker's waits: each returns once it is so, and where it never is raises TimeoutError that says what is missing. Wrong
arguments of its methods."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from coterie.client import KafkaError
from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.testing import ErrorCode, LocalBroker
from coterie.testing.faults import FAILABLE, FaultRule
from coterie.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from coterie.wire.messages.groups.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as running:
        running.create_topic("t")
        yield running


def commit(broker: LocalBroker, group: str, offset: int) -> int:
    """The error code of a commit for t-0 by no member."""
    socket = BrokerSocket(broker.host, broker.port, "waits")
    try:
        topics = [OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, offset)])]
        request = OffsetCommitRequest(group, -1, "", None, -1, topics)
        response: Any = socket.request(request, highest=8)
        return int(response.topics[0].partitions[0].error_code)
    finally:
        socket.close()


NEVER: list[tuple[Callable[[LocalBroker], object], str]] = [
    (lambda b: b.until_stable("nobody", timeout_s=0), "group nobody is not Stable after 0 s. There is no such group."),
    (
        lambda b: b.until_stable("nobody", members=2, timeout_s=0),
        "group nobody is not Stable with 2 members after 0 s. There is no such group.",
    ),
    (lambda b: b.until_requested("LeaveGroup", 1, timeout_s=0), "LeaveGroup came fewer than 1 time after 0 s."),
    (lambda b: b.until_held(FaultRule("Fetch", None, None, 1), timeout_s=0), "no Fetch came after 0 s."),
    (
        lambda b: b.until_committed("nobody", {("t", 0): 1}, 0),
        "group nobody has not committed t-0: 1 after 0 s. It has committed nothing.",
    ),
]


@pytest.mark.parametrize(("wait", "sentence"), NEVER, ids=[str(n) for n in range(len(NEVER))])
def test_a_wait_that_is_over_says_what_is_missing(
    broker: LocalBroker, wait: Callable[[LocalBroker], object], sentence: str
) -> None:
    with pytest.raises(TimeoutError) as raised:
        wait(broker)
    assert str(raised.value) == sentence


def test_a_commit_is_waited_for(broker: LocalBroker) -> None:
    requested = broker.requested("OffsetCommit")
    assert commit(broker, "g", 5) == ErrorCode.NONE
    broker.until_committed("g", {("t", 0): 5}, timeout_s=0)
    broker.until_committed("g", {("t", 0): 4}, timeout_s=0)
    broker.until_requested("OffsetCommit", requested + 1, timeout_s=0)
    with pytest.raises(TimeoutError, match="has not committed"):
        broker.until_committed("g", {("t", 0): 6}, timeout_s=0)
    with pytest.raises(TimeoutError, match=f"fewer than {requested + 2} times"):
        broker.until_requested("OffsetCommit", requested + 2, timeout_s=0)


def test_a_failed_commit_is_not_kept(broker: LocalBroker) -> None:
    rule = broker.fail("OffsetCommit", ErrorCode.NOT_COORDINATOR, group="failed", times=1)
    assert commit(broker, "other", 7) == ErrorCode.NONE
    assert (rule.times, commit(broker, "failed", 7)) == (1, ErrorCode.NOT_COORDINATOR)
    assert (broker.committed("failed"), broker.committed("other")) == ({}, {("t", 0): 7})
    assert commit(broker, "failed", 7) == ErrorCode.NONE
    broker.until_committed("failed", {("t", 0): 7}, timeout_s=0)


@pytest.mark.parametrize(
    "ask", [LocalBroker.requested, LocalBroker.lose_response, lambda b, api: b.fail(api, ErrorCode.NONE)]
)
def test_an_api_that_is_not_there_is_refused_with_those_that_are(broker: LocalBroker, ask: Any) -> None:
    with pytest.raises(ValueError, match=r"there is no Joingroup here; there are .*JoinGroup"):
        ask(broker, "Joingroup")


def test_an_api_that_cannot_be_failed_is_refused_with_those_that_can(broker: LocalBroker) -> None:
    with pytest.raises(ValueError, match=f"there is no DescribeCluster here; there are {', '.join(FAILABLE)}"):
        broker.fail("DescribeCluster", ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def test_an_api_that_cannot_be_failed_can_be_held_and_lost(broker: LocalBroker) -> None:
    with broker.hold("DescribeCluster") as rule:
        assert rule in broker.faults.rules
    broker.faults.rules.remove(broker.lose_response("DescribeCluster"))


def test_a_member_that_is_not_there_cannot_be_expired(broker: LocalBroker) -> None:
    with pytest.raises(LookupError, match="group g has no member ghost; it has none"):
        broker.expire("g", "ghost")


def test_a_member_id_that_is_reserved_expires(broker: LocalBroker) -> None:
    """JoinGroup gives an id, by which the member has to join (KIP-394)."""
    socket = BrokerSocket(broker.host, broker.port)
    protocols = [JoinGroupRequestProtocol("range", b"")]
    joining = JoinGroupRequest("reserved", 60_000, 60_000, "", None, "consumer", protocols)
    response = socket.request(joining)
    assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED
    broker.expire("reserved", response.member_id)
    assert socket.request(replace(joining, member_id=response.member_id)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    socket.close()


WRONG: list[tuple[Callable[[LocalBroker], object], type[Exception], str]] = [
    (lambda b: b.produce("none", b"x"), KafkaError, "there is no topic none; create_topic makes it"),
    (lambda b: b.produce("none", b"x", key=b"k"), KafkaError, "there is no topic none; create_topic makes it"),
    (lambda b: b.produce("none", b"x", partition=0), KafkaError, "there is no topic none; create_topic makes it"),
    (lambda b: b.produce("t", b"x", partition=9), KafkaError, "t has partitions 0 to 0"),
    (lambda b: b.produce("t"), ValueError, "produce needs at least one value"),
    (lambda b: b.produce("t", "x"), TypeError, r"value must be bytes or None, not .*; encode it: value.encode\(\)"),  # type: ignore[arg-type]
    (lambda _: LocalBroker(brokers=0), ValueError, "brokers must be at least 1, not 0"),
    (lambda _: LocalBroker(brokers=3, racks=["a"]), ValueError, "racks must name one for each of 3 brokers, not 1"),
    (lambda _: LocalBroker().create_topic("t"), RuntimeError, "does not run: use it in a with-block, or call start"),
    (lambda _: LocalBroker().bootstrap_servers, RuntimeError, "does not run: use it in a with-block, or call start"),
]


@pytest.mark.parametrize(("call", "error", "sentence"), WRONG, ids=[str(n) for n in range(len(WRONG))])
def test_a_wrong_argument_is_one_sentence(
    broker: LocalBroker, call: Callable[[LocalBroker], object], error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error, match=sentence):
        call(broker)
