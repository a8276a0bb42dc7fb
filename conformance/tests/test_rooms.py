"""The factory's README, and what the product must not know of."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "conformance" / "src" / "coterie_conformance"


def test_every_room_has_a_row() -> None:
    rows = (ROOT / "conformance" / "README.md").read_text("utf-8").partition("## Rooms")[2]
    rooms = {path.parent.relative_to(PACKAGE).parts[0] for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE}
    assert not {room for room in rooms if f"`{room}/`" not in rows}


def test_no_text_of_the_product_names_the_factory_s_modules() -> None:
    """Not even by a name that is imported late, which import-linter does not see."""
    naming = [path for path in (ROOT / "src").rglob("*.py") if "coterie_conformance" in path.read_text("utf-8")]
    assert not naming


def test_a_level_has_at_most_15_files() -> None:
    folders = [PACKAGE, *(path for path in PACKAGE.rglob("*") if path.is_dir())]
    counts = {str(f.relative_to(PACKAGE)): len([p for p in f.glob("*.py") if p.stem[:2] != "__"]) for f in folders}
    assert not {folder: count for folder, count in counts.items() if count > 15}
