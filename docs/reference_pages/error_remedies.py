"""What a caller does about each error that a retry alone does not mend. Kafka's clients act alike (their handling of
`Errors` in AbstractCoordinator, Sender, TransactionManager and Fetcher)."""

from __future__ import annotations

from coterie.wire.errors import ErrorCode as E

_RETRY = "Send the request again after a pause; clients do so themselves."
_LOOK_UP = "Look up the leader or the coordinator, then send the request again; clients do so themselves."
_AS_ADMINISTRATOR = "Ask the cluster's administrator for the right; a retry cannot help."
_CORRECT = "Correct the request or the setting; a retry cannot help."
_NEW_PRODUCER = "Close this producer; a new one under the same transactional.id goes on."
_OF_BROKERS = "Nothing: brokers alone meet it."

REMEDIES: dict[E, str] = {
    E.UNKNOWN_SERVER_ERROR: "Look into the broker's log.",
    E.NONE: "Nothing.",
    E.REBOOTSTRAP_REQUIRED: "Connect to the bootstrap.servers again and look the cluster up; clients do so themselves.",
    E.GROUP_DELETION_FAILED: "Look into the message of the result and the log of the group's coordinator.",
    E.OFFSET_OUT_OF_RANGE: "Seek; a consumer does so by auto.offset.reset.",
    E.UNKNOWN_TOPIC_OR_PARTITION: "Check the name, or wait until the topic is created; clients look it up again.",
    E.INVALID_FETCH_SIZE: _CORRECT,
    E.LEADER_NOT_AVAILABLE: _LOOK_UP,
    E.NOT_LEADER_OR_FOLLOWER: _LOOK_UP,
    E.NOT_CONTROLLER: _LOOK_UP,
    E.COORDINATOR_NOT_AVAILABLE: _LOOK_UP,
    E.NOT_COORDINATOR: _LOOK_UP,
    E.FENCED_LEADER_EPOCH: _LOOK_UP,
    E.UNKNOWN_LEADER_EPOCH: _LOOK_UP,
    E.BROKER_NOT_AVAILABLE: "Wait until the broker is back.",
    E.MESSAGE_TOO_LARGE: "Send less at once, or raise max.message.bytes of the topic.",
    E.OFFSET_METADATA_TOO_LARGE: "Commit a shorter text, or raise offset.metadata.max.bytes.",
    E.INVALID_TOPIC_EXCEPTION: "Choose another name: letters, digits, dot, hyphen and underscore, at most 249.",
    E.RECORD_LIST_TOO_LARGE: "Send less at once, or raise segment.bytes of the topic.",
    E.INVALID_REQUIRED_ACKS: _CORRECT,
    E.ILLEGAL_GENERATION: "Join the group again; what was owned may have another owner. Clients do so themselves.",
    E.INCONSISTENT_GROUP_PROTOCOL: "List an assignor that every member of the group lists (`groups lint` shows which).",
    E.INVALID_GROUP_ID: "Set group.id.",
    E.UNKNOWN_MEMBER_ID: "Join the group as a new member; what was owned may have another owner. Clients do so themselves.",
    E.INVALID_SESSION_TIMEOUT: "Set session.timeout.ms within the broker's limits.",
    E.REBALANCE_IN_PROGRESS: "Join the group again under the same member id; clients do so themselves.",
    E.INVALID_COMMIT_OFFSET_SIZE: "Commit fewer offsets or shorter metadata at once.",
    E.TOPIC_AUTHORIZATION_FAILED: _AS_ADMINISTRATOR,
    E.GROUP_AUTHORIZATION_FAILED: _AS_ADMINISTRATOR,
    E.CLUSTER_AUTHORIZATION_FAILED: _AS_ADMINISTRATOR,
    E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: _AS_ADMINISTRATOR,
    E.INVALID_TIMESTAMP: "Check the sender's clock, and message.timestamp.before.max.ms and after.max.ms of the topic.",
    E.UNSUPPORTED_SASL_MECHANISM: "Choose another sasl.mechanism.",
    E.ILLEGAL_SASL_STATE: "Check security.protocol on both sides.",
    E.SASL_AUTHENTICATION_FAILED: "Check user and password.",
    E.UNSUPPORTED_VERSION: "Use another client, or do without the feature: the broker is too old or too new for it.",
    E.TOPIC_ALREADY_EXISTS: "Use the topic that exists, or choose another name.",
    E.INVALID_PARTITIONS: _CORRECT,
    E.INVALID_REPLICATION_FACTOR: "Ask for one replica: coterie is one broker.",
    E.INVALID_REPLICA_ASSIGNMENT: _CORRECT,
    E.INVALID_CONFIG: "Correct the setting; the message names it.",
    E.INVALID_REQUEST: _CORRECT,
    E.UNSUPPORTED_FOR_MESSAGE_FORMAT: "Use a topic of a newer message format.",
    E.POLICY_VIOLATION: _AS_ADMINISTRATOR,
    E.OUT_OF_ORDER_SEQUENCE_NUMBER: "A batch before this one was lost: abort the transaction, or send what failed again.",
    E.DUPLICATE_SEQUENCE_NUMBER: "Nothing: the batch is stored already.",
    E.INVALID_PRODUCER_EPOCH: _NEW_PRODUCER,
    E.PRODUCER_FENCED: _NEW_PRODUCER,
    E.INVALID_PRODUCER_ID_MAPPING: _NEW_PRODUCER,
    E.TRANSACTION_COORDINATOR_FENCED: _NEW_PRODUCER,
    E.INVALID_TXN_STATE: "Call the transaction's methods in their order: begin, send, commit or abort.",
    E.INVALID_TRANSACTION_TIMEOUT: "Set transaction.timeout.ms to at most the broker's transaction.max.timeout.ms.",
    E.TRANSACTION_ABORTABLE: "Abort the transaction; the producer can begin another.",
    E.SECURITY_DISABLED: "Configure an authorizer on the broker; coterie has none.",
    E.OPERATION_NOT_ATTEMPTED: "See to the part of the request that failed.",
    E.LOG_DIR_NOT_FOUND: _CORRECT,
    E.UNKNOWN_PRODUCER_ID: "Send the batch again under a new producer id; clients do so themselves.",
    E.REASSIGNMENT_IN_PROGRESS: "Wait until the reassignment has ended.",
    E.NO_REASSIGNMENT_IN_PROGRESS: "Nothing: there is nothing to cancel.",
    E.DELEGATION_TOKEN_AUTH_DISABLED: "Configure tokens on the broker; coterie has none.",
    E.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "Connect with SASL first.",
    E.NON_EMPTY_GROUP: "Stop the group's members first.",
    E.GROUP_ID_NOT_FOUND: "Check the group's name (`groups list`).",
    E.FETCH_SESSION_ID_NOT_FOUND: "Begin a new fetch session; clients do so themselves.",
    E.INVALID_FETCH_SESSION_EPOCH: "Begin a new fetch session; clients do so themselves.",
    E.FETCH_SESSION_TOPIC_ID_ERROR: "Begin a new fetch session; clients do so themselves.",
    E.TOPIC_DELETION_DISABLED: "Set delete.topic.enable=true on the broker.",
    E.UNSUPPORTED_COMPRESSION_TYPE: "Use a newer client, or another compression.type.",
    E.STALE_BROKER_EPOCH: _OF_BROKERS,
    E.STALE_CONTROLLER_EPOCH: _OF_BROKERS,
    E.MEMBER_ID_REQUIRED: "Join again with the member id of the response; clients do so themselves.",
    E.GROUP_MAX_SIZE_REACHED: "Start fewer members, or raise the broker's group.max.size.",
    E.FENCED_INSTANCE_ID: "Give each running member a group.instance.id of its own, and start this one anew.",
    E.GROUP_SUBSCRIBED_TO_TOPIC: "Stop the members that subscribe to the topic first.",
    E.INVALID_RECORD: "Correct the records that the response names, such as one without a key for a compacted topic.",
    E.RESOURCE_NOT_FOUND: "Check the name.",
    E.DUPLICATE_RESOURCE: "Name each resource once.",
    E.UNACCEPTABLE_CREDENTIAL: "Choose other iterations or another user name.",
    E.INVALID_UPDATE_VERSION: _CORRECT,
    E.FEATURE_UPDATE_FAILED: "See to the feature that the message names.",
    E.BROKER_ID_NOT_REGISTERED: "Check the broker's id.",
    E.INCONSISTENT_CLUSTER_ID: "Connect to the cluster that the request was made for.",
    E.TRANSACTIONAL_ID_NOT_FOUND: "Check the transactional id.",
    E.FENCED_MEMBER_EPOCH: "Join the group as a new member.",
    E.UNRELEASED_INSTANCE_ID: "Give each running member a group.instance.id of its own, or wait until the earlier has left.",
    E.UNSUPPORTED_ASSIGNOR: "Set group.remote.assignor to one of the broker's group.consumer.assignors, or leave it out.",
    E.STALE_MEMBER_EPOCH: "Read the member epoch again, then repeat the request.",
    E.MISMATCHED_ENDPOINT_TYPE: "Connect to a broker, not to a controller.",
    E.UNSUPPORTED_ENDPOINT_TYPE: _CORRECT,
    E.UNKNOWN_SUBSCRIPTION_ID: "Ask for the telemetry subscription again; clients do so themselves.",
    E.TELEMETRY_TOO_LARGE: "Push less at once, or raise telemetry.max.bytes.",
    E.INVALID_REGULAR_EXPRESSION: "Correct the pattern; RE2 has neither back references nor look-around.",
}


def remedy_text(code: E) -> str:
    """What the caller does about that error, in a sentence or two. A retriable error without a row of its own is retried;
    any other that lacks one raises KeyError."""
    return REMEDIES.get(code, _RETRY) if code.retriable else REMEDIES[code]
