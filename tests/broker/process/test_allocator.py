"""The cost of large requests in page faults, and of many small ones in collections (`runtime/allocator`)."""

from __future__ import annotations

import gc
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from coterie.client.blocking import BlockingProducer
from coterie.runtime.allocator import COLLECTED_AFTER, collect_seldom, keep_freed_memory
from tests.broker_process import BrokerProcess

PAGES_OF_A_REQUEST = 900_000 // 4096


def page_faults(pid: int) -> int:
    """Minor page faults since the start of the process (proc(5), minflt)."""
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[7])


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt is glibc's; elsewhere nothing is set")
def test_the_pages_of_a_large_request_serve_the_next(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path)
    try:
        with BlockingProducer({"bootstrap.servers": broker.address, "batch.size": 1}) as producer:
            for _ in range(10):
                producer.send_and_wait("t", bytes(900_000))
            before = page_faults(broker.process.pid)
            for _ in range(20):
                producer.send_and_wait("t", bytes(900_000))
            assert page_faults(broker.process.pid) - before < 20 * PAGES_OF_A_REQUEST / 4
    finally:
        broker.stop()


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has mallopt")
def test_consume_reads_into_the_same_pages(tmp_path: Path) -> None:
    def faults(address: str, records: int) -> int:
        command = [
            sys.executable,
            "-m",
            "coterie",
            "consume",
            "t",
            "--from-beginning",
            "-n",
            str(records),
            "-b",
            address,
        ]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        assert status == 0
        return usage.ru_minflt

    broker = BrokerProcess(tmp_path)
    try:
        with BlockingProducer({"bootstrap.servers": broker.address, "batch.size": 262_144}) as producer:
            for _ in range(32_000):
                producer.send("t", bytes(1000))
        assert faults(broker.address, 32_000) - faults(broker.address, 1) < 3_000
    finally:
        broker.stop()


def test_a_c_library_without_mallopt_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda name: object())
    assert not keep_freed_memory()


def test_collections_are_as_seldom_as_new_objects_allow() -> None:
    before, begun = gc.get_threshold(), list[int]()
    gc.callbacks.append(lambda phase, details: begun.append(len(kept)) if phase == "start" else None)
    kept: list[list[int]] = []
    try:
        collect_seldom()
        gc.collect()
        begun.clear()
        while not begun:
            kept.append([])
        assert COLLECTED_AFTER * 0.9 < len(kept) <= COLLECTED_AFTER + 1
        assert gc.get_threshold()[1:] == before[1:]  # of the older generations
    finally:
        gc.callbacks.pop()
        gc.set_threshold(*before)
