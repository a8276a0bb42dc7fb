"""The scripts of the image (release/image), with a `coterie` that prints how it was called. `./run package check-image` runs
the image itself in containers."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.package.fresh_environment import ROOT

IMAGE = ROOT / "release" / "image" / "rootfs"
COTERIE = """#!/bin/bash
echo "coterie $*"
env | grep ^KAFKA_ | sort
[ "$1" != users ] || cat
"""


def run(script: str, tmp_path: Path, *arguments: str, **variables: str) -> list[str]:
    program = tmp_path / "coterie"
    program.write_text(COTERIE)
    program.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", **variables}
    command = ["bash", str(IMAGE / script), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()


BROKER = "coterie broker --environment --insecure"
LOCAL = ["KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:9092", "KAFKA_LISTENERS=PLAINTEXT://:9092"]
DISK = "KAFKA_LOG_DIRS=/var/lib/kafka/data"


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
