"""Processes that are killed, paused and ended: what runs of them afterwards, and what their peers see."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from coterie.simulation import Simulation

PORT = 7000


async def serve(log: list[str]) -> None:
    """Echoes lines in capitals."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            log.append(line.decode().strip())
            writer.write(line.upper())
        writer.close()

    server = await asyncio.start_server(talk, "server", PORT)
    await server.serve_forever()


async def ask(text: str) -> bytes:
    reader, writer = await asyncio.open_connection("server", PORT)
    writer.write(text.encode() + b"\n")
    line = await reader.readline()
    writer.close()
    return line


def test_two_processes_talk() -> None:
    log: list[str] = []
    with Simulation() as world:
        world.spawn("server", serve, log)
        world.advance(1)
        client = world.spawn("client", ask, "hello")
        world.until(lambda: not client.is_alive, "the end of the client")
        assert client.result == b"HELLO\n"
        assert log == ["hello"]


def test_no_line_of_a_killed_process_runs_any_more() -> None:
    log: list[str] = []

    async def works() -> None:
        task = asyncio.create_task(ticks())
        try:
            await task
        finally:
            log.append("finally")

    async def ticks() -> None:
        try:
            while True:
                log.append("tick")
                await asyncio.sleep(1)
        finally:
            log.append("finally of a task")

    with Simulation() as world:
        worker = world.spawn("worker", works)
        world.advance(2.5)
        worker.kill()
        at_death = list(log)
        world.advance(100)
        assert log == at_death == ["tick", "tick", "tick"]


def test_the_peers_of_a_killed_process_see_its_connections_end() -> None:
    with Simulation() as world:
        server = world.spawn("server", serve, [])
        world.advance(1)
        client = world.spawn("client", _reads_to_the_end)
        world.advance(1)
        server.kill()
        world.until(lambda: not client.is_alive, "the end of the client", timeout_s=1)
        assert client.result == b""
        assert world.run(_error_of(ask("again"))) == "ConnectionRefusedError"


def test_what_was_written_before_the_kill_or_the_pause_arrives() -> None:
    """It is in the kernel and on the wire; a process that has ended, or stands, holds none of it back."""
    for strike in ("kill", "pause"):
        log: list[str] = []
        with Simulation() as world:
            world.spawn("server", serve, log)
            world.advance(1)
            written = list[bool]()
            client = world.spawn("client", _writes, written)
            world.until(lambda written=written: written, "the write")  # type: ignore[misc]
            getattr(client, strike)()
            world.advance(1)
            assert log == ["hello"], strike


def test_a_paused_process_answers_when_it_resumes() -> None:
    log: list[str] = []
    with Simulation() as world:
        server = world.spawn("server", serve, log)
        world.advance(1)
        server.pause()
        client = world.spawn("client", ask, "hello")
        world.advance(60)
        assert client.is_alive
        assert log == []
        server.resume()
        world.until(lambda: not client.is_alive, "the end of the client", timeout_s=1)
        assert client.result == b"HELLO\n"


def test_what_a_main_coroutine_leaves_behind_ends_with_it() -> None:
    ticks: list[float] = []

    async def tick() -> None:
        while True:
            ticks.append(asyncio.get_running_loop().time())
            await asyncio.sleep(1)

    async def leaves_a_task() -> str:
        task = asyncio.create_task(tick())
        await asyncio.sleep(2.5)
        return task.get_name()

    with Simulation() as world:
        process = world.spawn("parent", leaves_a_task)
        world.advance(60)
        assert not process.is_alive
        assert len(ticks) == 3


def test_the_end_of_the_world_runs_no_finally_that_has_an_effect() -> None:
    """Coroutines that are collected run their `finally`: it must find no loop that takes anything."""
    ended: list[str] = []

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            asyncio.get_event_loop_policy()
            ended.append("finally")

    with Simulation() as world:
        world.spawn("one", waits)
        world.advance(1)
        trace = world.trace
    assert world.trace == trace
    assert ended == ["finally"]


def test_a_finally_at_the_end_of_the_world_begins_no_task_on_a_real_loop() -> None:
    """It was "Task was destroyed but it is pending!", in another test, once it was collected."""
    refused: list[str] = []

    async def last_words() -> None: ...

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            words = last_words()
            try:
                task = asyncio.ensure_future(words)
                task.cancel()
            except RuntimeError as error:
                refused.append(str(error))
                words.close()

    with Simulation() as world:
        world.spawn("one", waits)
        world.advance(1)
    assert refused == ["There is no current event loop in thread 'MainThread'."]


async def _writes(written: list[bool]) -> None:
    reader, writer = await asyncio.open_connection("server", PORT)
    writer.write(b"hello\n")
    written.append(True)
    await reader.read()


async def _reads_to_the_end() -> bytes:
    reader, writer = await asyncio.open_connection("server", PORT)
    rest = await reader.read()
    writer.close()
    return rest


async def _error_of(work: Awaitable[object]) -> str:
    try:
        await work
    except OSError as error:
        return type(error).__name__
    return ""


def test_a_coroutine_in_the_place_of_its_function() -> None:
    with Simulation() as world:
        with pytest.raises(TypeError, match="give it the function and its arguments"):
            world.spawn("one", asyncio.sleep(1))  # type: ignore[arg-type]
        assert not world.processes


def test_what_does_not_end_says_after_how_long() -> None:
    with Simulation() as world, pytest.raises(TimeoutError, match="has not ended after 5 virtual seconds"):
        world.run(asyncio.sleep(10), timeout_s=5)
