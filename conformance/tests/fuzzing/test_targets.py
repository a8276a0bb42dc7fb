"""Every decoder of bytes from outside returns or raises a declared error, in bounded time and memory."""

from __future__ import annotations

import contextlib
import gc
import random
from itertools import count

import pytest
from click.testing import CliRunner

from coterie.records import decoding
from coterie.wire.apis import APIS, CLUSTER_APIS
from coterie.wire.primitives import read_varint
from coterie_conformance.cli import main
from coterie_conformance.fuzzing import target, targets
from coterie_conformance.fuzzing.runner import corpus, fuzz, inputs, kept_inputs
from coterie_conformance.fuzzing.target import Broken, Target, check, mutated
from coterie_conformance.fuzzing.targets import TARGETS

INPUTS = {"records": 150, "file-": 60, "request-": 12, "response-": 12}  # by the beginning of a target's name


def number_of_inputs(name: str) -> int:
    return next((number for start, number in INPUTS.items() if name.startswith(start)), 100)


@pytest.mark.parametrize("name", TARGETS)
def test_the_property_holds(name: str) -> None:
    """For the corpus, and for made and changed inputs, the same in each run."""
    for number, data in enumerate(inputs(TARGETS[name], seed=1)):
        check(TARGETS[name], data)
        if number >= len(kept_inputs(TARGETS[name])) + number_of_inputs(name):
            return


@pytest.mark.parametrize("name", TARGETS)
def test_made_inputs_are_decoded(name: str) -> None:
    """Inputs that are refused at their first byte would find nothing: of those that are as made, some are decoded."""
    for seed in range(40):
        data = TARGETS[name].make(random.Random(seed))
        try:
            TARGETS[name].decode(data)
        except TARGETS[name].declared:
            continue
        return
    pytest.fail("every made input is refused")


def test_every_request_is_a_target() -> None:
    assert {f"request-{api.name}" for api in [*APIS.values(), *CLUSTER_APIS.values()]} <= set(TARGETS)


def test_the_corpus_belongs_to_targets() -> None:
    assert set(corpus()) <= {t.corpus or t.name for t in TARGETS.values()}
    assert sum(map(len, corpus().values())) > 100


# -- that a defect is found ------------------------------------------------------------------------------------------------


def of(decode: object, **fields: int) -> Target:
    return Target("planted", "a defect", decode, (ValueError,), lambda rng: rng.randbytes(20), **fields)  # type: ignore[arg-type]


def test_an_undeclared_error_is_found() -> None:
    check(of(lambda data: int("x")), b"")
    with pytest.raises(Broken, match="KeyError"):
        check(of(lambda data: {}[data]), b"")


def test_a_decoder_that_does_not_end_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def forever(data: bytes) -> None:
        while True:
            pass

    monkeypatch.setattr(target, "MOST_S", 0.2)
    with pytest.raises(Broken, match="processor time"):
        check(of(forever), b"x")


def test_a_decoder_that_ends_at_no_first_interrupt_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor at a second one."""

    def forever(data: bytes) -> None:
        for _ in range(2):
            with contextlib.suppress(BaseException):
                while True:
                    pass
        while True:
            pass

    monkeypatch.setattr(target, "MOST_S", 0.2)
    with pytest.raises(Broken, match="processor time"):
        check(of(forever), b"x")


def test_no_interrupt_is_lost_in_a_callback_of_the_garbage_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python drops an exception there, with a warning that fails the test; Hypothesis has such a callback."""
    calls = count()

    def slow(phase: str, info: dict[str, int]) -> None:
        while next(calls) < 1_000_000:
            pass

    def forever(data: bytes) -> None:
        while True:
            gc.collect(0)

    gc.callbacks.append(slow)
    try:
        monkeypatch.setattr(target, "MOST_S", 0.2)
        with pytest.raises(Broken, match="processor time"):
            check(of(forever), b"x")
        assert slow in gc.callbacks
    finally:
        gc.callbacks.remove(slow)


def test_a_decoder_that_takes_memory_is_found() -> None:
    with pytest.raises(Broken, match="bytes of memory"):
        check(of(lambda data: bytearray(3_000_000), most_bytes=2_000_000), b"x")


def endless_headers(body: bytes, at: int, end: int) -> tuple[tuple[str, bytes | None], ...]:
    """As headers were decoded once: a name of negative length goes back."""
    count, at = read_varint(body, at)
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        size, at = read_varint(body, at)
        name = body[at : at + size].decode(errors="replace")
        at += size
        size, at = read_varint(body, at)
        headers.append((name, body[at : at + size] if size >= 0 else None))
        at += max(size, 0)
    return tuple(headers)


def test_headers_without_end_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The corpus has the bytes that stopped a broker."""
    monkeypatch.setattr(decoding, "decode_headers", endless_headers)
    monkeypatch.setattr(target, "MOST_S", 1.0)
    (finding,) = fuzz([TARGETS["records"]], 5, 1, lambda *_: None)
    assert "records" in finding.problem
    assert bytes.fromhex(finding.corpus_line.split(" ")[2]) == finding.data


def test_a_rare_defect_is_found_by_changed_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    def decode(data: bytes) -> None:
        if b"\x7f\xff\xff\xff" in data:
            raise KeyError

    planted = Target("planted", "a defect", decode, (ValueError,), lambda rng: bytes(30))
    for number, data in enumerate(inputs(planted, 1)):
        try:
            check(planted, data, with_memory=False)
        except Broken:
            return
        assert number < 20_000


def test_inputs_are_the_same_for_a_seed() -> None:
    for _ in range(2):
        stream = inputs(TARGETS["legacy"], 7)
        assert [next(stream) for _ in range(60)] == [
            data for data, _ in zip(inputs(TARGETS["legacy"], 7), range(60), strict=False)
        ]
    assert mutated(b"abc", random.Random(1)) == mutated(b"abc", random.Random(1))


# -- the command -----------------------------------------------------------------------------------------------------------


def test_the_command_runs_and_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    run = CliRunner().invoke
    quiet = run(main, ["fuzz", "--minutes", "0.005", "--target", "legacy", "--engine", "own", "--seed", "3"])
    assert quiet.exit_code == 0, quiet.output
    assert "1 target for 0.005 min, seed 3, built-in rules" in quiet.output
    monkeypatch.setitem(targets.TARGETS, "planted", of(lambda data: {}[data]))
    result = run(main, ["fuzz", "--minutes", "0.005", "--target", "planted", "--engine", "own", "--seed", "3"])
    assert result.exit_code == 1
    assert "planted: KeyError" in result.output
    line = result.output.splitlines()[-2].split()
    assert line[0] == "planted"
    assert len(bytes.fromhex(line[2])) > 0


def test_the_command_says_what_there_is() -> None:
    listed = CliRunner().invoke(main, ["fuzz", "--list", "--target", "request-"])
    assert "request-Produce" in listed.output
    assert "records" not in listed.output.split()
    unknown = CliRunner().invoke(main, ["fuzz", "--target", "nothing"])
    assert unknown.exit_code == 2
    assert "--list prints them" in unknown.output
