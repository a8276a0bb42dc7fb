"""The image's files in place of Kafka's, started with the variables and the script of each Kafka module of testcontainers.

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

MISSING = [name for name in ("unshare", "mount", "bash", *PROGRAMS) if shutil.which(name) is None]
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
