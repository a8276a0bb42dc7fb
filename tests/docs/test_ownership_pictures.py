"""The concept pages' pictures of who owns which partition are what the laboratory draws."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

CONCEPTS = Path(__file__).parent.parent.parent / "docs" / "concepts"
MODULE = runpy.run_path(str(CONCEPTS / "ownership_pictures.py"))
SCENES, DRAW = MODULE["SCENES"], MODULE["draw"]


@pytest.mark.parametrize("name", sorted(SCENES))
def test_a_picture_is_drawn_again(name: str) -> None:
    assert (CONCEPTS / f"{name}.svg").read_text() == DRAW(SCENES[name])


def test_every_picture_is_shown_on_a_page() -> None:
    pages = "".join(page.read_text() for page in CONCEPTS.glob("*.md"))
    assert {path.stem for path in CONCEPTS.glob("ownership-*.svg")} == set(SCENES)
    assert all(f"({name}.svg)" in pages for name in SCENES)
