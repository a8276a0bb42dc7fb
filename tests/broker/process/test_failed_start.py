"""A broker that cannot start holds nothing: its folder is another's to open, and no descriptor stays open."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from coterie.broker.broker import Broker, CannotListen
from coterie.broker.settings import BrokerSettings
from coterie.broker.storage.disk import DataFolderInUse


async def test_without_its_address_the_folder_is_free(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(CannotListen):
        await Broker(BrokerSettings(), tmp_path).start("127.0.0.1", taken.getsockname()[1])
    second = Broker(BrokerSettings(), tmp_path)
    await second.start("127.0.0.1", 0)
    await second.stop()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="Linux shows a process's descriptors")
async def test_without_its_folder_no_descriptor_stays_open(tmp_path: Path) -> None:
    first = Broker(BrokerSettings(), tmp_path)
    await first.start("127.0.0.1", 0)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(DataFolderInUse):
            await Broker(BrokerSettings(), tmp_path).start("127.0.0.1", 0)
    assert len(os.listdir("/proc/self/fd")) == before
    await first.stop()
