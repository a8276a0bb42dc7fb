"""A package installed alone in a fresh virtual environment of a given Python, and what a user then does with it."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

from coterie.runtime.extras import EXTRAS
from tests.broker_process import free_port

ROOT = Path(__file__).parents[2]
CONSTRAINTS = ROOT / "constraints.txt"
COMMAND_TIMEOUT_S = 600.0  # an installation of Spark on a busy machine
STOP_TIMEOUT_S = 20.0
NO_COMPILER = {"CC": "false"}
BUILD_REQUIRES: tuple[str, ...] = tuple(
    tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
)
# Ours, which a command in the environment must not see: it would import the sources instead of the installed package.
_OWN_VARIABLES = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYTEST_ADDOPTS", "PYTEST_PLUGINS", "COTERIE_PURE")

FIXTURE_TEST = """\
from coterie.client.blocking import BlockingConsumer


def test_the_fixture(coterie_broker):
    coterie_broker.create_topic("orders")
    coterie_broker.produce("orders", b"one", b"two")
    settings = {
        "bootstrap.servers": coterie_broker.bootstrap_servers,
        "group.id": "billing",
        "auto.offset.reset": "earliest",
    }
    with BlockingConsumer(settings) as consumer:
        consumer.subscribe(["orders"])
        values = []
        while len(values) < 2:
            values += [record.value for records in consumer.poll(1000).values() for record in records]
        consumer.commit()
    assert values == [b"one", b"two"]
    coterie_broker.until_committed("billing", {("orders", 0): 2})
"""


class CommandFailed(AssertionError):
    """A command of the environment ended with another exit status than 0; the text has the ends of its outputs."""


class FreshEnvironment:
    """A virtual environment in ``folder`` of the interpreter ``python``; pip is that of this process, from outside."""

    def __init__(self, folder: Path, python: str = sys.executable) -> None:
        self.folder = folder
        self.python = folder / "bin" / "python"
        self.run(python, "-m", "venv", "--without-pip", str(folder))

    def run(self, *command: str | Path, text: str | None = None, variables: Mapping[str, str] | None = None) -> str:
        """The standard output. Raises CommandFailed."""
        environment = {name: value for name, value in os.environ.items() if name not in _OWN_VARIABLES}
        done = subprocess.run(
            [str(word) for word in command],
            cwd=self.folder.parent,
            env=environment | dict(variables or {}),
            input=text,
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0:
            raise CommandFailed(f"{command}: {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        return done.stdout

    def install(self, *requirements: str, constrained: bool = True, variables: Mapping[str, str] | None = None) -> None:
        """``constrained``: in the versions that are tested together, else in the newest that fit."""
        command = [sys.executable, "-m", "pip", "--python", str(self.python), "install", "-q"]
        command += ["--disable-pip-version-check", *(["-c", str(CONSTRAINTS)] if constrained else []), *requirements]
        self.run(*command, variables=variables)

    def coterie(self, *arguments: str, text: str | None = None) -> str:
        """The output of `coterie` with these arguments."""
        return self.run(self.folder / "bin" / "coterie", *arguments, text=text)

    def is_compiled(self) -> bool:
        """Whether the compiled parts were installed and can be imported."""
        flags = "COMPILED, ROWS_COMPILED, ENCODING_COMPILED"
        printed = self.run(self.python, "-c", f"from coterie.records.compiled import {flags}; print({flags})")
        assert printed in ("True True True\n", "False False False\n"), printed
        return printed == "True True True\n"

    def produce_and_consume(self) -> list[str]:
        """The values consumed from a broker of the environment, to which its own client has produced "one" and "two"."""
        address = f"127.0.0.1:{free_port()}"
        broker = subprocess.Popen(
            [self.python, "-m", "coterie", "broker", "--memory", "--listen", address],
            cwd=self.folder.parent,
            env={name: value for name, value in os.environ.items() if name not in _OWN_VARIABLES},
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert broker.stdout is not None
            line = broker.stdout.readline()
            assert line.startswith("listening on"), line
            at = ["--bootstrap-server", address]
            self.coterie("topics", "create", "t", "--partitions", "1", *at)
            self.coterie("produce", "t", *at, text="one\ntwo\n")
            lines = self.coterie("consume", "t", "--from-beginning", "-n", "2", *at).splitlines()
            return [line.split()[-1] for line in lines]
        finally:
            broker.terminate()
            assert broker.wait(STOP_TIMEOUT_S) == 0

    def run_fixture_test(self) -> str:
        """pytest's last line for a test with the fixture ``coterie_broker``; pytest must be installed."""
        folder = self.folder.parent / "fixture"
        folder.mkdir(exist_ok=True)
        (folder / "test_fixture.py").write_text(FIXTURE_TEST)
        return self.run(self.python, "-m", "pytest", "-q", "--rootdir", folder, folder).splitlines()[-1]

    def import_extra(self, extra: str) -> None:
        """Imports every module that the extra brings; of the flights, whose package cannot be imported without setuptools, the
        data are read, as the demo does. Raises CommandFailed."""
        if extra == "demo":
            self.run(self.python, "-c", "from coterie.demo.rows import read_flights; next(read_flights())")
            return
        for module in EXTRAS[extra]:
            self.run(self.python, "-c", f"import {module}")
