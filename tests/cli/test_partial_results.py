"""One item that cannot be read leaves the others: every command that reads many things shows what it could, writes a sentence
to standard error for what it could not, and ends with 1, with --json too."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from coterie.broker.settings.tables.broker_table import KAFKA_AUTHORIZERS
from coterie.cli import main
from coterie.client.blocking import BlockingAdmin, BlockingConsumer
from coterie.coordinator.journal.line import TOPIC as JOURNAL
from coterie.records.encoding import NewRecord
from coterie.testing import ErrorCode, LocalBroker
from coterie.wire.apis import APIS
from coterie.wire.messages.security.create_acls import AclCreationResult, CreateAclsResponse
from coterie.wire.messages.security.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsResponse,
)
from coterie.wire.messages.settings.describe_configs import DescribeConfigsResponse
from coterie.wire.messages.topics.metadata import MetadataResponse, MetadataResponseTopic
from tests.cli.test_every_command import LEAVES


class World(NamedTuple):
    broker: LocalBroker
    folder: Path


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Topics good and bad, each with one record, and a group crew whose member owns both and has committed both."""
    authorizer = {"authorizer.class.name": KAFKA_AUTHORIZERS[0], "super.users": "User:ANONYMOUS"}
    with LocalBroker({"group.initial.rebalance.delay.ms": "0", **authorizer}) as broker:
        for topic in ("good", "bad"):
            broker.create_topic(topic)
            broker.produce(topic, b"v")
        settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "crew"}
        with BlockingConsumer(settings | {"auto.offset.reset": "earliest", "enable.auto.commit": False}) as consumer:
            consumer.subscribe(["good", "bad"])
            while len(consumer.assignment()) < 2:
                consumer.poll(100)
            consumer.commit({("good", 0): 0, ("bad", 0): 1})
            with BlockingAdmin({"bootstrap.servers": broker.bootstrap_servers}) as admin:
                admin.alter_consumer_group_offsets("other", {("good", 0): 1})
            yield World(broker, tmp_path)


def topic_deleted(world: World) -> None:
    with BlockingAdmin({"bootstrap.servers": world.broker.bootstrap_servers}) as admin:
        admin.delete_topic("bad")


def group_refused(world: World) -> None:
    world.broker.fail("DescribeGroups", ErrorCode.GROUP_AUTHORIZATION_FAILED)  # of crew, the first


def offsets_of_group_refused(world: World) -> None:
    world.broker.fail("OffsetFetch", ErrorCode.GROUP_AUTHORIZATION_FAILED, group="crew")


def topic_not_described(world: World) -> None:
    """Metadata has an error instead of one topic, as of one that the client may not describe."""

    def without_bad(response: MetadataResponse) -> MetadataResponse:
        refused = [MetadataResponseTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "bad")]
        return replace(response, topics=[t for t in response.topics if t.name != "bad"] + refused)

    changed_responses(world, "Metadata", without_bad)


def changed_responses(world: World, api: str, change: Callable[[Any], Any]) -> None:
    key = next(key for key, known in APIS.items() if known.name == api)
    handlers = world.broker.broker.handlers
    before = handlers[key]
    handlers[key] = lambda broker, request, call: change(before(broker, request, call))


def offsets_refused(world: World) -> None:
    world.broker.fail("ListOffsets", ErrorCode.TOPIC_AUTHORIZATION_FAILED, times=1)


def configs_refused(world: World) -> None:
    def refused(response: DescribeConfigsResponse) -> DescribeConfigsResponse:
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return replace(response, results=[replace(r, error_code=code, configs=[]) for r in response.results])

    changed_responses(world, "DescribeConfigs", refused)


def second_acl_not_created(world: World) -> None:
    def refused(response: CreateAclsResponse) -> CreateAclsResponse:
        return replace(response, results=[response.results[0], AclCreationResult(ErrorCode.INVALID_REQUEST, "no")])

    changed_responses(world, "CreateAcls", refused)


def second_acl_not_deleted(world: World) -> None:
    first = DeleteAclsMatchingAcl(0, None, 2, "good", 3, "User:a", "*", 3, 3)  # READ
    second = DeleteAclsMatchingAcl(ErrorCode.INVALID_REQUEST, "no", 2, "good", 3, "User:a", "*", 4, 3)  # WRITE

    def refused(response: DeleteAclsResponse) -> DeleteAclsResponse:
        return replace(response, filter_results=[DeleteAclsFilterResult(0, None, [one]) for one in (first, second)])

    changed_responses(world, "DeleteAcls", refused)


def journal_with_another_line(world: World) -> None:
    (partition,) = world.broker.broker.topics.by_name[JOURNAL].partitions
    line: NewRecord = (0, b"crew", b"nonsense", ())
    world.broker._call(lambda: partition.log.append_records([line], 0))


def log_with_a_damaged_segment(world: World) -> None:
    partitions = world.broker.broker.topics.by_name["__consumer_offsets"].partitions
    used = [p for p in partitions if p.log.end_offset]
    for number, partition in enumerate(used[:1] * 2):
        path = world.folder / f"__consumer_offsets-{number}"
        path.mkdir()
        data = bytearray(partition.log.read(0, 1 << 20))
        if number:
            data[-1] ^= 0xFF
            data += b"torn"
        (path / f"{0:020}.log").write_bytes(data)


def log_with_an_unreadable_segment(world: World) -> None:
    log_with_a_damaged_segment(world)
    segment = world.folder / f"__consumer_offsets-1/{0:020}.log"
    segment.unlink()
    segment.mkdir()


class Partial(NamedTuple):
    """``line``: the command, with {folder}; ``spoil`` does the damage; the output has ``shown``, standard error ``missing``."""

    line: str
    spoil: Callable[[World], None]
    shown: str
    missing: str
    has_json: bool = True


TWO_ACLS = "--principal User:a --operation read --operation write --topic good"
PARTIAL = [
    Partial("groups describe crew", topic_deleted, "good", "UNKNOWN_TOPIC_OR_PARTITION: bad-0"),
    Partial("groups describe crew", topic_not_described, "good", "TOPIC_AUTHORIZATION_FAILED: bad-0"),
    Partial("groups list", group_refused, "other", "GROUP_AUTHORIZATION_FAILED: group crew"),
    Partial("groups list", offsets_of_group_refused, "other", "GROUP_AUTHORIZATION_FAILED: group crew"),
    Partial("groups list", topic_not_described, "other", "TOPIC_AUTHORIZATION_FAILED: bad-0"),
    Partial("groups history crew", journal_with_another_line, "stable", "__coterie_journal-0 has a line at offset"),
    Partial("groups dump {folder}", log_with_a_damaged_segment, "offset crew good-0", "part cannot be read", False),
    Partial("groups dump {folder}", log_with_an_unreadable_segment, "offset crew good-0", "part cannot be read", False),
    Partial("topics list", topic_not_described, "good", "TOPIC_AUTHORIZATION_FAILED: topic bad"),
    Partial("topics describe good", offsets_refused, "1", "TOPIC_AUTHORIZATION_FAILED: good-0"),
    Partial("topics describe good", configs_refused, "0", "TOPIC_AUTHORIZATION_FAILED"),
    Partial(f"acls add {TWO_ACLS}", second_acl_not_created, "READ", "WRITE on topic good: INVALID_REQUEST: no"),
    Partial(f"acls remove {TWO_ACLS}", second_acl_not_deleted, "READ", "WRITE on topic good: INVALID_REQUEST: no"),
    Partial("topics elect good bad", topic_deleted, "good", "UNKNOWN_TOPIC_OR_PARTITION: topic bad"),
    Partial("topics reassign --list good bad", topic_deleted, "", "UNKNOWN_TOPIC_OR_PARTITION: topic bad"),
    Partial("cluster describe", topic_not_described, "under", "TOPIC_AUTHORIZATION_FAILED: topic bad"),
]
# The other commands: why one bad item does not hide others.
WHOLE = {
    "broker": "reads nothing",
    "produce": "one topic",
    "consume": "a stream; its first failure ends it, behind what was printed",
    "groups why": "the broker's own explanation; a partition that is gone has null",
    "groups watch": "as groups why",
    "groups lint": "one group",
    "groups flapping": "the journal's lines, or one group's records",
    "groups predict": "one group; what is not known is assumed and named",
    "mcp": "goes on until its input ends; each call for itself",
    "acls list": "one response",
    "acls why": "one request",
    "quotas list": "one response",
    "quotas remove": "one entity",
    "quotas set": "one entity",
    "users add": "one user",
    "users list": "one response",
    "users remove": "one user",
    "groups delete": "one group",
    "groups delete-offsets": "writes; a line for each partition whose offset is left says why",
    "groups reset": "writes: all of it or nothing",
    "groups migrate": "writes; a line for each partition says what was done",
    "topics create": "one topic",
    "topics grow": "one topic",
    "topics delete": "one topic",
    "log check": "a finding for each damage",
    "log bootstrap": "writes: all of it or nothing",
    "wire": "no broker",
    "observe": "goes on until it is stopped; a sentence for what it cannot see",
    "console": "goes on until it is stopped; its pages show what they cannot reach",
    "proxy": "reads nothing",
    "clients": "each broker for itself, as the groups in the last test here",
}
OF_OTHERS = {"pipeline", "lab", "certify", "certify-client", "demo", "cluster start", "cluster stop"}


def ended(world: World, line: str) -> Any:
    environment = {"COTERIE_BOOTSTRAP_SERVER": world.broker.bootstrap_servers}
    return CliRunner(env=environment).invoke(main, line.format(folder=world.folder).split(), catch_exceptions=False)


@pytest.mark.parametrize("case", PARTIAL, ids=lambda case: f"{case.line}, {case.spoil.__name__}")
def test_what_can_be_read_is_shown(world: World, case: Partial) -> None:
    case.spoil(world)
    done = ended(world, case.line)
    assert case.shown in done.stdout
    assert f"Error: {case.missing}" in done.stderr or case.missing in done.stderr
    assert done.exit_code == 1
    assert "Traceback" not in done.output


@pytest.mark.parametrize(
    "case", [case for case in PARTIAL if case.has_json], ids=lambda case: f"{case.line}, {case.spoil.__name__}"
)
def test_with_json_too(world: World, case: Partial) -> None:
    case.spoil(world)
    done = ended(world, f"{case.line} --json")
    assert isinstance(json.loads(done.stdout), list | dict)
    assert case.shown in done.stdout
    assert case.missing in done.stderr
    assert done.exit_code == 1


@pytest.mark.parametrize("line", sorted({case.line for case in PARTIAL}))
def test_where_all_can_be_read_it_ends_with_0(world: World, line: str) -> None:
    log_with_a_damaged_segment(world)
    shutil.rmtree(world.folder / "__consumer_offsets-1")
    done = ended(world, line)
    assert (done.exit_code, done.stderr) == (0, "")


def test_every_command_is_in_a_table() -> None:
    named = {" ".join(words) for words in LEAVES}
    here = {name for name in named if any(f"{case.line} ".startswith(f"{name} ") for case in PARTIAL)}
    others = {name for name in named if name in OF_OTHERS or name.split()[0] in OF_OTHERS}
    assert named - here - others == WHOLE.keys()


def test_a_broker_that_does_not_list_its_groups_leaves_those_of_the_others() -> None:
    with LocalBroker({"offsets.topic.num.partitions": "6"}, brokers=3) as cluster:
        settings = {"bootstrap.servers": cluster.bootstrap_servers}
        cluster.create_topic("t")
        with BlockingAdmin(settings) as admin:
            names = [f"group-{number}" for number in range(12)]
            for name in names:
                admin.alter_consumer_group_offsets(name, {("t", 0): 0})
            cluster.fail("ListGroups", ErrorCode.CLUSTER_AUTHORIZATION_FAILED, times=1)
            errors: dict[Any, Any] = {}
            listed = [group.group_id for group in admin.list_groups(errors=errors)]
            assert 0 < len(listed) < len(names)
            ((node, error),) = errors.items()
            assert error.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            assert f"broker {node.id}" in str(error)
        cluster.fail("ListGroups", ErrorCode.CLUSTER_AUTHORIZATION_FAILED, times=1)
        done = CliRunner().invoke(main, ["groups", "list", "-b", cluster.bootstrap_servers])
        assert done.exit_code == 1
        assert "CLUSTER_AUTHORIZATION_FAILED: broker" in done.stderr
        assert "group-" in done.stdout
