"""Client quotas: what the requests say in terms of `clients.quotas`."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from coterie.broker.clients.quotas import Component
from coterie.broker.handlers.administration.cluster_responses import in_turns, refreshed, refusal_of, responded_by
from coterie.broker.handlers.services import ClientServices, Handler
from coterie.broker.requests.calls import Call
from coterie.broker.requests.pending import Pending
from coterie.broker.requests.turns import each_at_once
from coterie.quotas import Entity
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.settings import alter_client_quotas, describe_client_quotas
from coterie.wire.messages.settings.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredEntry,
)
from coterie.wire.messages.settings.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    ValueData,
)
from coterie.zookeeper.operations import ZooKeeperError

if TYPE_CHECKING:
    from coterie.broker.cluster.entity_settings import ClientEntities


def handle_describe_client_quotas(
    broker: ClientServices, request: DescribeClientQuotasRequest, call: Call
) -> Message | Pending:
    """KIP-546. INVALID_REQUEST, UNSUPPORTED_VERSION for a filter that cannot be."""
    describing = _describe(broker, request)
    if broker.client_entities is None:
        return broker.turns.run(describing)
    return responded_by(refreshed(broker.client_entities.read_quotas, describing))


def _describe(broker: ClientServices, request: DescribeClientQuotasRequest) -> Generator[None, None, Message]:
    entries = []
    try:
        components = [Component(c.entity_type, c.match_type, c.match) for c in request.components]
        for entity, values in broker.clients.quotas.describe(components, strict=request.strict):
            entries.append(
                describe_client_quotas.EntryData(
                    [describe_client_quotas.EntityData(kind, name) for kind, name in entity],
                    [ValueData(key, value) for key, value in values.items()],
                )
            )
            yield
    except Refusal as refusal:
        return DescribeClientQuotasResponse(error_code=refusal.code, error_message=refusal.message, entries=None)
    return DescribeClientQuotasResponse(error_message="", entries=entries)


def handle_alter_client_quotas(
    broker: ClientServices, request: AlterClientQuotasRequest, call: Call
) -> Message | Pending:
    """One result for each entity. Of an entity that comes twice the first entry is applied, and the result is an error."""
    if broker.client_entities is None:
        return broker.turns.run(_alter(broker, request))
    return responded_by(_alter_in_cluster(broker, broker.client_entities, request))


def _alter(broker: ClientServices, request: AlterClientQuotasRequest) -> Generator[None, None, Message]:
    """All are checked, and then kept with one write."""
    results, altered = yield from _checked(broker, request)
    if altered:
        try:
            broker.clients.quotas.alter(altered)
        except OSError as error:
            text = f"the quotas cannot be written: {error.strerror}"
            results |= dict.fromkeys(altered, Refusal(ErrorCode.KAFKA_STORAGE_ERROR, text))
    yield
    return _response(results)


async def _alter_in_cluster(
    broker: ClientServices, entities: ClientEntities, request: AlterClientQuotasRequest
) -> Message:
    """Each entity has a node of its own."""
    results, altered = await in_turns(_checked(broker, request))

    async def alter(item: tuple[Entity, dict[str, float | None]]) -> None:
        entity, changes = item
        try:
            await entities.alter_quotas(entity, changes)
        except (Refusal, ZooKeeperError) as error:
            results[entity] = refusal_of(error)

    await each_at_once(altered.items(), alter)
    return _response(results)


def _checked(
    broker: ClientServices, request: AlterClientQuotasRequest
) -> Generator[None, None, tuple[dict[Entity, Refusal | None], dict[Entity, dict[str, float | None]]]]:
    """The result of each entity, and the changes that are to be made."""
    results: dict[Entity, Refusal | None] = {}
    altered: dict[Entity, dict[str, float | None]] = {}
    for entry in request.entries:
        entity = tuple(sorted({part.entity_type: part.entity_name for part in entry.entity}.items()))
        changes = {op.key: None if op.remove else op.value for op in entry.ops}
        if entity in results or len(changes) < len(entry.ops):
            results[entity] = Refusal(ErrorCode.INVALID_REQUEST, "an entity, and each of its quotas, may come once")
            continue
        results[entity] = None
        try:
            broker.clients.quotas.check(entity, changes)
            if changes:
                altered[entity] = changes
        except Refusal as refusal:
            results[entity] = refusal
        yield
    return results, {} if request.validate_only else altered


def _response(results: dict[Entity, Refusal | None]) -> Message:
    return AlterClientQuotasResponse(
        entries=[
            AlteredEntry(
                ErrorCode.NONE if refusal is None else refusal.code,
                None if refusal is None else refusal.message,
                [alter_client_quotas.EntityData(kind, name) for kind, name in entity],
            )
            for entity, refusal in results.items()
        ]
    )


HANDLERS: dict[int, Handler] = {48: handle_describe_client_quotas, 49: handle_alter_client_quotas}
