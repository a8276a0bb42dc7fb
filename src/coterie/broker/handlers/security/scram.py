"""SCRAM credentials of users: what the requests say in terms of `clients.scram_credentials`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from typing import TYPE_CHECKING

from coterie.authentication.sasl import ScramMechanism
from coterie.broker.clients.scram_credentials import Credential
from coterie.broker.handlers.administration.cluster_responses import refreshed, refusal_of, responded_by
from coterie.broker.handlers.services import ClientServices, Handler
from coterie.broker.requests.calls import Call
from coterie.broker.requests.pending import Pending
from coterie.broker.requests.turns import Work, each_at_once
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, Refusal, short_text
from coterie.wire.messages.security.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from coterie.wire.messages.security.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from coterie.zookeeper.operations import ZooKeeperError

if TYPE_CHECKING:
    from coterie.broker.cluster.entity_settings import ClientEntities


def handle_describe_user_scram_credentials(
    broker: ClientServices, request: DescribeUserScramCredentialsRequest, call: Call
) -> Message | Pending:
    """The credentials of the users requested, each once; no list, or an empty one, requests all."""
    describing = _describe(broker, request)
    if broker.client_entities is None:
        return broker.turns.run(describing)
    return responded_by(refreshed(broker.client_entities.read_credentials, describing))


def _describe(broker: ClientServices, request: DescribeUserScramCredentialsRequest) -> Generator[None, None, Message]:
    requested = Counter(user.name for user in request.users or ())
    response = DescribeUserScramCredentialsResponse(error_message="")
    for user in requested or broker.clients.scram_credentials.users():
        iterations = broker.clients.scram_credentials.iterations(user)
        result = DescribeUserScramCredentialsResult(user, error_message="")
        if requested[user] > 1:
            result.error_code = ErrorCode.DUPLICATE_RESOURCE
            result.error_message = short_text(f"the request names user {user} twice")
        elif not iterations:
            result.error_code = ErrorCode.RESOURCE_NOT_FOUND
            result.error_message = short_text(f"user {user} has no SCRAM credentials")
        else:
            result.credential_infos = [CredentialInfo(mechanism, count) for mechanism, count in iterations.items()]
        response.results.append(result)
        yield
    return response


def handle_alter_user_scram_credentials(
    broker: ClientServices, request: AlterUserScramCredentialsRequest, call: Call
) -> Message | Pending:
    """KIP-554: one result for each user; a user that comes twice has DUPLICATE_RESOURCE."""
    changes = [Credential(d.name, d.mechanism) for d in request.deletions]
    changes += [Credential(u.name, u.mechanism, u.iterations, u.salt, u.salted_password) for u in request.upsertions]
    if broker.client_entities is None:
        return broker.turns.run(_alter(broker, changes))
    return responded_by(_alter_in_cluster(broker, broker.client_entities, changes))


def _alter(broker: ClientServices, changes: list[Credential]) -> Work:
    return _response((yield from broker.clients.scram_credentials.altering(changes)))


async def _alter_in_cluster(broker: ClientServices, entities: ClientEntities, changes: list[Credential]) -> Message:
    """What a removal removes has to be known before it is checked."""
    credentials = broker.clients.scram_credentials
    results, accepted = await refreshed(entities.read_credentials, credentials.checked(changes))

    async def alter(user: str) -> None:
        change, kept = accepted[user]
        try:
            await entities.alter_credential(user, ScramMechanism(change.mechanism), kept)
        except ZooKeeperError as error:
            results[user] = refusal_of(error)

    await each_at_once(accepted, alter)
    return _response(results)


def _response(results: dict[str, Refusal | None]) -> Message:
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user)
            if refusal is None
            else AlterUserScramCredentialsResult(user, refusal.code, refusal.message)
            for user, refusal in results.items()
        ]
    )


HANDLERS: dict[int, Handler] = {50: handle_describe_user_scram_credentials, 51: handle_alter_user_scram_credentials}
