"""Which request a response belongs to."""

from __future__ import annotations

from coterie.proxy.requests import Exchange, Exchanges, RequestHead


def exchange(correlation_id: int, *, has_response: bool = True) -> Exchange:
    return Exchange(RequestHead(0, 9, correlation_id, "c", has_response))


def test_requests_that_the_broker_passes_over_have_no_response_any_more() -> None:
    exchanges = Exchanges()
    passed_over, responded, later = exchange(1), exchange(2), exchange(3)
    for each in (passed_over, exchange(7, has_response=False), responded, later):
        exchanges.sent(each)
    assert exchanges.responded(7) is None
    assert exchanges.responded(2) is responded
    assert list(exchanges.waiting) == [later]


def test_a_response_that_nobody_asked_for_belongs_to_no_request() -> None:
    exchanges = Exchanges()
    exchanges.sent(exchange(1))
    assert exchanges.responded(9) is None
    assert len(exchanges.waiting) == 1
