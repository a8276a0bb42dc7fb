"""Groups of the consumer protocol (KIP-848): ConsumerGroupHeartbeat and ConsumerGroupDescribe."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial

from coterie.authorizer.acls import AclOperation
from coterie.broker.handlers.access.access import GROUP_OPERATIONS, access_of
from coterie.broker.handlers.coordinators.groups import hand_over
from coterie.broker.handlers.services import GroupServices, Handler
from coterie.broker.requests.calls import Call
from coterie.broker.requests.pending import Pending
from coterie.broker.requests.turns import distinct
from coterie.broker.settings.features import GROUP_VERSION
from coterie.coordinator.views.consumer_group import describe_consumer_group
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.groups.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from coterie.wire.messages.groups.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

PROTOCOL = "consumer"


def is_enabled(broker: GroupServices) -> bool:
    """By group.coordinator.rebalance.protocols and the feature group.version (Kafka's isConsumerGroupProtocolEnabled)."""
    has_feature = broker.features.level(GROUP_VERSION) >= 1
    return has_feature and PROTOCOL in broker.settings.current.group_coordinator_rebalance_protocols


def handle_consumer_group_heartbeat(
    broker: GroupServices, request: ConsumerGroupHeartbeatRequest, call: Call
) -> Message | Pending:
    """UNSUPPORTED_VERSION where the protocol is not enabled; otherwise the core decides."""
    if not is_enabled(broker):
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    access = access_of(broker, call)
    if access is None or not request.subscribed_topic_regex:
        return hand_over(broker.groups, request, call)
    pending = Pending()
    pending.may_describe = partial(access.allows_topic, AclOperation.DESCRIBE, is_reported=False)
    broker.groups.submit(request, pending, call.api_version, call.client_id, call.connection.host)
    return pending


def handle_consumer_group_describe(
    broker: GroupServices, request: ConsumerGroupDescribeRequest, call: Call
) -> Message | Pending:
    """Each group once: UNSUPPORTED_VERSION, INVALID_GROUP_ID, or GROUP_ID_NOT_FOUND of the core."""
    return broker.turns.run(_describe(broker, request))


def _describe(broker: GroupServices, request: ConsumerGroupDescribeRequest) -> Generator[None, None, Message]:
    response = ConsumerGroupDescribeResponse()
    for group_id in distinct(request.group_ids, str):
        yield
        described = _described(broker, group_id)
        if request.include_authorized_operations and not described.error_code:
            described.authorized_operations = GROUP_OPERATIONS
        response.groups.append(described)
    return response


def _described(broker: GroupServices, group_id: str) -> DescribedGroup:
    if not is_enabled(broker):
        return DescribedGroup(ErrorCode.UNSUPPORTED_VERSION, group_id=group_id)
    if not group_id:
        return DescribedGroup(ErrorCode.INVALID_GROUP_ID, group_id=group_id)
    try:
        group = broker.groups.group(group_id)
    except Refusal as refusal:
        return DescribedGroup(refusal.code, group_id=group_id)
    config = broker.groups.config_of(group_id)
    image = broker.groups.topics_view.image()
    return describe_consumer_group(group, group_id, image, config.consumer_group_assignors)


HANDLERS: dict[int, Handler] = {68: handle_consumer_group_heartbeat, 69: handle_consumer_group_describe}
