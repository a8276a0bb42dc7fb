"""A plugin of pytest that runs tests while a rule is switched off: ``-p conformance.tests.stories.rule_off --rule-off
MODULE:FUNCTION``."""

from __future__ import annotations

from pkgutil import resolve_name

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rule-off", required=True, metavar="MODULE:FUNCTION", help="The function that switches a rule off."
    )


def pytest_configure(config: pytest.Config) -> None:
    resolve_name(config.getoption("--rule-off"))(pytest.MonkeyPatch())
