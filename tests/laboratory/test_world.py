"""The disk that fails: against a model of files, what an operation that failed leaves behind. Virtual time: the earliest
of several times that were set."""

from __future__ import annotations

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.laboratory.world import EarliestTimer, World
from coterie_conformance.fuzzing.disk import ERRORS, FaultyFileSystem

OPERATIONS = st.lists(
    st.tuples(st.just("append"), st.binary(min_size=1, max_size=6))
    | st.tuples(st.just("truncate"), st.integers(0, 8))
    | st.tuples(st.just("sync"), st.none()),
    max_size=12,
)


@given(OPERATIONS, st.integers(0, 12), st.integers(1, 3), st.sampled_from(ERRORS))
def test_what_a_descriptor_wrote_is_read_whatever_failed_between(
    operations: list[tuple[str, object]], first: int, count: int, error: int
) -> None:
    """A failed append leaves at most a half of its bytes behind the end, and the next one goes over them."""
    disk = FaultyFileSystem()
    file, model, synced, failures = disk.open("f"), b"", b"", 0
    with disk.failing(first, count, error):
        for number, (name, argument) in enumerate(operations):
            fails = first <= number < first + count
            after, left = model, b""
            if name == "append":
                assert isinstance(argument, bytes)
                after, left = model + argument, argument[: len(argument) // 2]
            elif name == "truncate":
                assert isinstance(argument, int)
                argument = min(argument, len(model))
                after = model[:argument]
            call = {"append": file.append, "truncate": file.truncate, "sync": lambda _: file.sync()}[name]
            if fails:
                failures += 1
                with pytest.raises(OSError) as raised:
                    call(argument)  # type: ignore[operator]
                assert (raised.value.errno, raised.value.filename) == (error, "f")
                if name == "append":
                    assert disk.read_file("f") == model + left
            else:
                call(argument)  # type: ignore[operator]
                model = after
                synced = model if name == "sync" else synced[: len(model)]
                assert disk.read_file("f")[: len(model)] == model
            assert file.size() == len(model)
            assert file.read(0, len(model)) == model
    assert len(disk.failed) == failures
    file.append(b"end")
    assert disk.read_file("f") == model + b"end"
    disk.crash()
    assert disk.read_file("f")[: len(synced)] == synced


@given(st.binary(min_size=1, max_size=20), st.data())
def test_rot_changes_one_bit_and_a_copy_keeps_its_own(data: bytes, draw: st.DataObject) -> None:
    disk = FaultyFileSystem()
    disk.open("f").append(data)
    other = disk.copy()
    position, bit = draw.draw(st.integers(0, len(data) - 1)), draw.draw(st.integers(0, 7))
    disk.flip("f", position, bit)
    rotten = disk.read_file("f")
    different = [(n, a ^ b) for n, (a, b) in enumerate(zip(data, rotten, strict=True)) if a != b]
    assert different == [(position, 1 << bit)]
    disk.tear("f", position)
    assert disk.read_file("f") == data[:position]
    disk.lose("f")
    assert not disk.exists("f")
    assert other.read_file("f") == data


def test_every_change_of_the_file_system_can_fail_and_then_changes_nothing() -> None:
    disk = FaultyFileSystem()
    file = disk.open("a")
    file.append(b"1")
    changes = {
        "reserve a": lambda: file.reserve(9),
        "open b": lambda: disk.open("b"),
        "make d": lambda: disk.make_directory("d"),
        "remove a": lambda: disk.remove("a"),
        "rename a": lambda: disk.rename("a", "c"),
        "write a": lambda: disk.write_file("a", b"2"),
    }
    for name, change in changes.items():
        with disk.failing(0, error=errno.EIO), pytest.raises(OSError, match="Input/output error"):
            change()
        assert disk.failed[-1] == name
        assert (disk.names(""), disk.read_file("a")) == (["a"], b"1")
    disk.rename("a", "c")
    assert disk.names("") == ["c"]


def test_the_earliest_time_of_a_life_counts() -> None:
    world = World(1)
    start_ms, fired = world.now_ms, list[int]()
    timer = EarliestTimer(world, lambda: fired.append(world.now_ms - start_ms))
    timer.set(start_ms + 50)
    timer.set(start_ms + 90)  # the earlier one stays
    timer.set(start_ms + 20)
    world.run_until(start_ms + 100)
    assert fired == [20], "what was set before is no longer due"
    timer.set(start_ms + 120)
    timer.forget()
    timer.set(start_ms + 150)
    world.run_until(start_ms + 200)
    assert fired == [20, 150], "a time of the former life"
    timer.set(start_ms)
    world.run_until(start_ms + 200)
    assert fired == [20, 150, 200], "a time that is over"
