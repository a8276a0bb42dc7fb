"""What a client raises."""

from __future__ import annotations

from coterie.wire.errors import ErrorCode, error_of


class KafkaError(Exception):
    """A broker's refusal, or a fault on the way to it. ``code`` is Kafka's; ``code.retriable`` tells its kind."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(f"{code.name}: {message or code.text}")
        self.code = code


class CorruptBatchError(KafkaError):
    """CORRUPT_MESSAGE: a batch of ``topic`` and ``partition`` cannot be read. It is where ``offset`` would be read next;
    the position stays there until a seek, for instance to ``next_offset``, behind the batch as far as its header tells."""

    def __init__(self, topic: str, partition: int, offset: int, next_offset: int, why: str) -> None:
        text = f"{topic}-{partition} cannot be read at offset {offset}: {why}; seek past it to go on"
        super().__init__(ErrorCode.CORRUPT_MESSAGE, text)
        self.topic, self.partition, self.offset, self.next_offset = topic, partition, offset, next_offset

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuilt, (self.topic, self.partition, self.offset, self.next_offset, str(self))


def _rebuilt(topic: str, partition: int, offset: int, next_offset: int, text: str) -> CorruptBatchError:
    """A Spark task's error travels to the driver."""
    error = CorruptBatchError(topic, partition, offset, next_offset, "")
    error.args = (text,)
    return error


class ConfigError(ValueError):
    """A setting that a client cannot work with."""


class WakeupError(Exception):
    """`Consumer.wakeup` was called; nothing was lost, the next call goes on."""


class CommitFailedError(KafkaError):
    """The group has moved on, so the commit is too late."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(
            code,
            "the group has rebalanced and the partitions may belong to another member; "
            "poll more often, or raise max.poll.interval.ms or lower max.poll.records",
        )


class RebalanceInProgressError(KafkaError):
    """A rebalance is under way: poll, and commit again what is still assigned then."""

    def __init__(self) -> None:
        super().__init__(
            ErrorCode.REBALANCE_IN_PROGRESS,
            "the group is rebalancing; call poll until it is done, then commit what is still assigned",
        )


def check(code: int, message: str | None = None) -> None:
    """Raises KafkaError for any code but NONE."""
    if code:
        raise KafkaError(error_of(code), message)


def unexpected(error: Exception) -> KafkaError:
    """An exception that nothing in the client provides for, as the error of what it ended."""
    wrapped = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"an unexpected error in the client: {error!r}")
    wrapped.__cause__ = error
    return wrapped
