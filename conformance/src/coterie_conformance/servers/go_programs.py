"""Programs in Go, built in the user's cache the first time and when a file or a module changes."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from coterie_conformance.servers.kafka import CannotRun, cache_folder

FRANZ_GO = "v1.22.2"
BUILD_LIMIT_S = 900.0


def go_program(source: Path, *modules: str, beside: Sequence[Path] = ()) -> Path:
    """The program built of ``source``, the files ``beside`` it and these modules ("PATH@VERSION"). Raises CannotRun."""
    if shutil.which("go") is None:
        raise CannotRun("go is not on the PATH; on Debian: apt-get install golang")
    texts = {"main.go": source.read_bytes(), **{path.name: path.read_bytes() for path in beside}}
    digest = hashlib.sha256(b"\n".join([*texts.values(), *(module.encode() for module in modules)])).hexdigest()
    folder = cache_folder() / f"go-{source.stem}-{digest[:12]}"
    program = folder / source.stem
    if program.exists():
        return program
    cache_folder().mkdir(parents=True, exist_ok=True)
    # Another process may build it at the same time.
    with tempfile.TemporaryDirectory(prefix=f"{folder.name}-", dir=cache_folder()) as own:
        for name, text in texts.items():
            (Path(own) / name).write_bytes(text)
        for command in (
            ["go", "mod", "init", source.stem],
            ["go", "get", *modules],
            ["go", "build", "-o", str(Path(own) / source.stem), "."],
        ):
            _run(command, Path(own))
        folder.mkdir(exist_ok=True)
        for name in (*texts, source.stem):
            (Path(own) / name).replace(folder / name)
    return program


def _run(command: list[str], folder: Path) -> None:
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=BUILD_LIMIT_S
        )
    except subprocess.TimeoutExpired as late:
        raise CannotRun(f"{' '.join(command)}: no end within {BUILD_LIMIT_S:g} s") from late
    if done.returncode:
        raise CannotRun(f"{' '.join(command)}: {done.stderr.strip()[-300:]}")
