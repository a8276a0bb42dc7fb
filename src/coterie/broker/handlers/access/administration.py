"""Checks of the requests about settings, coordinators and transactions (KafkaApis, ControllerApis, ConfigHelper)."""

from __future__ import annotations

from collections import Counter
from typing import Any

from coterie.authentication.principal import Principal
from coterie.authorizer.acls import AclOperation, AclResourceType
from coterie.broker.handlers.access.access import Access, CheckedRequest, Result
from coterie.broker.handlers.access.refusals import refused
from coterie.broker.handlers.administration.alterations import check_broker_name
from coterie.broker.handlers.cluster import GROUP_KEY, SHARE_FROM, SHARE_KEY, TRANSACTION_KEY
from coterie.broker.handlers.security import delegation_tokens
from coterie.broker.settings.altered_settings import ResourceType
from coterie.broker.storage.topic import INTERNAL_TOPICS, is_legal_name
from coterie.broker.transactions import added_partitions
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.groups.find_coordinator import SEVERAL_FROM, Coordinator, coordinators_response, keys_of
from coterie.wire.messages.security.describe_delegation_token import (
    DescribedDelegationToken,
    DescribeDelegationTokenResponse,
)
from coterie.wire.messages.settings.alter_configs import ReplacedResourceResponse
from coterie.wire.messages.settings.describe_configs import DescribeConfigsResult
from coterie.wire.messages.settings.incremental_alter_configs import AlterConfigsResourceResponse
from coterie.wire.messages.transactions.add_partitions_to_txn import (
    SEVERAL_FROM as FROM_BROKERS,
)
from coterie.wire.messages.transactions.add_partitions_to_txn import (
    AddPartitionsToTxnResponse,
    transactions_of,
)
from coterie.wire.messages.transactions.describe_producers import (
    DescribeProducersPartitionResponse,
    DescribeProducersTopicResponse,
)
from coterie.wire.messages.transactions.describe_transactions import DescribedTransaction

_O, _DENIED = AclOperation, ErrorCode.TOPIC_AUTHORIZATION_FAILED
_OF_TRANSACTIONAL_ID = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
_OF_CLUSTER = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
_CLUSTER_RESOURCES = (ResourceType.BROKER, ResourceType.BROKER_LOGGER, ResourceType.CLIENT_METRICS)


# -- delegation tokens --------------------------------------------------------------------------------------------------


def create_delegation_token(checked: CheckedRequest) -> Result:
    """CREATE_TOKENS of the user whose the token will be, unless that is the client (KIP-373)."""
    request, connection = checked.request, checked.call.connection
    owner, requester = delegation_tokens.owner_of(request, connection.principal), connection.principal
    is_denied = owner != requester and delegation_tokens.may_request(connection)
    if is_denied and not checked.access.allows(_O.CREATE_TOKENS, AclResourceType.USER, owner.text):
        return delegation_tokens.refused_creation(owner, requester, ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
    return checked.proceed()


def describe_delegation_token(checked: CheckedRequest) -> Result:
    """The client's own tokens; others by DESCRIBE of the token, or DESCRIBE_TOKENS of its owner."""
    access, principal = checked.access, checked.call.connection.principal

    def is_shown(token: DescribedDelegationToken) -> bool:
        owner = Principal(token.principal_type, token.principal_name)
        requester = Principal(token.token_requester_principal_type, token.token_requester_principal_name)
        renewers = [Principal(renewer.principal_type, renewer.principal_name) for renewer in token.renewers]
        return (
            principal in (owner, requester, *renewers)
            or access.allows(_O.DESCRIBE, AclResourceType.DELEGATION_TOKEN, token.token_id, is_reported=False)
            or access.allows(_O.DESCRIBE_TOKENS, AclResourceType.USER, owner.text, is_reported=False)
        )

    def leave_out(response: DescribeDelegationTokenResponse) -> None:
        response.tokens = [token for token in response.tokens if is_shown(token)]

    return checked.then(leave_out)


# -- settings -----------------------------------------------------------------------------------------------------------


def _config_refusal(access: Access, operation: AclOperation, kind: int, name: str) -> ErrorCode | None:
    """The code for a resource of settings that is denied."""
    if kind == ResourceType.TOPIC:
        return None if access.allows_topic(operation, name) else _DENIED
    if kind == ResourceType.GROUP:
        return None if access.allows_group(operation, name) else ErrorCode.GROUP_AUTHORIZATION_FAILED
    return None if kind not in _CLUSTER_RESOURCES or access.allows_cluster(operation) else _OF_CLUSTER


def describe_configs(checked: CheckedRequest) -> Result:
    """Each resource, unless one is of a type without settings, for which all are refused."""
    request, access = checked.request, checked.access
    if any(resource.resource_type not in ResourceType.__members__.values() for resource in request.resources):
        return checked.proceed()
    rows, allowed = [], []
    for resource in request.resources:
        kind, name = resource.resource_type, resource.resource_name
        code = _config_refusal(access, _O.DESCRIBE_CONFIGS, kind, name)
        if code is None:
            allowed.append(resource)
        else:
            rows.append(DescribeConfigsResult(code, code.text, kind, name))
    request.resources = allowed

    def add(response: Any) -> None:
        response.results += rows

    return checked.then(add) if rows else checked.proceed()


def alter_configs(checked: CheckedRequest) -> Result:
    return _alter_configs(checked, ReplacedResourceResponse)


def incremental_alter_configs(checked: CheckedRequest) -> Result:
    return _alter_configs(checked, AlterConfigsResourceResponse)


def _alter_configs(checked: CheckedRequest, row: type[Any]) -> Result:
    """Each resource that is named once; the broker's own are refused for their name before."""
    request, access = checked.request, checked.access
    times = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    rows, allowed = [], []
    for resource in request.resources:
        kind, name = resource.resource_type, resource.resource_name
        code = None
        if times[kind, name] == 1 and not _is_misnamed(checked, kind, name):
            code = _config_refusal(access, _O.ALTER_CONFIGS, kind, name)
        if code is None:
            allowed.append(resource)
        else:
            rows.append(row(code, code.text, kind, name))
    request.resources = allowed

    def add(response: Any) -> None:
        response.responses += rows

    return checked.then(add) if rows else checked.proceed()


def _is_misnamed(checked: CheckedRequest, kind: int, name: str) -> bool:
    """Whether it is another broker's name, or none, which the handler refuses (Kafka's ConfigAdminManager)."""
    if kind != ResourceType.BROKER or not name:
        return False
    try:
        check_broker_name(checked.broker, name)
    except Refusal:
        return True
    return False


# -- coordinators and transactions ----------------------------------------------------------------------------------------


def find_coordinator(checked: CheckedRequest) -> Result:
    """Each key: a group, or a transactional id."""
    request, version, access = checked.request, checked.call.api_version, checked.access
    keys = keys_of(request, version)
    if request.key_type == SHARE_KEY and version >= SHARE_FROM and not access.allows_cluster(_O.CLUSTER_ACTION):
        return coordinators_response(version, [_no_coordinator(key, _OF_CLUSTER, version) for key in keys])
    if request.key_type == GROUP_KEY:
        denied = {
            key: ErrorCode.GROUP_AUTHORIZATION_FAILED for key in keys if not access.allows_group(_O.DESCRIBE, key)
        }
    elif request.key_type == TRANSACTION_KEY:
        denied = {key: _OF_TRANSACTIONAL_ID for key in keys if not access.allows_transactional_id(_O.DESCRIBE, key)}
    else:
        denied = {}
    if not denied:
        return checked.proceed()
    if version < SEVERAL_FROM:
        return coordinators_response(version, [_no_coordinator(key, code, version) for key, code in denied.items()])
    request.coordinator_keys = [key for key in keys if key not in denied]

    def merge(response: Any) -> None:
        by_key = {coordinator.key: coordinator for coordinator in response.coordinators}
        by_key |= {key: _no_coordinator(key, code, version) for key, code in denied.items()}
        response.coordinators = [by_key[key] for key in dict.fromkeys(keys)]

    return checked.then(merge)


def _no_coordinator(key: str, code: ErrorCode, version: int) -> Coordinator:
    return Coordinator(key, -1, "", -1, code, code.text if version < SEVERAL_FROM else "")


def init_producer_id(checked: CheckedRequest) -> Result:
    """The transactional id; without one, IDEMPOTENT_WRITE of the cluster or WRITE of any topic (KIP-679)."""
    request, version, access = checked.request, checked.call.api_version, checked.access
    if request.transactional_id is not None:
        if not access.allows_transactional_id(_O.WRITE, request.transactional_id):
            return refused(request, version, _OF_TRANSACTIONAL_ID)
    elif not access.allows_for_any(_O.WRITE, AclResourceType.TOPIC) and not access.allows_cluster(_O.IDEMPOTENT_WRITE):
        return refused(request, version, _OF_CLUSTER)
    return checked.proceed()


def add_partitions_to_txn(checked: CheckedRequest) -> Result:
    """A client's: the transactional id and each topic, of which one that is denied leaves all others unattempted."""
    request, version, access = checked.request, checked.call.api_version, checked.access
    if version >= FROM_BROKERS:
        return checked.proceed() if access.allows_cluster(_O.CLUSTER_ACTION) else refused(request, version, _OF_CLUSTER)
    if not access.allows_transactional_id(_O.WRITE, request.transactional_id):
        return refused(request, version, _OF_TRANSACTIONAL_ID)
    topics = dict.fromkeys(topic.name for topic in request.topics if topic.name not in INTERNAL_TOPICS)
    denied = {topic for topic in topics if not access.allows_topic(_O.WRITE, topic)}
    if not denied:
        return checked.proceed()
    (transaction,) = transactions_of(request, version)
    wanted = added_partitions.partitions_of(transaction)
    codes = added_partitions.refused_partitions(checked.broker.topics, wanted, from_broker=False)
    codes = codes or dict.fromkeys(wanted, ErrorCode.OPERATION_NOT_ATTEMPTED)
    codes |= {partition: _DENIED for partition in wanted if partition[0] in denied}
    return AddPartitionsToTxnResponse(results_by_topic=added_partitions.rows(transaction, codes))


def describe_producers(checked: CheckedRequest) -> Result:
    """Each topic whose name could be one."""
    request, access = checked.request, checked.access
    names = dict.fromkeys(topic.name for topic in request.topics if is_legal_name(topic.name))
    denied = {name for name in names if not access.allows_topic(_O.READ, name)}
    if not denied:
        return checked.proceed()
    order = request.topics
    request.topics = [topic for topic in order if topic.name not in denied]

    def merge(response: Any) -> None:
        described = iter(response.topics)
        response.topics = [
            DescribeProducersTopicResponse(
                topic.name,
                [DescribeProducersPartitionResponse(p, _DENIED, _DENIED.text) for p in topic.partition_indexes],
            )
            if topic.name in denied
            else next(described)
            for topic in order
        ]

    return checked.then(merge)


def describe_transactions(checked: CheckedRequest) -> Result:
    """Each transactional id; of its topics, what may be described is shown."""
    request, access = checked.request, checked.access
    order = request.transactional_ids
    denied = {name for name in order if not access.allows_transactional_id(_O.DESCRIBE, name)}
    request.transactional_ids = [name for name in order if name not in denied]

    def merge(response: Any) -> None:
        for state in response.transaction_states:
            state.topics = [topic for topic in state.topics if access.allows_topic(_O.DESCRIBE, topic.topic)]
        described = iter(response.transaction_states)
        response.transaction_states = [
            DescribedTransaction(_OF_TRANSACTIONAL_ID, name) if name in denied else next(described) for name in order
        ]

    return checked.then(merge)


def list_transactions(checked: CheckedRequest) -> Result:
    """The transactional ids that may be described."""

    def keep(response: Any) -> None:
        response.transaction_states = [
            state
            for state in response.transaction_states
            if checked.access.allows_transactional_id(_O.DESCRIBE, state.transactional_id, is_reported=False)
        ]

    return checked.then(keep)
