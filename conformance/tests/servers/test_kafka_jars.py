"""The folders of jars, with a stand-in for Maven that makes an empty file of each dependency."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from coterie_conformance.servers.kafka import EVERY_VERSION, jars, java, maven_jars

MAVEN = """
import pathlib, re, sys
[folder] = [word.partition("=")[2] for word in sys.argv if word.startswith("-DoutputDirectory=")]
pathlib.Path(folder).mkdir()
for artifact, version in re.findall(r"<artifactId>([^<]+)</artifactId><version>([^<]+)</version></dep", open("pom.xml").read()):
    pathlib.Path(folder, artifact + "-" + version + ".jar").touch()
"""


@pytest.fixture(autouse=True)
def _maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mvn.py").write_text(MAVEN)
    run_maven = (
        f'#!/bin/sh\nexec "{sys.executable}" "{tmp_path}/mvn.py" "$@"\n'  # a path in the first line has no spaces
    )
    for name, text in (("mvn", run_maven), ("java", "#!/bin/sh\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_folder_of_other_jars_is_fetched_anew() -> None:
    one, other = ("g", "one", "1"), ("g", "other", "2")
    assert names(maven_jars("some", [one])) == {"one-1.jar"}
    (maven_jars("some", [one]) / "kept.jar").touch()
    assert names(maven_jars("some", [one])) == {"one-1.jar", "kept.jar"}
    assert names(maven_jars("some", [one, other])) == {"one-1.jar", "other-2.jar"}


@pytest.mark.parametrize("version", EVERY_VERSION)
def test_the_logger_is_of_the_slf4j_of_that_version(version: str) -> None:
    """All have slf4j-api 1.7."""
    assert "slf4j-simple-1.7.36.jar" in names(jars(version))


def test_kafka_0_11_has_the_configuration_of_log4j() -> None:
    configured = [
        version for version in EVERY_VERSION if any("log4j.properties" in word for word in java(version, "Main"))
    ]
    assert configured == ["0.11.0.3"]
