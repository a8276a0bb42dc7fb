"""The build hook, without hatchling and Cython, which only a build has."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

HOOK = Path(__file__).parents[2] / "hatch_build.py"


def test_a_new_build_leaves_the_file_that_processes_have_mapped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`./run setup` beside a broker: overwritten in place, the extension module ended the broker with a segmentation fault."""
    interface = ModuleType("hatchling.builders.hooks.plugin.interface")
    interface.BuildHookInterface = SimpleNamespace  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, interface.__name__, interface)
    put_in_place = runpy.run_path(str(HOOK))["put_in_place"]
    made, built = tmp_path / "made.so", tmp_path / "package" / "_unfold.so"
    built.parent.mkdir()
    made.write_bytes(b"new")
    built.write_bytes(b"old")
    with built.open("rb") as mapped:
        put_in_place(made, built)
        assert mapped.read() == b"old"
    assert built.read_bytes() == b"new"
    assert list(built.parent.iterdir()) == [built]


@pytest.mark.parametrize("url", ["", "https://h.example/o/coterie", "https://h.example/o/coterie/"])
def test_the_addresses_in_the_metadata_are_those_of_the_release(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    interface = ModuleType("hatchling.metadata.plugin.interface")
    interface.MetadataHookInterface = SimpleNamespace  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, interface.__name__, interface)
    monkeypatch.setenv("COTERIE_URL", url)
    metadata: dict[str, object] = {}
    runpy.run_path(str(HOOK.with_name("project_urls.py")))["ProjectUrls"]().update(metadata)
    pages = {
        "Source": "",
        "Documentation": "/tree/main/docs",
        "Changelog": "/blob/main/CHANGELOG.md",
        "Issues": "/issues",
    }
    assert metadata == {
        "urls": {name: f"https://h.example/o/coterie{page}" for name, page in pages.items()} if url else {}
    }
