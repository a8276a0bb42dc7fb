"""The documentation site: built once without a warning; its links, pictures and search as a browser finds them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from coterie_conformance.console.browser import CHROMIUM, OPTIONS
from tests.docs.site_sweep import faults
from tests.web.in_browser import in_a_browser

pytestmark = pytest.mark.slow
QUIET = ("--headless", "--hide-scrollbars", *OPTIONS)

ROOT = Path(__file__).parents[2]
pytest.importorskip("sphinx", reason="LOUD: the extra docs is not installed (./run test installs it)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built pages; a warning fails the build."""
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-n", "-b", "html"]
    command += ["-d", str(out / "doctrees"), str(ROOT / "docs"), str(out / "html")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stderr == ""
    return out / "html"


class _Page(HTMLParser):
    """The ids of a page, and what it points at."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.targets: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and name == "id":
                self.ids.add(value)
            elif value and (tag, name) in {("a", "href"), ("img", "src"), ("script", "src"), ("link", "href")}:
                self.targets.append(value)


def _broken(site: Path) -> Iterator[str]:
    pages = {path: _Page(path.read_text("utf-8")) for path in site.rglob("*.html")}
    for path, page in pages.items():
        for target in page.targets:
            url = urlsplit(target)
            if url.scheme or url.netloc:
                continue
            goal = (path.parent / unquote(url.path)).resolve() if url.path else path
            name = path.relative_to(site)
            if not goal.is_file():
                yield f"{name}: {target}"
            elif url.fragment and goal in pages and unquote(url.fragment) not in pages[goal].ids:
                yield f"{name}: {target} has no such heading"


def test_no_link_and_no_picture_is_missing(site: Path) -> None:
    assert not list(_broken(site))


def test_a_broken_link_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<p id="here"><a href="#here">1</a><a href="#gone">2</a><img src="gone.png">')
    assert list(_broken(tmp_path)) == ["a.html: #gone has no such heading", "a.html: gone.png"]


def test_every_page_of_the_folder_is_part_of_the_site(site: Path) -> None:
    sources = [path for path in (ROOT / "docs").rglob("*.md") if "_build" not in path.parts]
    assert sources
    missing = [p for p in sources if not (site / p.relative_to(ROOT / "docs")).with_suffix(".html").is_file()]
    assert not missing


def test_the_search_index_has_the_words_of_the_reference(site: Path) -> None:
    index = json.loads((site / "searchindex.js").read_text("utf-8").removeprefix("Search.setIndex(").removesuffix(")"))
    names, terms = index["docnames"], index["terms"]
    for word, page in (("session_timeout", "reference/journal"), ("heartbeat", "reference/client-settings")):
        pages = terms[word]
        assert page in {names[n] for n in (pages if isinstance(pages, list) else [pages])}, word


@in_a_browser
class TestInABrowser:
    def test_every_page_can_be_read_on_a_phone_and_on_a_desk(self, site: Path, tmp_path: Path) -> None:
        pages = [page.relative_to(site).as_posix() for page in site.rglob("*.html") if "_static" not in page.parts]
        assert len(pages) > 100
        assert CHROMIUM is not None, ".ci/run installs Chromium"
        assert not faults([CHROMIUM, *QUIET], site, sorted(pages), tmp_path)

    def test_the_faults_of_a_page_are_reported(self, tmp_path: Path) -> None:
        pages = {
            "right.html": "<p>a word</p>",
            "thrown.html": "<script>throw new Error('by the test')</script>",
            "blank.html": "<img src='gone.png'>",
            "wide.html": "<p style='width: 700px'>a word</p>",
        }
        for name, text in pages.items():
            (tmp_path / name).write_text(f"<!doctype html><meta name=viewport content='width=device-width'>{text}")
        assert CHROMIUM is not None, ".ci/run installs Chromium"
        reported = "\n".join(faults([CHROMIUM, *QUIET], tmp_path, sorted(pages), tmp_path))
        assert "blank.html: no picture gone.png" in reported
        assert re.search(r"wide.html: \d+ pixels wider than a window of 390", reported)
        assert "than a window of 1280" not in reported
        assert "Uncaught Error: by the test" in reported
        assert "right.html" not in reported

    def test_a_search(self, site: Path, tmp_path: Path) -> None:
        url = (site / "search.html").as_uri() + "?q=group.initial.rebalance.delay.ms"
        options = [f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=8000", "--dump-dom"]
        assert CHROMIUM is not None, ".ci/run installs Chromium"
        done = subprocess.run(
            [CHROMIUM, *QUIET, *options, url], capture_output=True, text=True, timeout=120, check=True
        )
        assert 'href="reference/broker-settings.html' in done.stdout
