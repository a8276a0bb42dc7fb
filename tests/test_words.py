"""The words of the house (docs/contributing/words.md) as far as a machine can hold them."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
BANNED_NAMES = frozenset({"said", "told", "place", "found", "answer", "answers", "answered"})
ANY_BANNED_NAME = re.compile(rf"\b_*(?:{'|'.join(BANNED_NAMES)})_*\b")
BANNED_WORDS = re.compile(r"\b(whoever|what came of it|those that|anew)\b", re.I)
AMERICAN = re.compile(
    r"\b(behaviors?|neighbors?|cancel(?:ed|ing)|label(?:ed|ing)|model(?:ed|ing)|favor(?:ed|able)?|honor(?:ed)?|gray|"
    r"recogniz(?:e|es|ed|ing)|organiz(?:e|es|ed|ing)|analyz(?:e|es|ed|ing)|judgment)\b",
    re.I,
)
WORDS_PAGE = ROOT / "docs/contributing/words.md"
# Classes of wire/messages have the names of Kafka's schemas, and Kafka uses these in several of them, or we elsewhere.
OF_SEVERAL_SCHEMAS = {
    "Assignment": ("ConsumerGroupDescribeResponse", "ConsumerGroupHeartbeatResponse"),
    "Coordinator": ("FindCoordinatorResponse", "client/connection/cluster"),
    "DescribedGroup": ("ConsumerGroupDescribeResponse", "DescribeGroupsResponse"),
    "EntityData": ("AlterClientQuotasRequest", "DescribeClientQuotasResponse"),
    "EntryData": ("AlterClientQuotasRequest", "DescribeClientQuotasResponse"),
    "Member": ("ConsumerGroupDescribeResponse", "coordinator/state"),
    "TopicPartitions": (
        "ConsumerGroupDescribeResponse",
        "ConsumerGroupHeartbeatResponse",
        "ConsumerProtocolSubscription",
        "ElectLeadersRequest",
    ),
}


def sources() -> list[Path]:
    return sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "conformance/src").rglob("*.py")])


def documents() -> list[Path]:
    """Every page a reader sees; the page of banned words itself is left out."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "conformance").glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    return sorted(page for page in pages if "_build" not in page.parts and page != WORDS_PAGE)


def bound_names(tree: ast.AST) -> Iterator[str]:
    """The names that a module binds: functions, classes, arguments, variables, attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def banned_names(text: str) -> Counter[str]:
    if not ANY_BANNED_NAME.search(text):
        return Counter()  # parsing two thousand files would take seconds
    return Counter(name for name in (n.strip("_") for n in bound_names(ast.parse(text))) if name in BANNED_NAMES)


def banned_words(text: str) -> Counter[str]:
    return Counter(" ".join(match.lower().split()) for match in BANNED_WORDS.findall(" ".join(text.split())))


def present() -> dict[str, Counter[str]]:
    """The occurrences in each file that has any; of tests, the names alone."""
    counts: dict[str, Counter[str]] = {}
    tests = {*(ROOT / "tests").rglob("*.py"), *(ROOT / "conformance/tests").rglob("*.py")}
    for path in [*sources(), *documents(), *sorted(tests)]:
        text = path.read_text("utf-8")
        counter = Counter[str]() if path in tests else banned_words(text)
        if path.suffix == ".py":
            counter += banned_names(text)
        if counter:
            counts[path.relative_to(ROOT).as_posix()] = counter
    return counts


def repeated_class_names() -> dict[str, list[str]]:
    """Public classes of one name in more than one module."""
    modules: dict[str, list[str]] = {}
    for path in sources():
        for name in re.findall(r"^class ([A-Za-z]\w*)", path.read_text("utf-8"), re.M):
            modules.setdefault(name, []).append(path.relative_to(ROOT).as_posix())
    return {n: paths for n, paths in sorted(modules.items()) if len(paths) > len(OF_SEVERAL_SCHEMAS.get(n, (n,)))}


def test_no_banned_word_is_used() -> None:
    used = [f"{path}: {word} {count} times" for path, words in present().items() for word, count in words.items()]
    assert not used, "docs/contributing/words.md has better words.\n" + "\n".join(used)


def test_no_class_name_has_a_second_meaning() -> None:
    assert not repeated_class_names()


def test_the_spelling_is_british() -> None:
    american = {
        path.relative_to(ROOT).as_posix(): words
        for path in [*sources(), *documents()]
        if (words := AMERICAN.findall(path.read_text("utf-8")))
    }
    assert not american


def test_a_banned_word_is_counted() -> None:
    text = "def told(place):\n    said = _found = 1\n    self.found = whoever_asks\n    # Whoever asks, those\n    # that ask\n"
    assert banned_names(text) == {"told": 1, "place": 1, "said": 1, "found": 2}
    assert banned_words(text.replace("#", "")) == {"whoever": 1, "those that": 1}
    assert AMERICAN.findall("The color's behavior was labeled") == ["behavior", "labeled"]
