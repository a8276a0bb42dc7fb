"""The scenarios of tests/spec are the specification of these rooms: they run nearly all of each, without any other test."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

import pytest

import coterie.assignors
import coterie.member
import coterie.member.consumer
import coterie.producing
import coterie.share
from coterie_conformance.scenarios.assignor_scenario import AssignorScenario
from coterie_conformance.scenarios.groups.scenario import Run, parse_scenarios, run_scenario
from coterie_conformance.scenarios.members.consumer_member_scenario import (
    ConsumerMemberScenario,
    ShareMemberScenario,
)
from coterie_conformance.scenarios.members.member_scenario import MemberScenario
from coterie_conformance.scenarios.producer_scenario import ProducerScenario
from coterie_conformance.scenarios.share.share_scenario import ShareScenario
from coterie_conformance.scenarios.transactional_scenario import TransactionalScenario

SPEC = Path(__file__).parent / "spec"
LEAST = 0.9
Worlds = Mapping[str, Callable[[], Run]]  # by folder


def lines_of(code: CodeType) -> set[int]:
    nested = (lines_of(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    return {line for _, _, line in code.co_lines() if line}.union(*nested)


def lines_in_functions(path: Path) -> set[int]:
    """Definitions run at the import, so that they would count for nothing."""
    source = path.read_text()
    bodies: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            bodies.update(range(node.body[0].lineno, (node.end_lineno or 0) + 1))
    return lines_of(compile(source, str(path), "exec")) & bodies


@pytest.mark.parametrize(
    ("module", "worlds"),
    [
        (coterie.assignors, {"assignors": AssignorScenario}),
        (coterie.member, {"member": MemberScenario}),
        (coterie.member.consumer, {"consumer_member": ConsumerMemberScenario, "share_member": ShareMemberScenario}),
        (coterie.producing, {"producer": ProducerScenario, "transactional_producer": TransactionalScenario}),
        (coterie.share, {"share": ShareScenario}),
    ],
    ids=lambda value: value.__name__ if isinstance(value, ModuleType) else "",
)
def test_the_scenarios_run_nine_lines_in_ten(module: ModuleType, worlds: Worlds) -> None:
    run: dict[str, set[int]] = {str(path): set() for path in Path(module.__file__ or "").parent.glob("*.py")}

    def enter(frame: FrameType, event: str, argument: Any) -> Any:
        lines = run.get(frame.f_code.co_filename)
        if lines is None:
            return None

        def follow(frame: FrameType, event: str, argument: Any) -> Any:
            lines.add(frame.f_lineno)
            return follow

        return follow

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        for spec, world in worlds.items():
            for path in (SPEC / spec).glob("*.txt"):
                for scenario in parse_scenarios(path.read_text()):
                    run_scenario(scenario, world)
    finally:
        sys.settrace(before)
    wanted = {(name, line) for name in run for line in lines_in_functions(Path(name))}
    missing = {(Path(name).name, line) for name, line in wanted if line not in run[name]}
    assert len(missing) <= (1 - LEAST) * len(wanted), sorted(missing)
