"""The quota of partitions that are created and deleted, controller_mutation_rate (KIP-599).

A bucket of tokens, one for each partition, is full with what the rate brings in all windows, and may be overdrawn by the last
topic. Then requests of the versions that know THROTTLING_QUOTA_EXCEEDED receive it for each further topic, and others are
carried out; both are throttled until the bucket is no longer overdrawn (Kafka's ControllerMutationQuotaManager).
"""

from __future__ import annotations

from collections.abc import Callable

from coterie.quotas import TokenBucket
from coterie.wire.errors import ErrorCode, Refusal

CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS = 19, 20, 37
STRICT_SINCE = {CREATE_TOPICS: 6, DELETE_TOPICS: 5, CREATE_PARTITIONS: 3}  # versions


class Mutations:
    """Of one request. ``bucket``: None without a quota. ``throttle_ms``: how long its client is throttled."""

    __slots__ = ("_bucket", "_is_strict", "_now_ms", "throttle_ms")

    def __init__(self, bucket: TokenBucket | None, now_ms: Callable[[], int], *, is_strict: bool) -> None:
        self._bucket, self._now_ms, self._is_strict = bucket, now_ms, is_strict
        self.throttle_ms = 0

    def record(self, partitions: int) -> None:
        """So many are created or deleted. Raises Refusal THROTTLING_QUOTA_EXCEEDED."""
        if self._bucket is None:
            return
        now_ms = self._now_ms()
        if not self._is_strict:
            self._bucket.take(partitions, now_ms)
        self.throttle_ms = max(self.throttle_ms, self._bucket.throttle_ms(now_ms))
        if self._is_strict:
            if self.throttle_ms:
                raise Refusal(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded.")
            self._bucket.take(partitions, now_ms)
