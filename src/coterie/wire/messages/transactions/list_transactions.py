"""ListTransactions (key 66): the transactional ids that a coordinator knows (KIP-664). v1 those open for longer than a
duration (KIP-994), v2 those whose name matches a pattern (KIP-1152).
"""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, field, int16, int32, int64, message, string, struct


@message(api_key=66, versions="0-2", flexible="0+")
class ListTransactionsRequest(Message):
    """An empty list filters nothing; the duration is in ms, negative for none."""

    state_filters: list[str] = field(array(string))
    producer_id_filters: list[int] = field(array(int64))
    duration_filter: int = field(int64, "1+", default=-1)
    transactional_id_pattern: str | None = field(string, "2+", nullable="2+", default=None)


@struct
class ListedTransaction(Struct):
    transactional_id: str = field(string)
    producer_id: int = field(int64)
    transaction_state: str = field(string)


@message(api_key=66, versions="0-2", flexible="0+")
class ListTransactionsResponse(Message):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    unknown_state_filters: list[str] = field(array(string))
    transaction_states: list[ListedTransaction] = field(array(ListedTransaction))
