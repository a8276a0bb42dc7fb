"""READ of the group and of each topic, for ShareFetch and ShareAcknowledge."""

from __future__ import annotations

from coterie.authorizer.acls import AclOperation
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.share.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from coterie.wire.messages.share.share_fetch import ShareFetchPartition, ShareFetchRequest, ShareFetchTopic
from tests.broker.access.restricted_broker import GROUP, TOPIC, RestrictedBroker


def fetch(topic_id: bytes, epoch: int = 0) -> ShareFetchRequest:
    topics = [ShareFetchTopic(topic_id, [ShareFetchPartition(0)])]
    return ShareFetchRequest("g", "m", epoch, max_bytes=100, max_records=1, topics=topics)


def test_a_topic_that_may_not_be_read() -> None:
    broker = RestrictedBroker()
    topic_id = broker.topics.by_name["t"].topic_id
    assert broker.ask("alice", fetch(topic_id), 2).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    broker.allow("alice", AclOperation.READ, GROUP, "g")
    refused = broker.ask("alice", fetch(topic_id), 2).responses[0].partitions[0]
    assert refused.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    topics = [AcknowledgeTopic(topic_id, [AcknowledgePartition(0)])]
    acknowledge = ShareAcknowledgeRequest("g", "m", 1, topics=topics)
    denied = broker.ask("alice", acknowledge, 2).responses[0].partitions[0]
    assert denied.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    broker.allow("alice", AclOperation.READ, TOPIC, "t")
    allowed = broker.ask("alice", fetch(topic_id), 2).responses[0].partitions[0]
    assert allowed.error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_a_request_without_a_group_is_not_checked() -> None:
    """It is invalid, as in Kafka."""
    request = ShareFetchRequest(None, "m", 0)
    assert RestrictedBroker().ask("alice", request, 2).error_code == ErrorCode.INVALID_REQUEST
