"""What the extra `spark` installs."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from pathlib import Path

NAME = re.compile(r"[A-Za-z0-9-]+")


def names(requirements: list[str]) -> set[str]:
    return {match[0].lower() for match in map(NAME.match, requirements) if match is not None}


def test_the_extra_brings_what_spark_connect_needs() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    ours = names(project["optional-dependencies"]["spark"])
    needed = names([r for r in importlib.metadata.requires("pyspark") or () if 'extra == "connect"' in r])
    assert {"grpcio", "grpcio-status", "googleapis-common-protos", "zstandard"} <= needed
    assert needed <= ours
