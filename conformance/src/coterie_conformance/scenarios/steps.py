"""A step of a scenario: a verb, words, and options NAME=VALUE."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from coterie_conformance.scenarios.groups.scenario import ScenarioError

T = TypeVar("T")


def run_step(verbs: Mapping[str, Callable[[list[str], dict[str, str]], T]], line: str) -> T:
    """What the verb of the line returns for its words and options. Raises ScenarioError for a verb that is not among these."""
    verb, *words = line.split()
    if verb not in verbs:
        raise ScenarioError(f"{verb!r} is not a step; there are {', '.join(sorted(verbs))}")
    options = dict(word.split("=", 1) for word in words if "=" in word)
    return verbs[verb]([word for word in words if "=" not in word], options)
