"""Programs in Java and Go: built once, started, and ended; and kfake, a broker in Go."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from coterie_conformance.servers.kafka import CannotRun, cache_folder, end

BUILD_LIMIT_S = 900.0
FRANZ_GO = "v1.22.2"
VERSION = "v0.0.0-20260918054303-01f206a7e32c"  # it has no releases
NAME = "kfake 2026-09-18"


def java_program(
    source: Path, lib: Path, folder: Path, *, heap: str = "256m", log_level: str = "warn", options: Sequence[str] = ()
) -> list[str]:
    """Compiles a program of one file into ``folder`` against the jars in ``lib``; returns its command. Raises CannotRun."""
    if shutil.which("javac") is None:
        raise CannotRun("javac is not on the PATH; on Debian: apt-get install default-jdk-headless")
    folder.mkdir(parents=True, exist_ok=True)
    command = ["javac", "-cp", f"{lib}/*", "-d", str(folder), str(source)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False, timeout=BUILD_LIMIT_S
        )
    except subprocess.TimeoutExpired as late:
        raise CannotRun(f"{' '.join(command)}: no end within {BUILD_LIMIT_S:g} s") from late
    if done.returncode:
        raise CannotRun(f"{' '.join(command)}: {(done.stdout + done.stderr).strip()[-300:]}")
    quiet = f"-Dorg.slf4j.simpleLogger.defaultLogLevel={log_level}"
    return ["java", f"-Xmx{heap}", "-XX:TieredStopAtLevel=1", *options, quiet, "-cp", f"{folder}:{lib}/*", source.stem]


class JavaProcess:
    """``command`` is its command line; what it prints goes to the end of ``log``."""

    def __init__(self, command: list[str], log: Path) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self._command, self._log = command, log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Also after `kill`."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def kill(self) -> None:
        """SIGKILL."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """In order where it can."""
        if self._process is not None:
            end([self._process])


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


def kfake_program() -> Path:
    """A program that prints its address and ends with SIGTERM. Raises CannotRun."""
    modules = f"github.com/twmb/franz-go@{FRANZ_GO}", f"github.com/twmb/franz-go/pkg/kfake@{VERSION}"
    return go_program(Path(__file__).with_suffix(".go"), *modules)
