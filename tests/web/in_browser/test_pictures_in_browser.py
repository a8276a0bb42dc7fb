"""The pictures of the console, of a report and of the demo in the docs are taken by the tests."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.web.in_browser import in_a_browser
from tests.web.in_browser.demo_pictures import DEMO_PICTURES, take_demo
from tests.web.in_browser.pictures import PICTURES, SIZE, take_console, take_report

pytestmark = [pytest.mark.slow, in_a_browser]


def _assert_pictures(folder: Path, names: Iterable[str]) -> None:
    for name in names:
        picture = (folder / name).read_bytes()
        width = int.from_bytes(picture[16:20], "big")  # of its header, IHDR
        assert picture.startswith(b"\x89PNG"), name
        assert 1000 <= width <= SIZE["width"], name


async def test_the_pictures_of_the_console_and_of_a_history(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    folder = Path(request.config.getoption("pictures") or tmp_path)
    await take_report(folder, tmp_path / "report")
    await take_console(folder, tmp_path / "data")
    _assert_pictures(folder, PICTURES)


async def test_the_pictures_of_the_demo(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    folder = Path(request.config.getoption("pictures") or tmp_path)
    assert await take_demo(folder, tmp_path / "demo") == 0
    _assert_pictures(folder, DEMO_PICTURES)
    drawn = (folder / "demo.svg").read_text("utf-8").replace("&#160;", " ")
    assert "ben was silent for its session timeout" in drawn
    assert drawn.count("anna leaves cleanly") == 1
