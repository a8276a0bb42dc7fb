"""The playground's page as files: each text that it names is there in both languages, and what is packed for Pyodide."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path

import pytest
from reference_pages.playground_site import (
    PAGE,
    SHARED,
    STATIC,
    TEXTS,
    NoRuntime,
    assemble,
    pack,
    runtime,
    sources,
    texts,
)

from coterie.coordinator.journal.line import EVENTS
from coterie.laboratory.playground.lessons import LESSONS
from coterie.laboratory.playground.playground import ACTIONS
from coterie.laboratory.playground.settings import PROTOCOLS, SETTINGS
from coterie.member.consumer.state import ConsumerStage
from coterie.member.state import Stage

OWN = json.loads(TEXTS[0].read_text("utf-8"))
SOURCE = "\n".join(path.read_text("utf-8") for path in sorted(PAGE.iterdir()) if path.suffix in (".html", ".js"))


def test_what_the_page_names_is_a_text_and_each_text_is_named() -> None:
    named = set(re.findall(r'data-text="([\w.-]+)"', SOURCE)) | set(re.findall(r'\bt\("([\w.-]+)"', SOURCE))
    named |= {"play", "pause", "request", "response", "takes", "releases", "stage.running", "stage.ended"}
    assert named <= texts().keys(), named - texts().keys()
    made = {f"stage.{stage.value}" for stage in (*Stage, *ConsumerStage)} | {f"event.{name}" for name in EVENTS}
    made |= {f"{part}.{protocol}" for part in ("protocol", "server") for protocol in PROTOCOLS}
    made |= {f"act.{action}" for action in ACTIONS} | {f"setting.{name}" for name in SETTINGS if "." not in name}
    made |= {f"do.{action}" for action in ACTIONS - {"grow", "vanish"}} | {
        f"held.{kind}" for kind in ("pause", "cut", "slow")
    }
    made |= {f"lesson.{lesson.name}.{part}" for lesson in LESSONS for part in ("title", "text")}
    # The playground has no several brokers, no observer, no share groups and no streams groups.
    made -= {"event.coordinator_moved", "event.pattern_seen", "event.records_archived", "event.states_changed"}
    made -= {"event.tasks_restored"}
    assert made <= OWN.keys(), made - OWN.keys()
    rest = OWN.keys() - named - made
    assert {name.partition(".")[0] for name in rest} <= {"rule", "cost", "timeline"}, rest


def test_each_text_is_there_in_both_languages_with_the_same_values() -> None:
    for name, of_languages in OWN.items():
        values = {language: sorted(re.findall(r"\{\w+\}", text)) for language, text in of_languages.items()}
        assert values.keys() == {"en", "zh"}, name
        assert values["en"] == values["zh"], name


def test_a_zip_depends_on_its_files_alone(tmp_path: Path) -> None:
    for name, files in (("one", {"b.py": b"2", "a.py": b"1"}), ("other", {"a.py": b"1", "b.py": b"2"})):
        pack(files, tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
    assert zipfile.ZipFile(tmp_path / "one").namelist() == ["a.py", "b.py"]


@pytest.mark.slow
def test_the_bundle_is_what_a_session_imports() -> None:
    names = sources().keys()
    assert {"coterie/laboratory/playground/session.py", "coterie/coordinator/shard.py"} <= names
    assert {"google_crc32c/python.py", "coterie/laboratory/playground/texts.json"} <= names
    assert {name.split("/")[0] for name in names} == {"coterie", "google_crc32c"}, "no other library is needed"
    assert not any("/pipeline/" in name or "/broker/" in name or "/client/" in name for name in names)


def test_without_pyodide_the_page_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoRuntime, match="npm and node are missing"):
        runtime(fetch=True)
    assert "npm and node" in assemble(tmp_path / "site", fetch=True)
    assert json.loads((tmp_path / "site" / "built.json").read_text())["missing"]
    assert all((tmp_path / "site" / name).read_bytes() == (STATIC / name).read_bytes() for name in SHARED), (
        "as they are"
    )
