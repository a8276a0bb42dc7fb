"""A file or a page that code, tests or documents cite exists in this repository."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
SUFFIXES = (".py", ".pyx", ".md", ".txt", ".toml", ".java")
# A path from the root; what ends in / is a folder. A module, from the package's folder.
PATH = re.compile(r"(?<![\w/.:-])((?:src|conformance|docs|tests|examples)/[\w./-]*\w(?:\.\w+|/))(?![\w*{<])")
PACKAGES = (ROOT / "src" / "coterie", ROOT / "conformance" / "src" / "coterie_conformance")
ROOMS = sorted(
    {path.name for package in PACKAGES for path in package.iterdir() if path.is_dir() and path.name[0] != "_"}
)
MODULE = re.compile(rf"(?<![\w/.*:-])((?:{'|'.join(ROOMS)})/(?:\w+/)*\w+\.pyx?)\b")
PAGE = re.compile(r"(?<![\w/.*:-])(?:[\w-]+/)*[\w-]+\.md\b")
LINK = re.compile(r"(?<!\])\]\(([^)#\s]+)(?:#[^)]*)?\)")
RECORDED = ("src/coterie/certify/recordings/", "tests/pipeline/server_logs/", "tests/broker/data/")
NAME_MISSING_FILES = (Path(__file__), ROOT / "tests" / "docs" / "test_architecture.py")
# Files that commands and tests write, and no reader looks for here.
MADE = {"study.md", "OUT/study.md", "performance.md", "OUT/performance.md", "page.md", "pages.md"}


def tracked() -> list[Path]:
    """The files that belong to the repository, new ones included."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [ROOT / name for name in names if name.endswith(SUFFIXES) and not name.startswith(RECORDED)]


def missing_paths(text: str, file: Path) -> list[str]:
    """Cited paths that neither the repository nor the file's own folder has."""
    bases = (ROOT, *PACKAGES, file.parent)
    cited = PATH.findall(text) + MODULE.findall(text)
    return [path for path in cited if not any((base / path).exists() for base in bases)]


def missing_pages(text: str, file: Path) -> list[str]:
    """Cited Markdown pages that are neither at the root, nor in docs, nor beside the file."""
    bases = (ROOT, ROOT / "docs", file.parent)
    return [page for page in PAGE.findall(text) if page not in MADE and not any((b / page).exists() for b in bases)]


def missing_links(text: str, file: Path) -> list[str]:
    """Targets of a document's links that do not exist; addresses of the web are left out."""
    return [t for t in LINK.findall(text) if "://" not in t and not (file.parent / t).exists()]


def report(missing: dict[Path, list[str]]) -> str:
    return "\n".join(f"{path.relative_to(ROOT)}: {', '.join(names)}" for path, names in missing.items() if names)


def test_every_path_that_is_cited_exists() -> None:
    files = [path for path in tracked() if path not in NAME_MISSING_FILES]
    assert len(files) > 500
    assert not report({path: missing_paths(path.read_text("utf-8"), path) for path in files})


def test_every_page_that_is_cited_exists() -> None:
    files = [path for path in tracked() if path != Path(__file__)]
    assert not report({path: missing_pages(path.read_text("utf-8"), path) for path in files})


def test_every_link_of_a_document_leads_to_a_file() -> None:
    documents = [path for path in tracked() if path.suffix == ".md"]
    assert not report({path: missing_links(path.read_text("utf-8"), path) for path in documents})


def test_what_is_missing_is_reported() -> None:
    here = Path(__file__)
    assert missing_paths("see src/coterie/no_such.py and docs/nothing/ and docs/study.md", here) == [
        "src/coterie/no_such.py",
        "docs/nothing/",
    ]
    assert missing_paths("log/segments/segment_loader.py, broker/cluster/no_such.py", here) == [
        "broker/cluster/no_such.py"
    ]
    assert missing_pages("(spec: coordinator.md 3.1), README.md, shared/notes.md", here) == [
        "coordinator.md",
        "shared/notes.md",
    ]
    assert missing_links("[a](nothing.md#x) [b](test_site.py) [c](https://example.org/a.md)", here) == ["nothing.md"]
