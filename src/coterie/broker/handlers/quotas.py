"""Client quotas: what the requests say in terms of `broker.quotas`."""

from __future__ import annotations

from coterie.broker.calls import Call
from coterie.broker.quotas import Component, Entity
from coterie.broker.services import ClientServices, Handler
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages import alter_client_quotas, describe_client_quotas
from coterie.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredEntry,
)
from coterie.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    ValueData,
)


def handle_describe_client_quotas(
    broker: ClientServices, request: DescribeClientQuotasRequest, call: Call
) -> DescribeClientQuotasResponse:
    """KIP-546. INVALID_REQUEST, UNSUPPORTED_VERSION for a filter that cannot be."""
    try:
        components = [Component(c.entity_type, c.match_type, c.match) for c in request.components]
        matching = list(broker.quotas.describe(components, strict=request.strict))
    except Refusal as refusal:
        return DescribeClientQuotasResponse(error_code=refusal.code, error_message=refusal.message, entries=None)
    return DescribeClientQuotasResponse(
        error_message="",
        entries=[
            describe_client_quotas.EntryData(
                [describe_client_quotas.EntityData(kind, name) for kind, name in entity],
                [ValueData(key, value) for key, value in values.items()],
            )
            for entity, values in matching
        ],
    )


def handle_alter_client_quotas(
    broker: ClientServices, request: AlterClientQuotasRequest, call: Call
) -> AlterClientQuotasResponse:
    """One result for each entity. Of an entity that comes twice the first entry is applied, and the result is an error."""
    results: dict[Entity, Refusal | None] = {}
    for entry in request.entries:
        entity = tuple(sorted({part.entity_type: part.entity_name for part in entry.entity}.items()))
        changes = {op.key: None if op.remove else op.value for op in entry.ops}
        if entity in results or len(changes) < len(entry.ops):
            results[entity] = Refusal(ErrorCode.INVALID_REQUEST, "an entity, and each of its quotas, may come once")
            continue
        results[entity] = None
        try:
            broker.quotas.alter(entity, changes, validate_only=request.validate_only)
        except Refusal as refusal:
            results[entity] = refusal
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
