"""The package as it would be published: the sdist holds all that the wheel is built from, and the wheel, installed alone in
a fresh environment, is a whole coterie."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

import coterie
from coterie.extras import EXTRAS
from tests.broker_process import free_port

ROOT = Path(__file__).parent.parent
NOT_PACKAGED = {".pyc", ".so"}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and the pure wheel, the wheel built out of the sdist."""
    out = tmp_path_factory.mktemp("dist")
    environment = os.environ | {"COTERIE_PURE": "1"}
    command = [sys.executable, "-m", "build", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return out


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (path,) = built.glob("*.whl")
    return path


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())


def test_the_wheel_has_every_file_of_the_package(wheel: Path) -> None:
    assert wheel.name == f"coterie-{coterie.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        packed = {n for n in archive.namelist() if ".dist-info/" not in n}
    sources = {
        str(p.relative_to(ROOT / "src"))
        for package in ("coterie", "pyspark_coterie")
        for p in (ROOT / "src" / package).rglob("*")
        if p.is_file() and p.suffix not in NOT_PACKAGED
    }
    assert packed == sources
    assert "coterie/py.typed" in packed


def test_the_sdist_has_what_the_tests_need(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        packed = {n.partition("/")[2] for n in archive.getnames()}
    assert {"run", "constraints.txt", "hatch_build.py", "README.md", "tests/test_package.py", ".ci/run"} <= packed
    assert {"LICENSE", "docs/study.md", "tests/spec/transactions.txt"} <= packed


def test_the_metadata_is_complete(wheel: Path) -> None:
    found = metadata(wheel)
    assert found["Version"] == coterie.__version__
    assert found["License-Expression"] == "Apache-2.0"
    assert found["Description-Content-Type"] == "text/markdown"
    assert set(EXTRAS) <= set(found.get_all("Provides-Extra", []))
    assert "Typing :: Typed" in found.get_all("Classifier", [])


def test_the_wheel_alone_is_a_whole_coterie(wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "environment"
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"

    def run(*command: str, text: str | None = None) -> str:
        done = subprocess.run(
            command, cwd=tmp_path, input=text, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        return done.stdout

    constraints = str(ROOT / "constraints.txt")
    run(sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "-c", constraints, str(wheel))
    assert coterie.__version__ in run(str(home / "bin" / "coterie"), "--version")
    address = f"127.0.0.1:{free_port()}"
    broker = subprocess.Popen(
        [python, "-m", "coterie", "broker", "--memory", "--listen", address], stdout=subprocess.PIPE, text=True
    )
    try:
        assert broker.stdout is not None
        assert broker.stdout.readline().startswith("listening on")
        coterie_command = [str(python), "-m", "coterie"]
        at = ["--bootstrap-server", address]
        run(*coterie_command, "topics", "create", "t", "--partitions", "1", *at)
        run(*coterie_command, "produce", "t", *at, text="one\ntwo\n")
        lines = run(*coterie_command, "consume", "t", "--from-beginning", "-n", "2", *at).splitlines()
        assert [line.split()[-1] for line in lines] == ["one", "two"]
    finally:
        broker.terminate()
        assert broker.wait(10) == 0
