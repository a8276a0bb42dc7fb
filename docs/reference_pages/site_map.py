"""The toctrees of the sections whose pages are written by hand: tutorial, how-to, concepts, and the pages in Chinese."""

from __future__ import annotations

from pathlib import Path

DOCS = Path(__file__).resolve().parents[1]
SECTIONS = {"Tutorial": "tutorial", "How to": "how-to", "Concepts": "concepts", "中文": "zh"}


def pages(folder: Path) -> list[Path]:
    """The pages of a section, its index first. An index with a toctree of its own lists the others itself."""
    index = folder / "index.md"
    if index.exists() and "{toctree}" in index.read_text("utf-8"):
        return [index]
    return sorted(
        folder.rglob("*.md"), key=lambda path: (path.parent, path.stem.lower() not in ("index", "readme"), path)
    )


def sections() -> str:
    """A toctree for each section that has pages."""
    parts = []
    for caption, name in SECTIONS.items():
        entries = [page.relative_to(DOCS).with_suffix("").as_posix() for page in pages(DOCS / name)]
        if entries:
            parts.append("\n".join(["```{toctree}", f":caption: {caption}", ":maxdepth: 1", "", *entries, "```", ""]))
    return "\n".join(parts)
