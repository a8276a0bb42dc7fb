"""The one file of a folder: `launcher.c`, compiled, and behind it each file of the folder, which it unpacks."""

from __future__ import annotations

import hashlib
import os
import stat
import struct
import subprocess
import zlib
from pathlib import Path

LAUNCHER = Path(__file__).resolve().parent / "launcher.c"
MAGIC = b"coterie1"
_ENTRY, _TRAILER = "<IIQQ", "<QQ32s8s"  # as `launcher.c` has them


def pack(folder: Path, target: Path, *, compiler: str = "cc", zlib_library: str = "-l:libz.so.1") -> Path:
    """Writes ``target``, which runs the program `coterie` of ``folder``. ``zlib_library``: for the linker."""
    options = ("-O2", "-Wall", "-Wextra", "-Werror", "-Wno-format-truncation", "-s")
    subprocess.run([compiler, *options, str(LAUNCHER), "-o", str(target), zlib_library], check=True)
    paths = sorted(path for path in folder.rglob("*") if path.is_symlink() or path.is_file())
    entries = [_entry(path, folder) for path in paths]
    start = target.stat().st_size
    build = hashlib.sha256(b"".join(entries)).hexdigest()[:32].encode()
    with target.open("ab") as file:
        file.writelines(entries)
        file.write(struct.pack(_TRAILER, start, len(entries), build, MAGIC))
    return target


def _entry(path: Path, folder: Path) -> bytes:
    mode = path.lstat().st_mode
    raw = os.readlink(path).encode() if stat.S_ISLNK(mode) else path.read_bytes()
    # The large libraries as they are: the first start is a tenth of a second shorter, the file 9 MB larger.
    packed = raw if ".so." in path.name else min(zlib.compress(raw, 9), raw, key=len)
    name = path.relative_to(folder).as_posix().encode() + b"\0"
    return struct.pack(_ENTRY, mode, len(name), len(raw), len(packed)) + name + packed
