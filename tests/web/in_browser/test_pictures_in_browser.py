"""The pictures of the console and of a report in the docs are taken by the tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.web.in_browser import in_a_browser
from tests.web.in_browser.pictures import PICTURES, SIZE, take_console, take_report

pytestmark = [pytest.mark.slow, in_a_browser]


async def test_the_pictures_of_the_docs(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    folder = Path(request.config.getoption("pictures") or tmp_path)
    await take_report(folder, tmp_path / "report")
    await take_console(folder, tmp_path / "data")
    for name in PICTURES:
        picture = (folder / name).read_bytes()
        width = int.from_bytes(picture[16:20], "big")  # of its header, IHDR
        assert picture.startswith(b"\x89PNG"), name
        assert 1000 <= width <= SIZE["width"], name
