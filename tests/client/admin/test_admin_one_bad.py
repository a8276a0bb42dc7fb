"""One bad item among good ones: every call of an admin on many things does the good ones, and returns what they have; the bad
one has its own error. The rows are the public methods of `Admin` and `Each`, so that a new one needs its row."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from coterie.client import Admin, KafkaError, NewTopic
from coterie.client.admin.delegation_tokens import TokenCalls
from coterie.client.admin.each import Each
from coterie.client.admin.share_offsets import ShareOffsetCalls
from coterie.testing import ErrorCode, LocalBroker

GOOD, BAD = ("good", 0), ("bad", 0)
Errors = dict[Any, KafkaError]
# The call; whether the good item is in its result.
Call = tuple[Callable[[Admin, Errors], Awaitable[Any]], Callable[[Any], bool]]


def with_good(result: Any) -> bool:
    return GOOD in result or GOOD[0] in result


def nothing(result: Any) -> bool:
    return result is None


# Those with `errors`, to which the bad item goes.
WITH_ERRORS: dict[str, Call] = {
    "delete_records": (lambda a, e: a.delete_records({BAD: 1, GOOD: 1}, errors=e), lambda r: r == {GOOD: 1}),
    "list_offsets": (lambda a, e: a.list_offsets({BAD: -1, GOOD: -1}, errors=e), lambda r: r == {GOOD: 1}),
    "alter_partition_reassignments": (
        lambda a, e: a.alter_partition_reassignments({BAD: [1], GOOD: [1]}, errors=e),
        nothing,
    ),
    "alter_consumer_group_offsets": (
        lambda a, e: a.alter_consumer_group_offsets("other", {BAD: 0, GOOD: 0}, errors=e),
        nothing,
    ),
    "delete_consumer_group_offsets": (
        lambda a, e: a.delete_consumer_group_offsets("group", [BAD, GOOD], errors=e),
        nothing,
    ),
}
# Those whose result has the error in the place of the bad item, or leaves the item out.
IN_RESULT: dict[str, Call] = {
    "describe_topics": (
        lambda a, e: a.describe_topics(["bad", "good"]),
        lambda r: r["good"].error == 0 and r["bad"].error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ),
    "partitions": (lambda a, e: a.partitions(["bad", "good"]), lambda r: r == [GOOD]),
    "record_times": (lambda a, e: a.record_times({BAD: 0, GOOD: 0}), with_good),
    "elect_leaders": (
        lambda a, e: a.elect_leaders([BAD, GOOD]),
        lambda r: r == {BAD: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, GOOD: ErrorCode.ELECTION_NOT_NEEDED},
    ),
    "list_partition_reassignments": (lambda a, e: a.list_partition_reassignments([BAD, GOOD]), lambda r: r == {}),
    "remove_members_from_consumer_group": (
        lambda a, e: a.remove_members_from_consumer_group("group", ["bad", "none"]),
        lambda r: r == dict.fromkeys(["bad", "none"], ErrorCode.UNKNOWN_MEMBER_ID),
    ),
}
OF_TOKENS = {name for name in vars(TokenCalls) if name[0] != "_"}
OF_CLUSTER = (
    *("describe_producers", "describe_transactions", "fence_producers", "alter_client_quotas"),
    *("describe_user_scram_credentials", "alter_user_scram_credentials"),
)
# The others: why one bad item hides none.
OF_ONE = {
    "close": "no request",
    "describe_cluster": "one cluster",
    **dict.fromkeys(("create_topic", "delete_topic", "create_partitions"), "one topic"),
    **dict.fromkeys(("describe_configs", "incremental_alter_configs"), "one topic"),
    **dict.fromkeys(("describe_consumer_group", "explain_group", "lint_group", "delete_consumer_group"), "one group"),
    "list_groups": "of each broker; tests/cli/test_partial_results has a broker that does not list",
    "telemetry_clients": "of each broker, as list_groups",
    "describe_acls": "one response",
    **dict.fromkeys(
        ("describe_features", "update_features", "list_config_resources", "describe_client_quotas"), "one response"
    ),
    **dict.fromkeys(sorted(OF_TOKENS), "one token, or one response"),
    **dict.fromkeys(("describe_log_dirs", "list_transactions"), "of each broker; test_cluster_calls"),
    **dict.fromkeys(OF_CLUSTER, "what is refused goes to `errors`; test_cluster_calls"),
    "abort_transaction": "one partition",
    **dict.fromkeys(("create_acls", "delete_acls"), "what is refused goes to `errors`; test_acl_calls"),
    **dict.fromkeys(
        ("list_share_group_offsets", "alter_share_group_offsets", "delete_share_group_offsets"),
        "what is refused goes to `errors`; test_share_offsets",
    ),
    "lag": "what is gone is left out or goes to `errors`; tests/client/admin/test_admin and tests/cli/test_partial_results",
    **dict.fromkeys(
        ("list_consumer_group_offsets", "list_consumer_group_offsets_metadata"),
        "all of one group; the coordinator leaves out what may not be described",
    ),
}
# Each: its futures by item.
OF_EACH: dict[str, Callable[[Each], Mapping[Any, Awaitable[Any]]]] = {
    "create_topics": lambda each: each.create_topics([NewTopic("b@d", 1), NewTopic("fresh", 1)]),
    "delete_topics": lambda each: each.delete_topics(["bad", "good"]),
    "create_partitions": lambda each: each.create_partitions({"bad": 4, "good": 4}),
    "describe_configs": lambda each: each.describe_configs(["bad", "good"]),
    "incremental_alter_configs": lambda each: each.incremental_alter_configs(
        {name: {"retention.ms": "7"} for name in ("bad", "good")}
    ),
    "alter_partition_reassignments": lambda each: each.alter_partition_reassignments({BAD: [1], GOOD: [1]}),
    "describe_consumer_groups": lambda each: each.describe_consumer_groups(["bad", "group"]),
    "delete_consumer_groups": lambda each: each.delete_consumer_groups(["bad", "group"]),
    "list_consumer_group_offsets": lambda each: each.list_consumer_group_offsets(["refused", "group"]),
    "alter_consumer_group_offsets": lambda each: each.alter_consumer_group_offsets("other", {BAD: 0, GOOD: 0}),
    "delete_consumer_group_offsets": lambda each: each.delete_consumer_group_offsets("group", [BAD, GOOD]),
    "remove_members_from_consumer_group": lambda each: each.remove_members_from_consumer_group("group", ["a", "b"]),
    "delete_records": lambda each: each.delete_records({BAD: 1, GOOD: 1}),
    "list_offsets": lambda each: each.list_offsets({BAD: -1, GOOD: -1}),
}
ALL_REFUSED = {"remove_members_from_consumer_group"}  # of a group without members


def public(kind: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(kind, inspect.isfunction) if name[0] != "_"}


def test_every_method_is_in_a_table() -> None:
    methods = public(Admin)
    assert methods == WITH_ERRORS.keys() | IN_RESULT.keys() | OF_ONE.keys()
    assert public(Each) == OF_EACH.keys()
    with_errors = {name for name in methods if "errors" in inspect.signature(getattr(Admin, name)).parameters}
    assert with_errors == WITH_ERRORS.keys() | {
        "list_groups",
        "telemetry_clients",
        "lag",
        "create_acls",
        "delete_acls",
        "describe_log_dirs",
        "list_transactions",
        *public(ShareOffsetCalls),
        *OF_CLUSTER,
    }


def ran(broker: LocalBroker, call: Callable[[Admin], Awaitable[Any]]) -> Any:
    """On a topic ``good`` of one record, and a group that has committed it."""
    broker.create_topic("good", 1)
    broker.produce("good", b"v")

    async def story() -> Any:
        async with asyncio.timeout(20), Admin({"bootstrap.servers": broker.bootstrap_servers}) as admin:
            await admin.alter_consumer_group_offsets("group", {GOOD: 1})
            return await call(admin)

    return asyncio.run(story())


@pytest.mark.parametrize("name", WITH_ERRORS)
def test_errors_receives_the_bad_item_and_the_others_are_done(coterie_broker: LocalBroker, name: str) -> None:
    call, expected = WITH_ERRORS[name]
    errors: Errors = {}
    result = ran(coterie_broker, lambda admin: call(admin, errors))
    assert {key: error.code for key, error in errors.items()} == {BAD: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert expected(result)


@pytest.mark.parametrize("name", WITH_ERRORS)
def test_without_errors_the_others_are_done_all_the_same(coterie_broker: LocalBroker, name: str) -> None:
    call, _ = WITH_ERRORS[name]

    async def refused(admin: Admin) -> None:
        with pytest.raises(KafkaError, match="bad"):
            await call(admin, None)  # type: ignore[arg-type]
        starts = await admin.list_offsets({GOOD: -2})
        assert starts == {GOOD: 1 if name == "delete_records" else 0}
        if name == "alter_consumer_group_offsets":
            assert await admin.list_consumer_group_offsets("other") == {GOOD: 0}
        if name == "delete_consumer_group_offsets":
            assert await admin.list_consumer_group_offsets("group") == {}

    ran(coterie_broker, refused)


@pytest.mark.parametrize("name", IN_RESULT)
def test_the_result_has_the_good_item(coterie_broker: LocalBroker, name: str) -> None:
    call, expected = IN_RESULT[name]
    assert expected(ran(coterie_broker, lambda admin: call(admin, {})))


@pytest.mark.parametrize("name", OF_EACH)
def test_the_future_of_the_good_item_has_its_result(coterie_broker: LocalBroker, name: str) -> None:
    if name == "list_consumer_group_offsets":
        coterie_broker.fail("OffsetFetch", ErrorCode.GROUP_AUTHORIZATION_FAILED, times=1)  # of the first

    async def done(admin: Admin) -> list[object]:
        return await asyncio.gather(*OF_EACH[name](admin.each).values(), return_exceptions=True)

    failed = [isinstance(result, KafkaError) for result in ran(coterie_broker, done)]
    assert sum(failed) == (2 if name in ALL_REFUSED else 1)
    assert failed[0] or name == "list_consumer_group_offsets"  # the group whose request came first
