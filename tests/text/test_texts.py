"""Addresses, counts and lags as texts: read back as they were written, and right for every mixture of what is known. A
phrase goes through JSON as data, and its English is what the data says. The files that commands read: byte order marks,
UTF-16, and what is no text, which is one sentence."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.text.addresses import HIGHEST_PORT, format_address, parse_address
from coterie.text.files import NotText, decode_properties, decode_text
from coterie.text.phrase import Phrase, read_phrase
from coterie.text.quantity import Partition, lag_text, quantity, total_lag
from tests.cli.test_every_command import ended

hosts = st.from_regex(r"[a-z0-9][a-z0-9.-]{0,20}", fullmatch=True) | st.ip_addresses().map(str)
known = st.integers(0, 10**9)
partitions = st.lists(
    st.builds(lambda committed, lag: {"committed": committed, "lag": lag}, known, st.none() | known)
    | st.just({"committed": None, "lag": None})
)
RESTORES = Phrase("restores", {"task": "0_1", "member": "app", "seconds": 3, "records": 12_000})
PHRASES = [
    (
        Phrase("stable", {"generation": 1200, "members": 1}),
        "no rebalance is under way: generation 1200 has 1 member",
    ),
    (
        Phrase("waits_for_syncs", {"late": ("a", "b", "c", "d")}),
        "the assignment is stored; the group waits for a, b, c and 1 more to fetch it",
    ),
    (
        Phrase("and_restoring", {"phrase": Phrase("empty", {}), "restoring": (RESTORES, RESTORES)}),
        (
            "the group has no members; task 0_1 restores on app for 3 s, 12,000 records behind, "
            "task 0_1 restores on app for 3 s, 12,000 records behind"
        ),
    ),
    (
        Phrase("reconciles_more", {"late": (Phrase("empty", {}), Phrase("empty", {})), "more": 2}),
        "the group has no members; the group has no members; and 2 more",
    ),
    (
        Phrase(
            "deploy_change_crash",
            {
                "changes": (Phrase("use_static", {}), Phrase("use_setting", {"name": "x", "value": 12_000})),
                "unowned_s": "1.0",
                "today_s": "2.0",
                "rebalances": 1,
                "today": "2.5",
                "session_ms": 45_000,
            },
        ),
        (
            "Give every member a group.instance.id and set x=12000: 1.0 s unowned per partition instead of 2.0 s, and "
            "1 rebalance instead of 2.5; a crash is noticed after 45 s then."
        ),
    ),
]
ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be")
LATIN_1 = "0,add,caf\u00e9\n".encode("latin-1")


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


@pytest.mark.parametrize(("phrase", "english"), PHRASES, ids=[phrase.name for phrase, _ in PHRASES])
def test_english_of_a_phrase(phrase: Phrase, english: str) -> None:
    assert str(phrase) == english
    assert read_phrase(json.loads(json.dumps(asdict(phrase)))) == phrase


@pytest.mark.parametrize("document", [None, "empty", {"name": "empty"}, {"name": "late", "values": {"owes": 1.5}}])
def test_what_is_no_phrase_is_refused(document: object) -> None:
    with pytest.raises(ValueError, match="Phrase"):
        read_phrase(document)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_text_in_any_encoding(encoding: str) -> None:
    assert decode_text("0,add,node\n".encode(encoding)) == "0,add,node\n"
    assert decode_properties("acks=all\n".encode(encoding)) == "acks=all\n"


def test_properties_are_latin_1_as_javas() -> None:
    assert decode_properties("client.id=caf\u00e9".encode("latin-1")) == "client.id=caf\u00e9"


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"a\n" + LATIN_1, "is no UTF-8 text: byte 0xe9 in line 2; save it as UTF-8"),
        (b"\xff\xfea", "begins as UTF-16 and is no text"),
    ],
)
def test_what_is_no_text_is_a_sentence(data: bytes, sentence: str) -> None:
    with pytest.raises(NotText, match=sentence):
        decode_text(data)


@pytest.mark.parametrize(
    "line",
    [
        "pipeline what-if --churn {file} --out x",
        "lab study --churn {file} --out x",
        "topics reassign --plan {file}",
    ],
)
def test_a_file_in_latin_1_is_one_sentence(line: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(LATIN_1)
    end = ended(*line.format(file=file).split())
    assert (end.code, "is no UTF-8 text: byte 0xe9 in line 1" in end.sentence) == (2, True), end


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
@pytest.mark.parametrize(
    ("line", "text", "sentence"),
    [
        ("broker --memory --properties {file}", "num.partitions=0\n", "num.partitions must be"),
        ("topics list --command-config {file}", "acks=7\n", "acks must be"),
    ],
)
def test_the_first_line_behind_a_mark_is_read(
    line: str, text: str, sentence: str, encoding: str, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_bytes(text.encode(encoding))
    end = ended(*line.format(file=file).split())
    assert (end.code, sentence in end.sentence) == (2, True), end
