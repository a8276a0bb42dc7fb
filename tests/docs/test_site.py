"""The documentation site: built once without a warning; its links, pictures and search as a browser finds them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.test_pages import CHROMIUM, QUIET

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


def _in_browser(url: str, folder: Path) -> tuple[str, list[str]]:
    """(the page's DOM after its scripts ran, the errors on its console)."""
    assert CHROMIUM is not None, ".ci/run installs Chromium"
    options = [f"--user-data-dir={folder / 'profile'}", "--window-size=1200,1600", "--virtual-time-budget=8000"]
    command = [CHROMIUM, *QUIET, *options, "--enable-logging=stderr", "--dump-dom", url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, re.findall(r".*CONSOLE.*", done.stderr)


@pytest.mark.skipif(
    CHROMIUM is None and os.environ.get("CI") != "true", reason="LOUD: no Chromium here to open a page in"
)
class TestInABrowser:
    @pytest.mark.parametrize("page", ["index", "study", "reference/state-diagrams", "reference/broker-settings"])
    def test_a_page_without_errors(self, site: Path, tmp_path: Path, page: str) -> None:
        dom, errors = _in_browser((site / f"{page}.html").as_uri(), tmp_path)
        assert "<h1>" in dom
        assert not errors

    def test_an_error_on_the_console_is_reported(self, tmp_path: Path) -> None:
        (tmp_path / "page.html").write_text("<script>throw new Error('thrown by the test')</script>")
        _, errors = _in_browser((tmp_path / "page.html").as_uri(), tmp_path)
        assert "thrown by the test" in errors[0]

    def test_a_search(self, site: Path, tmp_path: Path) -> None:
        dom, _ = _in_browser((site / "search.html").as_uri() + "?q=group.initial.rebalance.delay.ms", tmp_path)
        assert 'href="reference/broker-settings.html' in dom
