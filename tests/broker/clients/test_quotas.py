"""Client quotas: what Apache Kafka 4.3.0 accepts and refuses, and that they outlive the broker."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.broker.clients.quotas import ClientQuotas, Component, Match
from coterie.broker.storage.disk import DiskFileSystem
from coterie.log.checked_files import UnreadableFile
from coterie.log.filesystem import MemoryFileSystem
from coterie.quotas import Entity
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.settings import alter_client_quotas, describe_client_quotas
from coterie.wire.messages.settings.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from coterie.wire.messages.settings.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from tests.broker.connections.test_server import Client, broker

PRODUCED, CONSUMED, CREATED = "producer_byte_rate", "consumer_byte_rate", "connection_creation_rate"
ALICE: Entity = (("user", "alice"),)
ALICES_C1: Entity = (("client-id", "c1"), ("user", "alice"))
C1: Entity = (("client-id", "c1"),)
ANY_USER: Entity = (("user", None),)
ADDRESS: Entity = (("ip", "10.0.0.1"),)
BAD, OK = ErrorCode.INVALID_REQUEST, ErrorCode.NONE

ALTERATIONS: list[tuple[Entity, dict[str, float | None], ErrorCode]] = [
    (ALICE, {PRODUCED: 1.0}, OK),
    (ANY_USER, {PRODUCED: 1.0}, OK),
    (ADDRESS, {CREATED: 3.0}, OK),
    ((("ip", None),), {CREATED: 3.0}, OK),
    (ALICE, {"request_percentage": 1.5, "controller_mutation_rate": 0.5}, OK),
    (ALICE, {}, OK),
    (ALICE, {CONSUMED: None}, OK),
    (ALICE, {PRODUCED: 0.0}, BAD),
    (ALICE, {PRODUCED: -1.0}, BAD),
    (ALICE, {PRODUCED: 1.5}, BAD),
    (ALICE, {PRODUCED: 1024.0000009}, OK),  # Apache Kafka 3.9 and 4.3 accept this one
    (ALICE, {PRODUCED: 1024.0000011}, BAD),
    (ALICE, {PRODUCED: 1023.9999999}, BAD),
    (ALICE, {PRODUCED: 1e300}, BAD),
    (ALICE, {PRODUCED: float("inf")}, BAD),
    (ADDRESS, {CREATED: 2.0**31}, BAD),
    (ALICE, {"nobodys_rate": 1.0}, BAD),
    (ALICE, {"nobodys_rate": None}, OK),
    (ALICE, {CREATED: 1.0}, BAD),
    (ADDRESS, {PRODUCED: 1.0}, BAD),
    ((("ip", "no address"),), {CREATED: 1.0}, BAD),
    ((("ip", "10.0.0.1"), ("user", "alice")), {PRODUCED: 1.0}, BAD),
    ((("planet", "earth"),), {PRODUCED: 1.0}, BAD),
    ((("user", ""),), {PRODUCED: 1.0}, BAD),
    ((), {PRODUCED: 1.0}, BAD),
]


@pytest.mark.parametrize(("entity", "changes", "code"), ALTERATIONS)
def test_what_an_entity_may_have(entity: Entity, changes: dict[str, float | None], code: ErrorCode) -> None:
    quotas = ClientQuotas(MemoryFileSystem())
    if code:
        with pytest.raises(Refusal) as refused:
            quotas.check(entity, changes)
        assert refused.value.code == code
        assert not list(quotas.describe([], strict=False))
    else:
        quotas.check(entity, changes)
        assert not list(quotas.describe([], strict=False))
        quotas.alter({entity: changes})
        kept = {key: value for key, value in changes.items() if value is not None}
        assert dict(quotas.describe([], strict=False)) == ({entity: kept} if kept else {})


FILTERS: list[tuple[list[tuple[str, int, str | None]], bool, set[Entity]]] = [
    ([], False, {ALICE, ALICES_C1, C1, ANY_USER, ADDRESS}),
    ([], True, set()),
    ([("user", Match.EXACT, "alice")], False, {ALICE, ALICES_C1}),
    ([("user", Match.EXACT, "alice")], True, {ALICE}),
    ([("user", Match.DEFAULT, None)], False, {ANY_USER}),
    ([("user", Match.SPECIFIED, None)], False, {ALICE, ALICES_C1, ANY_USER}),
    ([("user", Match.SPECIFIED, None)], True, {ALICE, ANY_USER}),
    ([("client-id", Match.EXACT, "c1"), ("user", Match.EXACT, "alice")], True, {ALICES_C1}),
    ([("ip", Match.SPECIFIED, None)], False, {ADDRESS}),
    ([("user", Match.EXACT, "nobody")], False, set()),
]


@pytest.mark.parametrize(("components", "strict", "expected"), FILTERS)
def test_filters(components: list[tuple[str, int, str | None]], strict: bool, expected: set[Entity]) -> None:
    quotas = ClientQuotas(MemoryFileSystem())
    for entity in (ALICE, ALICES_C1, C1, ANY_USER):
        quotas.alter({entity: {PRODUCED: 1.0}})
    quotas.alter({ADDRESS: {CREATED: 1.0}})
    assert {e for e, _ in quotas.describe([Component(*c) for c in components], strict=strict)} == expected


REQUESTED, MUTATED = "request_percentage", "controller_mutation_rate"
# As Apache Kafka 3.9.1 and 4.3.0 list them, in whatever order they were set.
ORDERS = [
    (CONSUMED, REQUESTED, PRODUCED),
    (CONSUMED, REQUESTED),
    (REQUESTED, PRODUCED),
    (CONSUMED, MUTATED, PRODUCED),
    (PRODUCED, CONSUMED, MUTATED, REQUESTED),
]


@pytest.mark.parametrize("expected", ORDERS)
def test_the_values_of_an_entity_are_described_in_kafkas_order(expected: tuple[str, ...]) -> None:
    for order in itertools.permutations(expected):
        quotas = ClientQuotas(MemoryFileSystem())
        for key in order:
            quotas.alter({ALICE: {key: 5.0}})
        ((_, values),) = quotas.describe([], strict=False)
        assert tuple(values) == expected


BAD_FILTERS = [
    ([("planet", Match.SPECIFIED, None)], ErrorCode.UNSUPPORTED_VERSION),
    ([("planet", Match.EXACT, None)], ErrorCode.UNSUPPORTED_VERSION),
    ([("", Match.SPECIFIED, None)], BAD),
    ([("user", 9, None)], BAD),
    ([("user", Match.EXACT, None)], BAD),
    ([("user", Match.DEFAULT, "x")], BAD),
    ([("user", Match.SPECIFIED, "x")], BAD),
    ([("user", Match.SPECIFIED, None), ("user", Match.SPECIFIED, None)], BAD),
    ([("user", Match.SPECIFIED, None), ("ip", Match.SPECIFIED, None)], BAD),
]


@pytest.mark.parametrize("version", range(2))
@pytest.mark.parametrize(("components", "code"), BAD_FILTERS)
async def test_bad_filters(version: int, components: list[tuple[str, int, str | None]], code: ErrorCode) -> None:
    async with broker() as connect:
        response = await describe(await connect(), components, version)
        assert (response.error_code, response.entries) == (code, None)


async def describe(
    client: Client, components: list[tuple[str, int, str | None]], version: int
) -> DescribeClientQuotasResponse:
    requested = [describe_client_quotas.ComponentData(*component) for component in components]
    return await client.ask(DescribeClientQuotasRequest(requested), DescribeClientQuotasResponse, version)


def entry(entity: Entity, *ops: tuple[str, float, bool]) -> alter_client_quotas.EntryData:
    return alter_client_quotas.EntryData(
        [alter_client_quotas.EntityData(*part) for part in entity], [alter_client_quotas.OpData(*op) for op in ops]
    )


@pytest.mark.parametrize("version", range(2))
async def test_requests_set_describe_and_remove(version: int) -> None:
    async with broker() as connect:
        client = await connect()
        entries = [
            entry((*reversed(ALICES_C1),), (PRODUCED, 5.0, False), (CONSUMED, 7.0, False)),
            entry(C1, (PRODUCED, 1.0, False)),
            entry(C1, (PRODUCED, 2.0, False)),
            entry(ALICE, (PRODUCED, 1.0, False), (PRODUCED, 2.0, False)),
        ]
        response = await client.ask(AlterClientQuotasRequest(entries), AlterClientQuotasResponse, version)
        results = {tuple((p.entity_type, p.entity_name) for p in e.entity): e.error_code for e in response.entries}
        assert results == {ALICES_C1: OK, C1: BAD, ALICE: BAD}
        removal = AlterClientQuotasRequest([entry(ALICES_C1, (CONSUMED, 0.0, True))])
        await client.ask(removal, AlterClientQuotasResponse, version)
        described = await describe(client, [], version)
        assert described.entries is not None
        rows = {
            tuple((p.entity_type, p.entity_name) for p in e.entity): {v.key: v.value for v in e.values}
            for e in described.entries
        }
        # Of the entity that came twice the first entry was applied, as in Kafka.
        assert rows == {ALICES_C1: {PRODUCED: 5.0}, C1: {PRODUCED: 1.0}}


def test_quotas_outlive_the_broker(tmp_path: Path) -> None:
    quotas = ClientQuotas(DiskFileSystem(tmp_path))
    quotas.alter({ALICE: {PRODUCED: 5.0}})
    quotas.alter({ANY_USER: {CONSUMED: 7.0}})
    quotas.alter({ALICE: {PRODUCED: None}})
    again = ClientQuotas(DiskFileSystem(tmp_path))
    assert dict(again.describe([], strict=False)) == {ANY_USER: {CONSUMED: 7.0}}


# -- beside a model -----------------------------------------------------------------------------------------------------------

names = st.sampled_from([None, "a"])
entities = st.one_of(
    names.map(lambda user: (("user", user),)),
    names.map(lambda client: (("client-id", client),)),
    st.tuples(names, names).map(lambda both: (("client-id", both[0]), ("user", both[1]))),
    (st.none() | st.just("10.0.0.1")).map(lambda address: (("ip", address),)),
)
rates = st.dictionaries(st.sampled_from([0, 1]), st.none() | st.integers(1, 9).map(float))
EVERY_FILTER: list[list[Component | None]] = [
    [None, *(Component(kind, *match) for match in ((0, "a"), (0, "nobody"), (1, None), (2, None)))]
    for kind in ("user", "client-id")
]


def wanted(entity: Entity, components: list[Component], *, strict: bool) -> bool:
    parts = dict(entity)
    for component in components:
        if component.entity_type not in parts:
            return False
        name = parts[component.entity_type]
        if component.match_type == Match.DEFAULT and name is not None:
            return False
        if component.match_type == Match.EXACT and name != component.name:
            return False
    return not strict or len(parts) == len(components)


@given(st.lists(st.tuples(entities, rates), max_size=20))
def test_alterations_and_every_filter_beside_a_plain_dictionary(
    alterations: list[tuple[Entity, dict[int, float | None]]],
) -> None:
    fs, model = MemoryFileSystem(), dict[Entity, dict[str, float]]()
    for entity, chosen in alterations:
        keys = (CREATED, CREATED) if entity[0][0] == "ip" else (PRODUCED, CONSUMED)
        changes = {keys[n]: value for n, value in chosen.items()}
        ClientQuotas(fs).alter({entity: changes})  # each finds what the one before it kept
        after = {key: v for key, v in {**model.pop(entity, {}), **changes}.items() if v is not None}
        model |= {entity: after} if after else {}

    kept = ClientQuotas(fs)
    for chosen_filters in itertools.product(*EVERY_FILTER):
        components: list[Component] = [component for component in chosen_filters if component is not None]
        for strict in (False, True):
            expected = {entity: model[entity] for entity in model if wanted(entity, components, strict=strict)}
            assert dict(kept.describe(components, strict=strict)) == expected


def test_a_file_that_holds_no_quotas_is_named_with_a_remedy() -> None:
    for content in (b"{", b"[1]", b'[{"entity": [["user"]], "values": {}}]', b'[{"values": {}}]'):
        fs = MemoryFileSystem()
        fs.write_file("client_quotas.json", content)
        with pytest.raises(UnreadableFile, match=r"client_quotas\.json.*restore it from a backup"):
            ClientQuotas(fs)
