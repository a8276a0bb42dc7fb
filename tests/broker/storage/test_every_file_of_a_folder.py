"""Each file of a data folder, missing, emptied, cut short, with a byte changed, and of another node or version: the start names
it, or what the broker then knows is what it knew. Names of files that are made of a segment count as the segment's.

COTERIE_EVERY_BIT=1 changes every byte.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import re
from collections.abc import Callable, Iterator

import pytest

from coterie.broker.storage.checkpoints import FILE as CHECKPOINT
from coterie.broker.storage.checkpoints import HIGH_WATERMARKS
from coterie.broker.storage.identity import FolderOfAnother
from coterie.log.checked_files import UnreadableFile
from coterie_conformance.fuzzing.disk import FaultyFileSystem
from tests.broker.storage.whole_folder import known, make_folder

BYTES_CHANGED = 10_000_000 if os.environ.get("COTERIE_EVERY_BIT") else 8  # of each file
# What no file can show: the end of a log that a kill cut between two batches after the last checkpoint. Nothing here does so.
Change = Callable[[FaultyFileSystem], None]


def _written(name: str, data: bytes) -> Change:
    return lambda fs: fs.files[name].data.__setitem__(slice(None), data)


def changes(name: str, data: bytes) -> Iterator[tuple[str, Change]]:
    yield "missing", lambda fs: fs.lose(name)
    yield "emptied", _written(name, b"")
    for size in sorted({1, len(data) // 2, len(data) - 1} - {0, len(data)}) if data else ():
        yield f"cut to {size}", _written(name, data[:size])
    chosen = random.Random(len(data))
    for position in range(0, len(data), max(1, len(data) // BYTES_CHANGED)):
        changed = bytearray(data)
        changed[position] ^= 1 << chosen.randrange(8)
        yield f"byte {position}", _written(name, bytes(changed))


OF_ANOTHER = {
    "meta.properties": [
        b"version=1\ncluster.id=AAECAwQFBgcICQoLDA0ODw\nnode.id=9\n",
        b"version=7\ncluster.id=AAECAwQFBgcICQoLDA0ODw\nnode.id=1\n",
        b"version=0\ncluster.id=AAECAwQFBgcICQoLDA0ODw\n",
        b"cluster.id=AAECAwQFBgcICQoLDA0ODw\nnode.id=1\n",
        b"version=1\ncluster.id=\\u00zz\nnode.id=1\n",
    ],
    "log-start-offset-checkpoint": [b"1\n1\nplain 1 11\n"],
    "cleaner-offset-checkpoint": [b"1\n1\ncompacted 0 7\n"],
    "replication-offset-checkpoint": [b"1\n1\nplain 1 64\n"],
    "leader-epoch-checkpoint": [b"1\n1\n0 0\n"],
}


def is_named(name: str, message: str) -> bool:
    """A message about an index, a snapshot or a whole log's folder is one about its segments."""
    directory, slash, _ = name.partition("/")
    return name in message or bool(slash and re.search(rf"\b{re.escape(directory)}(/|: )", message))


async def outcome(
    fs: FaultyFileSystem, name: str, undamaged: dict[str, object], caplog: pytest.LogCaptureFixture
) -> str:
    """Empty where the start says what is wrong, or nothing is."""
    caplog.clear()
    try:
        present = await known(fs)
    except (UnreadableFile, FolderOfAnother) as error:
        return "" if isinstance(error, FolderOfAnother) or error.file == name else f"another file is blamed: {error}"
    if any(is_named(name, message) for message in caplog.messages):
        return ""
    different = [what for what, value in undamaged.items() if present[what] != value]
    return f"silently another {', '.join(different)}" if different else ""


@pytest.mark.parametrize("orderly", [True, False])
@pytest.mark.slow
def test_a_start_on_a_folder_with_a_damaged_file(orderly: bool, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> dict[str, str]:
        folder = await make_folder(orderly=orderly)
        assert {name.rpartition("/")[2] for name in folder.files} >= OF_ANOTHER.keys()
        undamaged = await known(folder.copy())
        assert not caplog.messages, "the start of an undamaged folder"
        wrong: dict[str, str] = {}
        for name in sorted(folder.files):
            data = bytes(folder.files[name].data)
            every = [*changes(name, data)]
            every += [
                (f"of another: {text!r}", _written(name, text)) for text in OF_ANOTHER.get(name.rpartition("/")[2], ())
            ]
            for what, change in every:
                fs = folder.copy()
                change(fs)
                result = await outcome(fs, name, undamaged, caplog)
                if result:
                    wrong[f"{name} {what}"] = result
        return wrong

    caplog.set_level(logging.WARNING)
    assert not asyncio.run(story())


EVIDENCE = ("index", "snapshot", "leader-epoch-checkpoint", "high watermarks")


@pytest.mark.parametrize("left", EVIDENCE)
def test_an_emptied_log_is_shown_by_each_file_beside_it(left: str, caplog: pytest.LogCaptureFixture) -> None:
    """After a kill; the others are not there."""

    async def story() -> None:
        fs = await make_folder(orderly=False)
        for name in list(fs.files):
            file = name.removeprefix("plain-1/")
            kind = "high watermarks" if file == HIGH_WATERMARKS else file.removeprefix(f"{file.split('.')[0]}.")
            if kind in EVIDENCE and kind != left:
                fs.lose(name)
        fs.lose(CHECKPOINT)
        for name in [name for name in fs.files if name.startswith("plain-1/") and name.endswith(".log")]:
            fs.files[name].data.clear()
        caplog.clear()
        await known(fs)

    caplog.set_level(logging.WARNING)
    asyncio.run(story())
    assert any("plain-1" in message and "shows that it had come to" in message for message in caplog.messages), left
