"""Each call of Kafka's Admin is one of ours or has a reason, and each of ours is named by Kafka's in snake_case."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from reference_pages.admin_calls import CALLS, OWN

from coterie.client import Admin
from coterie.client.admin.each import Each
from coterie.client.blocking import BlockingAdmin
from coterie.client.blocking.admin_each import BlockingEach

# The public methods of Kafka's interface, from its jar.
HEADING, *KAFKA = Path(__file__).with_name("kafka_admin.txt").read_text().splitlines()
# Ours that have no name of Kafka's though they do what one of its calls does: a part of its result.
PARTS = {"partitions", "list_consumer_group_offsets_metadata"}


def snake_case(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def public(kind: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}


OURS = public(Admin) | {f"each.{name}" for name in public(Each)}


def test_the_table_has_every_call_of_kafkas() -> None:
    assert (re.search(r"(\d+) names$", HEADING) or [""])[1] == str(len(KAFKA))
    assert sorted(CALLS) == sorted(KAFKA)


def test_each_call_is_one_of_ours_or_has_a_reason() -> None:
    for name, call in CALLS.items():
        assert call.ours or len(call.note) >= 20, name
        assert set(call.ours) - {"__init__"} <= OURS, name


def test_each_of_ours_stands_in_the_table() -> None:
    named = {method for call in CALLS.values() for method in call.ours} - {"__init__"}
    assert named | OWN.keys() == OURS
    assert not named & OWN.keys()


def test_a_call_of_both_has_kafkas_name() -> None:
    """One thing: without the plural's s, as of a call on one."""
    kafka = {snake_case(name) for name in KAFKA}
    singular = {re.sub(r"s$", "", name) for name in kafka}
    for method in OURS - OWN.keys() - PARTS:
        name = method.removeprefix("each.")
        assert name in kafka | singular, f"{method} has no name of Kafka's"
        assert not method.startswith("each.") or name in kafka, f"{method} takes many"


def test_the_blocking_admin_has_the_same() -> None:
    assert public(BlockingAdmin) == public(Admin)
    assert public(BlockingEach) == public(Each)
