"""What a newcomer sees first: a test that runs as printed, and every extra in the table of the installation."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from coterie.runtime.extras import EXTRAS

DOCS = Path(__file__).parents[2] / "docs"


def test_the_test_on_the_first_page_passes(tmp_path: Path) -> None:
    index = (DOCS / "index.md").read_text("utf-8")
    [block] = re.findall(r"```python\n(.*?)```", index, re.S)
    (tmp_path / "test_it.py").write_text(block)
    options = ["-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)]
    command = [sys.executable, "-m", "pytest", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert "1 passed" in done.stdout, done.stdout[-3000:]


def test_the_installation_has_every_extra() -> None:
    """And no other: an extra is named in the first cell of a row."""
    rows = re.findall(r"^\| (`[^|]*`) \|", (DOCS / "install.md").read_text("utf-8"), re.M)
    assert sorted(name for row in rows for name in re.findall(r"`(\w+)`", row)) == sorted(EXTRAS)
