"""The scripts of the image (release/image), with a `coterie` that prints how it was called. `./run package check-image`
runs the image itself in containers. The image's files in place of Kafka's, started with the variables and the script of
each Kafka module of testcontainers.

What the module waits for comes, and a client on the advertised listener writes and reads. `./run package check-image` runs the
modules themselves, with containers.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.package.fresh_environment import ROOT
from tests.package.kafka_modules import MODULE_STARTS
from tests.package.started_image import NAMESPACES, PROGRAMS

IMAGE = ROOT / "release" / "image" / "rootfs"
COTERIE = """#!/bin/bash
echo "coterie $*"
env | grep ^KAFKA_ | sort
[ "$1" != users ] || cat
"""
BROKER = "coterie broker --environment --insecure"
LOCAL = ["KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:9092", "KAFKA_LISTENERS=PLAINTEXT://:9092"]
DISK = "KAFKA_LOG_DIRS=/var/lib/kafka/data"
MISSING = [name for name in ("unshare", "mount", "bash", *PROGRAMS) if shutil.which(name) is None]


def run(script: str, tmp_path: Path, *arguments: str, **variables: str) -> list[str]:
    program = tmp_path / "coterie"
    program.write_text(COTERIE)
    program.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", **variables}
    command = ["bash", str(IMAGE / script), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.mark.parametrize(
    ("variables", "lines"),
    [
        ({}, [BROKER, *LOCAL, DISK]),
        ({"COTERIE_OPTIONS": "--memory --http 0.0.0.0:80"}, [f"{BROKER} --memory --http 0.0.0.0:80", *LOCAL]),
        ({"KAFKA_LISTENERS": "PLAINTEXT://:1"}, [BROKER, "KAFKA_LISTENERS=PLAINTEXT://:1", DISK]),
        ({"KAFKA_LOG_DIRS": "/logs"}, [BROKER, *LOCAL, "KAFKA_LOG_DIRS=/logs"]),
        ({"KAFKA_ZOOKEEPER_CONNECT": "localhost:2181"}, [BROKER, *LOCAL, DISK]),
        (
            {"KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181"},
            [BROKER, *LOCAL, DISK, "KAFKA_ZOOKEEPER_CONNECT=zookeeper:2181"],
        ),
    ],
)
def test_the_broker_is_started(variables: dict[str, str], lines: list[str], tmp_path: Path) -> None:
    assert run("etc/kafka/docker/run", tmp_path, **variables) == lines


def test_the_first_users_of_scram_are_added(tmp_path: Path) -> None:
    user = "SCRAM-SHA-256=[name=alice,password=s3cret]"
    lines = run("usr/bin/kafka-storage", tmp_path, "format", "-t", "id", "-c", "file", "--add-scram", user)
    assert lines == ["coterie users add alice --mechanism SCRAM-SHA-256 --file /home/appuser/users", "s3cret"]
    assert run("usr/bin/kafka-storage", tmp_path, "format", "--ignore-formatted", "-t", "id") == []


def test_a_cluster_id_is_made(tmp_path: Path) -> None:
    (first,), (second,) = (run("usr/bin/kafka-storage", tmp_path, "random-uuid") for _ in range(2))
    assert len(first) == 22
    assert first != second


needs_namespaces = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0 or bool(MISSING),
    reason="a container's namespaces take root on Linux, with unshare, mount and the programs that its scripts call",
)


@needs_namespaces
@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(MODULE_STARTS)), ids=[start.name for start in MODULE_STARTS])
def test_the_module_starts_the_image(number: int, tmp_path: Path) -> None:
    command = [*NAMESPACES, sys.executable, "-m", "tests.package.started_image", str(number), str(tmp_path)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    shown = json.loads(ended.stdout)
    assert (shown["value"], shown["healthy"]) == ("hello", True)


def test_the_page_has_each_start() -> None:
    page = (ROOT / "docs/how-to/run-without-python.md").read_text()
    rows = re.findall(r"^\| (Java|Go|Node|Python) (\S+) \| `([^`]+)`(.*?) \| `(\S+)` \|", page, re.MULTILINE)
    shown = [f"{language} {version}: {starter}{mode}" for language, version, starter, mode, _ in rows]
    assert shown == [start.name for start in MODULE_STARTS]
    assert [image for *_, image in rows] == [start.image for start in MODULE_STARTS]
