"""The migration linter: what is safe now, and who blocks it; with a broker that tells everything, and one that does not."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from click.testing import CliRunner

from coterie.assignors import ASSIGNORS, AssignorSpec, RebalanceProtocol
from coterie.assignors.blobs import encode_subscription
from coterie.cli import main
from coterie.client import Admin, Advice, ConsumerGroupDescription, GroupType, Node
from coterie.client.admin.results import group_description
from coterie.client.lint.lint import FIRST, SECOND, STATIC, lint_group
from coterie.client.lint.rule import ProtocolSupport
from coterie.testing import LocalBroker
from coterie.wire.messages.groups.describe_groups import DescribedGroup, DescribedGroupMember
from tests.awaiting import until
from tests.client.group import member

SUPPORT = ProtocolSupport(serves=False)  # a Kafka before KIP-848


def described(protocol: str, *versions: int, static: bool = False, state: str = "Stable") -> ConsumerGroupDescription:
    members = [
        DescribedGroupMember(
            f"m{n}", f"i{n}" if static else None, "c", "/h", encode_subscription({"t"}, version=v), b""
        )
        for n, v in enumerate(versions)
    ]
    return group_description(DescribedGroup(0, None, "g", state, "consumer", protocol, members), Node(1))


def by_change(advice: list[Advice]) -> dict[str, Advice]:
    return {a.change: a for a in advice}


def test_a_broker_that_does_not_tell_what_else_is_listed() -> None:
    eager = by_change(lint_group(described("range", 3, 3), None, 9, SUPPORT))
    assert [eager[c].safe for c in (FIRST, SECOND, STATIC)] == [True, False, True]
    assert "does not tell what else" in eager[SECOND].why
    cooperative = by_change(lint_group(described("cooperative-sticky", 3, 3, static=True), None, 9, SUPPORT))
    assert [cooperative[c].safe for c in (FIRST, SECOND, STATIC)] == [True, True, True]
    assert cooperative[STATIC].why.startswith("done")


def test_clients_that_are_too_old() -> None:
    changes = by_change(lint_group(described("range", 3, 0), None, 4, SUPPORT))
    assert (changes[FIRST].safe, changes[FIRST].blocked_by) == (False, ("m1",))
    assert not changes[STATIC].safe


def test_who_lists_what() -> None:
    group = described("range", 3, 3)
    half = by_change(lint_group(group, {"m0": ["range", "cooperative-sticky"], "m1": ["range"]}, 9, SUPPORT))
    assert half[SECOND].blocked_by == ("m1",)
    whole = by_change(lint_group(group, {m: ["range", "cooperative-sticky"] for m in ("m0", "m1")}, 9, SUPPORT))
    assert (whole[FIRST].why[:4], whole[SECOND].safe) == ("done", True)
    done = by_change(lint_group(group, {m: ["cooperative-sticky"] for m in ("m0", "m1")}, 9, SUPPORT))
    assert done[SECOND].why.startswith("done")


def test_any_cooperative_assignor_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ASSIGNORS, "mine", AssignorSpec(ASSIGNORS["range"].assign, frozenset(RebalanceProtocol)))
    alone = by_change(lint_group(described("mine", 3, 3), {m: ["mine"] for m in ("m0", "m1")}, 9, SUPPORT))
    assert [alone[c].why[:4] for c in (FIRST, SECOND)] == ["done", "done"]
    unlisted = by_change(lint_group(described("mine", 3, 3), None, 9, SUPPORT))
    assert unlisted[SECOND].why == "safe now: mine is in force, so every member lists it"


@pytest.mark.parametrize("kind", [GroupType.SHARE, GroupType.STREAMS])
def test_a_group_of_another_kind_has_no_way_to_change(kind: GroupType) -> None:
    advice = lint_group(replace(described(""), type=kind), None, 9, SUPPORT)
    assert [a.safe for a in advice] == [False] * 4 + [True]
    assert all("does not change its kind" in a.why for a in advice[:4])


@pytest.mark.parametrize("state", ["Empty", "PreparingRebalance"])
def test_a_group_that_is_not_at_rest(state: str) -> None:
    advice = by_change(lint_group(described("range", state=state), None, 9, SUPPORT))
    assert not any(advice[change].safe for change in (FIRST, SECOND, STATIC))


def test_the_command(coterie_broker: LocalBroker) -> None:
    coterie_broker.create_topic("t", 2)

    async def story() -> list[str]:
        sentences = []
        both = {"partition_assignment_strategy": "range,cooperative-sticky"}
        async with (
            member(coterie_broker, "new", **both) as one,
            member(coterie_broker, "old", partition_assignment_strategy="range") as two,
        ):
            one.subscribe(["t"])
            two.subscribe(["t"])

            async def settled() -> bool:
                await asyncio.gather(one.poll(10), two.poll(10))
                return len(one.assignment()) == len(two.assignment()) == 1

            await until(settled)
            result = await asyncio.to_thread(
                CliRunner().invoke, main, ["groups", "lint", "g", "-b", coterie_broker.bootstrap_servers]
            )
            assert result.exit_code == 1
            sentences = result.output.splitlines()
            async with Admin({"bootstrap.servers": coterie_broker.bootstrap_servers}) as admin:
                assert [a.safe for a in await admin.lint_group("g")] == [True, False, True, True, True]
        return sentences

    lines = asyncio.run(story())
    assert lines[0] == f"safe     {FIRST}"
    assert lines[2] == f"not yet  {SECOND}"
    assert lines[4].startswith("         - old-")
