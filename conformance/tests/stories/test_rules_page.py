"""The page of the rules that are switched off, each with what sees it: docs/contributing/rules-off.md. To write it:

python -m conformance.tests.stories.test_rules_page
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path

from conformance.tests.stories import test_cluster_switches as clusters
from conformance.tests.stories import test_switches as alone
from conformance.tests.stories.cluster_rooms import SEEN_IN_ROOMS

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/contributing/rules-off.md"
FORMER = Path(__file__).with_name("former_seeds.txt")  # a line for each: the rule, the kind of story, the seed
HEAD = """# Rules that are switched off

Would the stories notice a broken rule? Each function of `conformance/tests/stories/switches_of_…` and `cluster_switches`
takes one rule out of the production code, and the test of its row must fail then: a seed of `./run stories`, or a scenario or
test of the room where a lock, a queue or a poll hides the rule from seeds. The same seeds find nothing while all rules are on.

```console
$ ./run test conformance/tests/stories -k logs_are_not_truncated
```

A change of the code changes the stories of seeds. Where a rule's seed no longer sees it, the first that does is found by
`python -m conformance.tests.stories.test_cluster_switches [NAME...]`, or `test_switches` there; `test_rules_page` writes this
page.

*Formerly* is the seed of `lab fuzz` that saw the rule off in the laboratory's doubles of brokers and clients, which the
stories of whole programs replaced: its number, or of how many one saw it. A rule without one is new.
"""


def page() -> str:
    """The whole text."""
    former = {name: f"{kind} {seed}" for name, kind, seed in (line.split(" ", 2) for line in FORMER.open())}
    tables = [
        (
            "One broker and its clients",
            {s: f"seed {at.seed}" for s, at in alone.SEEN.items()}
            | {s: _test_of(run) for s, run in alone.SEEN_BY_TESTS.items()},
        ),
        (
            "Three or four brokers",
            {s: f"seed {at.seed}" for s, at in clusters.SEEN.items()}
            | {s: _test_of(run) for s, run in SEEN_IN_ROOMS.items()},
        ),
    ]
    lines = [HEAD]
    for title, seen in tables:
        lines += [f"## {title}", "", "| off | seen by | formerly |", "|---|---|---|"]
        for switch, by in seen.items():
            name, doc = switch.__name__.replace("_", " "), (switch.__doc__ or "").split(". ")[0].strip().rstrip(".")
            shown = by if by.startswith("seed ") else f"`{by.replace('|', '')}`"
            lines.append(
                f"| {name}{f' ({doc})' if doc else ''} | {shown} | {former.get(switch.__name__, '').strip()} |"
            )
        lines.append("")
    return "\n".join(lines)


def _test_of(run: Callable[[], None]) -> str:
    """The test of a room, or its scenario as tests/test_spec.py has it."""
    if isinstance(run, partial):
        run = run.func
    scenario = inspect.getclosurevars(run).nonlocals
    if "file" in scenario:
        return f"{scenario['file']}:{scenario['name']}"
    run = scenario.get("test", run)
    return f"{run.__module__}.{run.__name__}"


def test_the_page_has_what_sees_each_rule() -> None:
    assert PAGE.read_text() == page(), "python -m conformance.tests.stories.test_rules_page writes it"


def test_each_former_seed_is_of_a_rule() -> None:
    rules = {
        switch.__name__ for seen in (alone.SEEN, alone.SEEN_BY_TESTS, clusters.SEEN, SEEN_IN_ROOMS) for switch in seen
    }
    assert {line.split()[0] for line in FORMER.open()} <= rules


if __name__ == "__main__":
    PAGE.write_text(page())
