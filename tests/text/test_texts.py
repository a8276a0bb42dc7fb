"""Addresses, counts and lags as texts: read back as they were written, and right for every mixture of what is known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.text.addresses import HIGHEST_PORT, format_address, parse_address
from coterie.text.quantity import Partition, lag_text, quantity, total_lag

hosts = st.from_regex(r"[a-z0-9][a-z0-9.-]{0,20}", fullmatch=True) | st.ip_addresses().map(str)
known = st.integers(0, 10**9)
partitions = st.lists(
    st.builds(lambda committed, lag: {"committed": committed, "lag": lag}, known, st.none() | known)
    | st.just({"committed": None, "lag": None})
)


@given(hosts, st.integers(0, HIGHEST_PORT), st.sampled_from(["", " ", "\n"]))
def test_an_address_is_read_as_it_was_written(host: str, port: int, space: str) -> None:
    assert parse_address(space + format_address(host, port) + space) == (host, port)


@given(st.ip_addresses(v=6).map(str), st.integers(0, HIGHEST_PORT))
def test_an_ipv6_host_stands_in_brackets(host: str, port: int) -> None:
    text = format_address(host, port)
    assert text.startswith(f"[{host}]:")
    assert text.removeprefix(f"[{host}]:") == str(port)


@pytest.mark.parametrize(
    "text", ["", "host", "host:", "host:65536", "host:-1", "host:+1", "host:１", "host:9 092", "[::1]"]
)
def test_what_is_no_address_is_refused_with_the_text(text: str) -> None:
    with pytest.raises(ValueError, match="is not HOST:PORT") as refused:
        parse_address(text)
    assert str(refused.value).startswith(repr(text))


def test_a_port_alone_has_no_host() -> None:
    assert parse_address(":9092") == ("", 9092)


@given(partitions)
def test_a_lag_counts_what_is_known_and_names_what_is_not(rows: list[Partition]) -> None:
    lags = [row["lag"] for row in rows if row["lag"] is not None]
    assert total_lag(rows) == (sum(lags) if lags or not rows else None)
    number, _, rest = lag_text(rows).partition("; ")
    assert number == (f"{sum(lags):,}" if lags or not rows else "unknown")
    missing = sum(row["committed"] is None for row in rows)
    verb = "partition has" if missing == 1 else "partitions have"
    assert rest == (f"{missing:,} {verb} no committed offset" if missing else "")


@pytest.mark.parametrize(
    ("number", "plural", "text"),
    [(0, "", "0 members"), (1, "", "1 member"), (2, "crew", "2 crew"), (1, "crew", "1 member")],
)
def test_a_count_has_its_noun(number: int, plural: str, text: str) -> None:
    assert quantity(number, "member", plural) == text


@given(st.integers(2, 10**12))
def test_a_count_has_commas_between_thousands(number: int) -> None:
    digits, _, noun = quantity(number, "record").partition(" ")
    assert noun == "records"
    assert int(digits.replace(",", "")) == number
    assert all(len(group) == 3 for group in digits.split(",")[1:])
    assert len(digits.split(",")[0]) <= 3
