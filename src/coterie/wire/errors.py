"""The one table of Kafka's error codes: code, name, whether a client may try again, its text.

Source: org.apache.kafka.common.protocol.Errors. Names and codes are Kafka's; the texts are ours.
"""

from __future__ import annotations

from enum import IntEnum


class ErrorCode(IntEnum):
    """A Kafka error code. ``retriable`` tells whether the same request may succeed later."""

    retriable: bool
    text: str

    def __new__(cls, code: int, retriable: bool, text: str) -> ErrorCode:
        member = int.__new__(cls, code)
        member._value_ = code
        member.retriable = retriable
        member.text = text
        return member

    UNKNOWN_SERVER_ERROR = -1, False, "the broker met an unexpected error"
    NONE = 0, False, "no error"
    OFFSET_OUT_OF_RANGE = 1, False, "the offset is outside of what the log holds"
    CORRUPT_MESSAGE = 2, True, "the record batch is damaged: checksum, size or format is wrong"
    UNKNOWN_TOPIC_OR_PARTITION = 3, True, "this broker has no such topic or partition"
    INVALID_FETCH_SIZE = 4, False, "the fetch size is not valid"
    LEADER_NOT_AVAILABLE = 5, True, "the partition has no leader at this moment"
    NOT_LEADER_OR_FOLLOWER = 6, True, "this broker does not lead that partition"
    REQUEST_TIMED_OUT = 7, True, "the request timed out"
    BROKER_NOT_AVAILABLE = 8, False, "the broker is not available"
    REPLICA_NOT_AVAILABLE = 9, True, "the replica is not available"
    MESSAGE_TOO_LARGE = 10, False, "the record batch is larger than max.message.bytes"
    STALE_CONTROLLER_EPOCH = 11, False, "the controller that sent this was replaced by another"
    OFFSET_METADATA_TOO_LARGE = 12, False, "the metadata text of the offset is longer than offset.metadata.max.bytes"
    NETWORK_EXCEPTION = 13, True, "the connection was lost before the response came"
    COORDINATOR_LOAD_IN_PROGRESS = 14, True, "the coordinator is loading the group"
    COORDINATOR_NOT_AVAILABLE = 15, True, "the coordinator is not available"
    NOT_COORDINATOR = 16, True, "this broker is not the coordinator of that group"
    INVALID_TOPIC_EXCEPTION = 17, False, "the topic name is not valid, or the topic is internal"
    RECORD_LIST_TOO_LARGE = 18, False, "the batch is larger than the segment size"
    NOT_ENOUGH_REPLICAS = 19, True, "fewer replicas are in sync than the topic requires"
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, True, "written to fewer replicas than the topic requires"
    INVALID_REQUIRED_ACKS = 21, False, "acks must be -1, 0 or 1"
    ILLEGAL_GENERATION = 22, False, "the generation is not the group's current one"
    INCONSISTENT_GROUP_PROTOCOL = 23, False, "the protocol type or protocols do not fit those of the group"
    INVALID_GROUP_ID = 24, False, "the group id is not valid"
    UNKNOWN_MEMBER_ID = 25, False, "the coordinator does not know that member"
    INVALID_SESSION_TIMEOUT = (
        26,
        False,
        "the session timeout is outside of group.min.session.timeout.ms and group.max.session.timeout.ms",
    )
    REBALANCE_IN_PROGRESS = 27, False, "the group is rebalancing, so the member must join again"
    INVALID_COMMIT_OFFSET_SIZE = 28, False, "the commit is larger than a record may be"
    TOPIC_AUTHORIZATION_FAILED = 29, False, "not authorized for the topic"
    GROUP_AUTHORIZATION_FAILED = 30, False, "not authorized for the group"
    CLUSTER_AUTHORIZATION_FAILED = 31, False, "not authorized for the cluster"
    INVALID_TIMESTAMP = 32, False, "the timestamp is not acceptable"
    UNSUPPORTED_SASL_MECHANISM = 33, False, "the broker has no such SASL mechanism"
    ILLEGAL_SASL_STATE = 34, False, "the authentication is not at that step"
    UNSUPPORTED_VERSION = 35, False, "the broker does not support that version of the request"
    TOPIC_ALREADY_EXISTS = 36, False, "a topic of that name exists"
    INVALID_PARTITIONS = 37, False, "the number of partitions is not valid"
    INVALID_REPLICATION_FACTOR = 38, False, "the replication factor is not valid for this cluster"
    INVALID_REPLICA_ASSIGNMENT = 39, False, "the replica assignment is not valid"
    INVALID_CONFIG = 40, False, "a setting is not valid"
    NOT_CONTROLLER = 41, True, "this broker is not the controller"
    INVALID_REQUEST = 42, False, "the request makes no sense to the broker"
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, False, "the record format does not support the request"
    POLICY_VIOLATION = 44, False, "a policy of the broker forbids the request"
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, False, "the producer's sequence number leaves a gap"
    DUPLICATE_SEQUENCE_NUMBER = 46, False, "the producer's sequence number was seen before"
    INVALID_PRODUCER_EPOCH = 47, False, "the producer's epoch is old"
    INVALID_TXN_STATE = 48, False, "the transaction is in another state"
    INVALID_PRODUCER_ID_MAPPING = 49, False, "the producer id does not belong to that transactional id"
    INVALID_TRANSACTION_TIMEOUT = 50, False, "the transaction timeout is more than the broker allows"
    CONCURRENT_TRANSACTIONS = 51, True, "the transaction before is not yet at its end"
    TRANSACTION_COORDINATOR_FENCED = 52, False, "the transaction coordinator was replaced"
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, False, "not authorized for the transactional id"
    SECURITY_DISABLED = 54, False, "the broker has no authorizer configured"
    OPERATION_NOT_ATTEMPTED = 55, False, "another part of the same request failed"
    KAFKA_STORAGE_ERROR = 56, True, "the broker's disk failed"
    LOG_DIR_NOT_FOUND = 57, False, "the broker has no such log directory"
    SASL_AUTHENTICATION_FAILED = 58, False, "the authentication failed"
    UNKNOWN_PRODUCER_ID = 59, False, "the broker no longer knows that producer id"
    REASSIGNMENT_IN_PROGRESS = 60, False, "a reassignment of the partition is in progress"
    DELEGATION_TOKEN_AUTH_DISABLED = 61, False, "delegation tokens are not enabled on the broker"
    DELEGATION_TOKEN_NOT_FOUND = 62, False, "the broker does not know that delegation token"
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, False, "the delegation token belongs to another user"
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, False, "delegation tokens need an authenticated connection"
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, False, "not authorized for the delegation token"
    DELEGATION_TOKEN_EXPIRED = 66, False, "the delegation token has expired"
    INVALID_PRINCIPAL_TYPE = 67, False, "the type of a principal is not User"
    NON_EMPTY_GROUP = 68, False, "the group has members"
    GROUP_ID_NOT_FOUND = 69, False, "there is no such group"
    FETCH_SESSION_ID_NOT_FOUND = 70, True, "there is no such fetch session"
    INVALID_FETCH_SESSION_EPOCH = 71, True, "the epoch of the fetch session is not valid"
    LISTENER_NOT_FOUND = 72, True, "the leader has no listener of that name"
    TOPIC_DELETION_DISABLED = 73, False, "delete.topic.enable is off"
    FENCED_LEADER_EPOCH = 74, True, "the leader epoch is old"
    UNKNOWN_LEADER_EPOCH = 75, True, "the leader epoch is newer than the broker's"
    UNSUPPORTED_COMPRESSION_TYPE = 76, False, "the client cannot read that compression"
    STALE_BROKER_EPOCH = 77, False, "the broker epoch is old"
    OFFSET_NOT_AVAILABLE = 78, True, "the offset is not available yet"
    MEMBER_ID_REQUIRED = 79, False, "join again with the member id of this response"
    PREFERRED_LEADER_NOT_AVAILABLE = 80, True, "the preferred leader is not available"
    GROUP_MAX_SIZE_REACHED = 81, False, "the group has group.max.size members"
    FENCED_INSTANCE_ID = 82, False, "another member took over that group.instance.id"
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, True, "no replica may become the leader"
    ELECTION_NOT_NEEDED = 84, True, "the partition has the leader that an election would give it"
    NO_REASSIGNMENT_IN_PROGRESS = 85, False, "no reassignment of the partition is in progress"
    GROUP_SUBSCRIBED_TO_TOPIC = 86, False, "members of the group subscribe to the topic"
    INVALID_RECORD = 87, False, "the broker rejects the batch because of one of its records"
    UNSTABLE_OFFSET_COMMIT = 88, True, "a transaction has offsets of that partition pending"
    THROTTLING_QUOTA_EXCEEDED = 89, True, "the quota is used up"
    PRODUCER_FENCED = 90, False, "a newer producer has the same transactional id"
    RESOURCE_NOT_FOUND = 91, False, "there is no such resource"
    DUPLICATE_RESOURCE = 92, False, "the request names the same resource twice"
    UNACCEPTABLE_CREDENTIAL = 93, False, "the credential does not meet the broker's rules"
    INVALID_UPDATE_VERSION = 95, False, "the feature level is not valid"
    FEATURE_UPDATE_FAILED = 96, False, "the finalized features could not be updated"
    UNKNOWN_TOPIC_ID = 100, True, "this broker has no topic with that id"
    BROKER_ID_NOT_REGISTERED = 102, False, "no broker is registered under that id"
    INCONSISTENT_TOPIC_ID = 103, True, "the topic id is not the one the request means"
    INCONSISTENT_CLUSTER_ID = 104, False, "the cluster id of the request is not the broker's"
    TRANSACTIONAL_ID_NOT_FOUND = 105, False, "there is no such transactional id"
    FETCH_SESSION_TOPIC_ID_ERROR = (
        106,
        True,
        "the fetch session was made with topic names, the request has ids, or the reverse",
    )
    FENCED_MEMBER_EPOCH = 110, False, "the member epoch is old"
    UNRELEASED_INSTANCE_ID = 111, False, "the member that has that instance id is still in the group"
    UNSUPPORTED_ASSIGNOR = 112, False, "the broker has no such assignor for consumer groups"
    STALE_MEMBER_EPOCH = 113, False, "the member epoch is not the current one"
    MISMATCHED_ENDPOINT_TYPE = 114, False, "the request was meant for an endpoint of another type"
    UNSUPPORTED_ENDPOINT_TYPE = 115, False, "the broker does not know that endpoint type"
    UNKNOWN_SUBSCRIPTION_ID = 117, False, "the telemetry subscription changed; request it again"
    TELEMETRY_TOO_LARGE = 118, False, "the telemetry is larger than telemetry.max.bytes"
    TRANSACTION_ABORTABLE = 120, False, "the transaction must be aborted; the producer may go on"
    INVALID_RECORD_STATE = 121, False, "the record is not acquired by that member, or not any longer"
    SHARE_SESSION_NOT_FOUND = 122, True, "there is no share session of that member; open one"
    INVALID_SHARE_SESSION_EPOCH = 123, True, "the epoch of the share session is not the one that must follow"
    FENCED_STATE_EPOCH = 124, False, "the state of the share partition was initialized again since"
    INVALID_REGULAR_EXPRESSION = 128, False, "the regular expression is not one of RE2"
    REBOOTSTRAP_REQUIRED = 129, False, "the client means to reach another cluster or broker; it must bootstrap again"
    STREAMS_INVALID_TOPOLOGY = 130, False, "the topology is not valid"
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, False, "the topology's epoch is not valid"
    STREAMS_TOPOLOGY_FENCED = 132, False, "the topology's epoch is older than the group's"
    SHARE_SESSION_LIMIT_REACHED = 133, True, "the broker has as many share sessions as it may have"
    GROUP_DELETION_FAILED = 134, False, "the group could not be deleted; the message of its result says why"
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED = 135, False, "the description of the topology could not be kept"
    CONTROLLER_ID_NOT_REGISTERED = 136, False, "no controller with that id is registered"


# After these, also where no response came, a client looks the coordinator up again.
COORDINATOR_LOST = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
_BY_CODE: dict[int, ErrorCode] = {int(member): member for member in ErrorCode}


def error_of(code: int) -> ErrorCode:
    """The error of a code; one that this table lacks counts as UNKNOWN_SERVER_ERROR."""
    return _BY_CODE.get(code, ErrorCode.UNKNOWN_SERVER_ERROR)


MAX_TEXT_LENGTH = 8_000  # which fits into a string of the wire whatever its characters are


def short_text(text: str) -> str:
    """An error's text, cut where it repeats a name of 32 kB: with another word it would be longer than a string may be."""
    return text if len(text) <= MAX_TEXT_LENGTH else text[: MAX_TEXT_LENGTH - 1] + "…"


class Refusal(Exception):
    """A request to which the broker returns an error code: an expected response, never a fault of the program."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        message = message and short_text(message)
        super().__init__(message or code.text)
        self.code = code
        self.message = message
