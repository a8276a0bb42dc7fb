"""What a client raises, by what the caller does about it. `CLASSES` says which class an error code has; `KafkaError(code)`
makes an instance of that class, so that no code that raises needs to choose.

The classes are those of Kafka's Java client (RetriableException, AuthenticationException, ...); the groups are KIP-1050's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from coterie.wire.errors import ErrorCode, error_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from coterie.client.types import OffsetAndMetadata, Record, TopicPartition


class KafkaError(Exception):
    """A broker's refusal, or a fault on the way to it; ``code`` is Kafka's. Of this class itself: the call or a setting is to
    be corrected, as the message says."""

    remedy: ClassVar[str] = "Correct the call or the setting that the message names; the same call fails again."

    def __new__(cls, *args: Any, **_: Any) -> KafkaError:
        kind = class_of(args[0]) if cls is KafkaError and args else cls
        return super().__new__(kind)

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(f"{code.name}: {message or code.text}")
        self.code = code

    @property
    def retriable(self) -> bool:
        """Whether the same call may succeed later."""
        return isinstance(self, RetriableError)

    @property
    def fatal(self) -> bool:
        """Whether nothing that the program does helps this client: close it."""
        return isinstance(self, FatalError)

    def __reduce__(self) -> tuple[object, ...]:
        """A Spark task's error travels to the driver."""
        return _rebuilt, (type(self), self.args, self.__dict__)


def _rebuilt(kind: type[KafkaError], args: tuple[object, ...], state: dict[str, object]) -> KafkaError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(state)
    return error


class SerializationError(KafkaError):
    """The producer's serializer refused a key or value. ``code`` is INVALID_RECORD; Kafka has none for it."""

    remedy = "Correct the key or value, or choose another serializer; nothing was sent."

    def __init__(self, topic: str, part: str, error: Exception) -> None:
        super().__init__(
            ErrorCode.INVALID_RECORD, f"the {part} of a record for {topic} cannot be serialized: {error!r}"
        )


# -- retry ---------------------------------------------------------------------------------------------------------------


class RetriableError(KafkaError):
    """Something that passes, which the client has retried for as long as its settings say (Kafka's RetriableException)."""

    remedy = "Retry: the client has done so within its time limits, and a later call may succeed."


class UnknownTopicOrPartitionError(RetriableError):
    """No broker has the topic or partition yet."""

    remedy = "Create the topic or correct its name, then retry."


class KafkaTimeoutError(RetriableError):
    """A response did not come in time (Kafka's TimeoutException)."""

    remedy = "Retry, or raise the time limit that the message names."


# -- seek ----------------------------------------------------------------------------------------------------------------


class SeekNeededError(KafkaError):
    """The consumer cannot read at its position, and stays there."""

    remedy = "Call `Consumer.seek`; until then every poll raises it again."


class OffsetOutOfRangeError(SeekNeededError):
    """The log has no such offset, and auto.offset.reset is none."""


class LogTruncationError(OffsetOutOfRangeError):
    """A new leader's log was cut before the position ``offset`` of ``topic`` and ``partition``, and auto.offset.reset is none
    (KIP-320): records that were read are no longer there. ``divergent_offset``: up to where that log is the one that was read;
    None where the leader cannot tell."""

    def __init__(
        self, topic: str, partition: int, offset: int, divergent_offset: OffsetAndMetadata | None = None
    ) -> None:
        if divergent_offset is None:
            text = f"{topic}-{partition} was cut by a new leader before the position {offset}, where is unknown"
        else:
            text = f"{topic}-{partition} was cut by a new leader at {divergent_offset.offset}, before the position {offset}"
        super().__init__(ErrorCode.OFFSET_OUT_OF_RANGE, text)
        self.topic, self.partition, self.offset, self.divergent_offset = topic, partition, offset, divergent_offset


class CorruptBatchError(SeekNeededError):
    """CORRUPT_MESSAGE: a batch of ``topic`` and ``partition`` cannot be read. It is where ``offset`` would be read next;
    the position stays there until a seek, for instance to ``next_offset``, behind the batch as far as its header tells."""

    def __init__(self, topic: str, partition: int, offset: int, next_offset: int, why: str) -> None:
        text = f"{topic}-{partition} cannot be read at offset {offset}: {why}; seek past it to go on"
        super().__init__(ErrorCode.CORRUPT_MESSAGE, text)
        self.topic, self.partition, self.offset, self.next_offset = topic, partition, offset, next_offset


class RecordDeserializationError(SeekNeededError):
    """The consumer's deserializer refused a record's key or value (``part``). ``record`` has both as bytes (KIP-334, KIP-1036);
    the position stays at it until a seek, for instance to ``offset + 1``. ``code`` is INVALID_RECORD; Kafka has none for it."""

    def __init__(self, record: Record, part: str, error: Exception) -> None:
        text = f"the {part} of {record.topic}-{record.partition} at offset {record.offset} cannot be deserialized: {error!r}"
        super().__init__(ErrorCode.INVALID_RECORD, text + "; seek past it to continue")
        self.record, self.part = record, part
        self.topic, self.partition, self.offset = record.topic, record.partition, record.offset


class AcquiredRecordError(KafkaError):
    """Records that a share group delivered cannot be read: ``offsets`` of ``topic`` and ``partition``. One whose deserializer
    refused it is released, and a batch that is damaged is rejected, with the next poll or commit, unless
    `ShareConsumer.acknowledge` is called with ``(topic, partition, offset)``. ``code`` is CORRUPT_MESSAGE."""

    remedy = (
        "Poll again; to choose what becomes of the records, call `ShareConsumer.acknowledge` with their offsets before."
    )

    def __init__(self, topic: str, partition: int, offsets: Collection[int], why: Exception) -> None:
        listed = ", ".join(map(str, sorted(offsets)[:5])) + (", ..." if len(offsets) > 5 else "")
        text = f"{topic}-{partition} cannot be read at offset {listed or 'unknown'}: {why}; poll again to continue"
        super().__init__(ErrorCode.CORRUPT_MESSAGE, text)
        self.topic, self.partition, self.offsets = topic, partition, frozenset(offsets)
        self.__cause__ = why


# -- rejoin --------------------------------------------------------------------------------------------------------------


class RejoinNeededError(KafkaError):
    """The group has another generation than the member."""

    remedy = "Call `Consumer.poll`, which joins the group again; then continue with the partitions that are assigned."


class CommitFailedError(RejoinNeededError):
    """The group has moved on, so the commit is too late."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(
            code,
            "the group has rebalanced and the partitions may belong to another member; "
            "poll more often, or raise max.poll.interval.ms or lower max.poll.records",
        )


class PartitionsLostError(RejoinNeededError):
    """What an iterator has handed out is of ``partitions`` that the member has lost: it did not request the next record within
    max.poll.interval.ms, or the coordinator did not hear of it for session.timeout.ms. Records since the last commit are handed
    out again, to this member or another. ``code`` is UNKNOWN_MEMBER_ID."""

    remedy = "Iterate again, which joins the group again; make the work on a record shorter, or raise the timeouts."

    def __init__(self, partitions: Collection[TopicPartition]) -> None:
        names = ", ".join(f"{topic}-{partition}" for topic, partition in sorted(partitions))
        text = f"{names} may have another owner now, and records since the last commit are handed out again"
        why = "no record was requested within max.poll.interval.ms, or no heartbeat arrived within the session timeout"
        super().__init__(ErrorCode.UNKNOWN_MEMBER_ID, f"{text}: {why}; iterate again to join again")
        self.partitions = frozenset(partitions)


class RebalanceInProgressError(RejoinNeededError):
    """A rebalance is under way: poll, and commit again what is still assigned then."""

    def __init__(self) -> None:
        super().__init__(
            ErrorCode.REBALANCE_IN_PROGRESS,
            "the group is rebalancing; call poll until it is done, then commit what is still assigned",
        )


# -- abort ---------------------------------------------------------------------------------------------------------------


class TransactionAbortableError(KafkaError):
    """The open transaction has failed; the producer has not (Kafka's TransactionAbortableException)."""

    remedy = "Call `Producer.abort_transaction`, then begin another transaction."


# -- give up -------------------------------------------------------------------------------------------------------------


class FatalError(KafkaError):
    """Nothing that the program does helps this client."""

    remedy = "Close the client, and make a new one once the cause that the message names is gone."


class AuthenticationError(FatalError):
    """The broker does not accept the client, or the client does not accept the broker. It is not retried."""

    remedy = "Close the client; correct sasl.* or ssl.* settings, or the certificates."


class SslAuthenticationError(AuthenticationError):
    """The TLS handshake failed over a certificate or a protocol (Kafka's SslAuthenticationException). Kafka has no code for
    it; ``code`` is NETWORK_EXCEPTION."""


class BootstrapError(FatalError):
    """No host of bootstrap.servers can be resolved (Kafka's ConfigException); raised by the first call that needs a broker, and
    not retried. Kafka has no code for it; ``code`` is NETWORK_EXCEPTION."""

    remedy = "Close the client; correct bootstrap.servers, or the name service."


class AuthorizationError(FatalError):
    """The client lacks a right on the cluster, a topic, a group or a transactional id."""

    remedy = "Ask the cluster's administrator for the right that the message names."


class ProducerFencedError(FatalError):
    """A newer producer has the same transactional.id."""

    remedy = "Close the producer; the newer one with the same transactional.id continues."


class FencedInstanceIdError(FatalError):
    """A newer consumer has the same group.instance.id."""

    remedy = "Close the consumer, and give each running member a group.instance.id of its own."


class UnsupportedVersionError(FatalError):
    """The broker has no version of a request that the client needs."""

    remedy = "Use a newer broker, or do without the feature that the message names."


class ClientBugError(KafkaError):
    """An exception that nothing in the client provides for: a defect of the client, which its ``__cause__`` shows. Kafka has no
    code for it; ``code`` is UNKNOWN_SERVER_ERROR."""

    remedy = "Report it with its cause; neither the call nor the broker is at fault."

    def __init__(self, error: Exception) -> None:
        super().__init__(ErrorCode.UNKNOWN_SERVER_ERROR, f"an unexpected error in the client: {error!r}")
        self.__cause__ = error


def client_error(raised: Exception) -> KafkaError:
    """What a caller receives of an exception of an attempt: a KafkaError is itself, any other is a bug."""
    return raised if isinstance(raised, KafkaError) else ClientBugError(raised)


_E = ErrorCode
CLASSES: dict[ErrorCode, type[KafkaError]] = {
    _E.UNKNOWN_TOPIC_OR_PARTITION: UnknownTopicOrPartitionError,
    _E.UNKNOWN_TOPIC_ID: UnknownTopicOrPartitionError,
    _E.REQUEST_TIMED_OUT: KafkaTimeoutError,
    _E.OFFSET_OUT_OF_RANGE: OffsetOutOfRangeError,
    _E.ILLEGAL_GENERATION: RejoinNeededError,
    _E.UNKNOWN_MEMBER_ID: RejoinNeededError,
    _E.REBALANCE_IN_PROGRESS: RejoinNeededError,
    _E.MEMBER_ID_REQUIRED: RejoinNeededError,
    _E.FENCED_MEMBER_EPOCH: RejoinNeededError,
    _E.STALE_MEMBER_EPOCH: RejoinNeededError,
    _E.TRANSACTION_ABORTABLE: TransactionAbortableError,
    _E.SASL_AUTHENTICATION_FAILED: AuthenticationError,
    _E.UNSUPPORTED_SASL_MECHANISM: AuthenticationError,
    _E.ILLEGAL_SASL_STATE: AuthenticationError,
    _E.TOPIC_AUTHORIZATION_FAILED: AuthorizationError,
    _E.GROUP_AUTHORIZATION_FAILED: AuthorizationError,
    _E.CLUSTER_AUTHORIZATION_FAILED: AuthorizationError,
    _E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: AuthorizationError,
    _E.PRODUCER_FENCED: ProducerFencedError,
    _E.INVALID_PRODUCER_EPOCH: ProducerFencedError,
    _E.INVALID_PRODUCER_ID_MAPPING: FatalError,
    _E.TRANSACTION_COORDINATOR_FENCED: FatalError,
    _E.FENCED_INSTANCE_ID: FencedInstanceIdError,
    _E.UNSUPPORTED_VERSION: UnsupportedVersionError,
}


def class_of(code: ErrorCode) -> type[KafkaError]:
    """A retriable code without a row is a RetriableError; any other without one a plain KafkaError."""
    return CLASSES.get(code, RetriableError if code.retriable else KafkaError)


class ConfigError(ValueError):
    """A setting that a client cannot work with."""


class WakeupError(Exception):
    """`Consumer.wakeup` was called; nothing was lost, the next call goes on."""


def check(code: int, message: str | None = None, *, subject: str = "") -> None:
    """Raises KafkaError for any code but NONE: with the broker's message; where that is none or the code's text, with the
    code's text after the ``subject`` that it is about."""
    if code:
        error = error_of(code)
        if subject and message in (None, "", error.text):
            raise error_about(error, subject)
        raise KafkaError(error, message)


def error_about(code: ErrorCode, subject: str) -> KafkaError:
    """The error with the code's text after the ``subject`` that it is about."""
    return KafkaError(code, f"{subject}: {code.text}")
