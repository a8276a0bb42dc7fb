"""What is public is listed in docs/reference/public_api.txt; a change of it is named in the CHANGELOG.

`python -m tests.test_public_api` writes the list again; read the diff. A release copies it to public_api_released.txt.
"""

from __future__ import annotations

import difflib
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs"))

from reference_pages import public_api  # noqa: E402

LIST = ROOT / "docs/reference/public_api.txt"
RELEASED = ROOT / "docs/reference/public_api_released.txt"


def read(path: Path) -> list[str]:
    """No lines where there is no such file: before the first release."""
    return path.read_text("utf-8").splitlines() if path.exists() else []


def unreleased(changelog: str) -> str:
    """The section of what is not released yet. Raises ValueError where there is none."""
    match = re.search(r"^## \[?Unreleased\]?\n(.*?)(?=^## |\Z)", changelog, re.M | re.S)
    if match is None:
        raise ValueError("CHANGELOG.md has no section Unreleased")
    return match[1]


def not_named(released: list[str], listed: list[str], section: str) -> list[str]:
    """The names that were added, removed or changed since the release, and that the section does not name: neither by the
    name within the module (`Admin.lag`), nor by a class that is itself new or gone. A setting is named by its own name."""
    before, now = public_api.names(released), public_api.names(listed)
    changed = {name for name in before.keys() | now.keys() if before.get(name) != now.get(name)}
    came_or_went = before.keys() ^ now.keys()
    modules = sorted(public_api.MODULES, key=len, reverse=True)

    def is_named(name: str) -> bool:
        module = next((m for m in modules if name.startswith(f"{m}.")), "")
        setting = re.search(r'\["(.+)"\]$', name)
        short = setting[1] if setting else name.removeprefix(f"{module}.").removesuffix(".__init__")
        return re.search(rf"(?<![\w.])({re.escape(name)}|{re.escape(short)})(?!\.?\w)", section) is not None

    return sorted(
        name
        for name in changed
        if not is_named(name) and not ((owner := re.split(r"\[|\.\w+$", name)[0]) in came_or_went and is_named(owner))
    )


def test_the_list_is_that_of_the_code() -> None:
    listed = public_api.lines()
    difference = list(difflib.unified_diff(read(LIST), listed, "listed", "in the code", lineterm="", n=0))
    assert not difference, "python -m tests.test_public_api writes the list again\n" + "\n".join(difference)


def test_what_changed_since_the_release_is_in_the_changelog() -> None:
    released = read(RELEASED)
    if released:
        assert not_named(released, read(LIST), unreleased((ROOT / "CHANGELOG.md").read_text("utf-8"))) == []


def test_the_list_has_every_kind_of_name_once_and_sorted() -> None:
    listed = public_api.lines()
    names = list(public_api.names(listed))
    assert names == sorted(set(names))
    assert len(names) == len(listed)
    for start in (
        "class coterie.client.Admin",
        "async coterie.client.Admin.create_topic(name: str, partitions: int = -1, configs: ",
        "coterie.client.Admin.each: Each",
        "coterie.client.GroupState.STABLE = 'Stable'",
        "coterie.client.KafkaError.code",
        "coterie.client.Node.rack: str | None",
        "coterie.client.PartitionLag.lag: int",
        "coterie.client.PartitionLag.end_offset: int",
        "coterie.client.KafkaError.__init__(code: ErrorCode",
        'coterie.client.ConsumerSettings["group.id"]: str | None',
        "coterie.pipeline.session.make_session(",
        "coterie.testing.ErrorCode = coterie.client.ErrorCode",
        "async coterie.client.Consumer.poll(",
        "coterie.testing.LocalBroker.create_topic(name: str, ",
        "fixture coterie.pytest_plugin.coterie_broker: Iterator[LocalBroker]",
        "coterie.__version__: str",
    ):
        assert any(line.startswith(start) for line in listed), start


RELEASE = ["class coterie.client.A", "coterie.client.A.go(n: int) -> int", "coterie.client.f() -> int"]


@pytest.mark.parametrize(
    ("now", "section", "missing"),
    [
        (RELEASE, "", []),
        (
            [RELEASE[0], "coterie.client.A.go(n: str) -> int", RELEASE[2]],
            "- `A.gone`, `B.A.go`",
            ["coterie.client.A.go"],
        ),
        ([RELEASE[0], "coterie.client.A.go(n: str) -> int", RELEASE[2]], "- `A.go` takes text", []),
        ([RELEASE[0], "coterie.client.A.go(n: str) -> int", RELEASE[2]], "- `A`", ["coterie.client.A.go"]),
        (RELEASE[2:], "- `A` is gone", []),
        (RELEASE[:2], "- nothing", ["coterie.client.f"]),
        ([*RELEASE, "class coterie.client.New", "coterie.client.New.b: int"], "- `coterie.client.New`", []),
        ([*RELEASE, "class coterie.client.New", "coterie.client.New.b: int"], "- `Newer`", None),
        ([*RELEASE, 'coterie.client.A["b.c"]: int'], "- `b.c`: a setting", []),
        ([*RELEASE, 'coterie.client.A["b.c"]: int'], "- `b.c.d`", ['coterie.client.A["b.c"]']),
    ],
)
def test_a_change_that_the_changelog_does_not_name_is_reported(
    now: list[str], section: str, missing: list[str] | None
) -> None:
    expected = ["coterie.client.New", "coterie.client.New.b"] if missing is None else missing
    assert not_named(RELEASE, now, section) == expected


def test_the_section_ends_at_the_next_release() -> None:
    assert unreleased("# C\n\n## Unreleased\n\n- `A`\n\n## 0.1.0, 2026-12-01\n\n- `B`\n") == "\n- `A`\n\n"
    assert unreleased("## [Unreleased]\n- `A`\n") == "- `A`\n"
    with pytest.raises(ValueError):
        unreleased("# C\n\n## 0.1.0\n")
    assert unreleased((ROOT / "CHANGELOG.md").read_text("utf-8"))


def main() -> None:
    LIST.write_text("\n".join(public_api.lines()) + "\n", "utf-8")


if __name__ == "__main__":
    main()
