"""Options and fixtures of the whole suite."""

from __future__ import annotations

import pytest

pytest_plugins = ["tests.asyncio_complaints"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write the traces of tests/spec anew (then read the diff)")
    parser.addoption("--closes", type=int, default=40, help="how many consumers tests/client/test_closing.py closes")
