"""The Chinese pages have the headings, code blocks and tables of figures of the English ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent.parent / "docs"
# Chinese page -> the English one.
PAIRS = {
    "README": DOCS.parent / "README.md",
    "tutorial": DOCS / "tutorial" / "index.md",
    **{f"how-to/{page.stem}": page for page in sorted((DOCS / "how-to").glob("*.md"))},
    **{f"concepts/{page.stem}": page for page in sorted((DOCS / "concepts").glob("*.md"))},
}
_BLOCK = re.compile(r"^```[{}\w]*\n.*?^```$", re.DOTALL | re.MULTILINE)


def blocks(text: str) -> list[str]:
    return _BLOCK.findall(text)


def headings(text: str) -> list[int]:
    """The level of each heading."""
    return [len(marks) for marks in re.findall(r"^(#+) ", _BLOCK.sub("", text), re.MULTILINE)]


def figures(text: str) -> list[str]:
    return re.findall(r"<!-- figures: .*? -->", text)


def pictures(text: str) -> list[str]:
    """The file names."""
    return re.findall(r"^!\[.*?\]\((?:[^)]*/)?(.*?)\)", text, re.MULTILINE)


@pytest.mark.parametrize("name", sorted(PAIRS))
def test_a_page_has_what_the_english_one_has(name: str) -> None:
    chinese, english = (DOCS / "zh" / f"{name}.md").read_text(), PAIRS[name].read_text()
    for part in (headings, blocks, figures, pictures):
        assert part(chinese) == part(english), part.__name__


def test_no_page_is_missing_and_none_is_left_over() -> None:
    there = {str(page.relative_to(DOCS / "zh").with_suffix("")) for page in (DOCS / "zh").rglob("*.md")}
    assert there == {"index", *PAIRS}


def test_every_paragraph_is_translated() -> None:
    for page in (DOCS / "zh").rglob("*.md"):
        for paragraph in re.split(r"\n\s*\n", _BLOCK.sub("", page.read_text())):
            if paragraph.strip() and not paragraph.startswith(("<!--", "|", "# ", "## ", "![")):
                assert re.search(r"[\u4e00-\u9fff]", paragraph), f"{page.name}: {paragraph}"
