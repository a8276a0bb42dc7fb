"""What the proxy does not understand of a group is logged, and then fails the test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def everything_is_understood(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    assert not [record.getMessage() for record in caplog.records if "not understood" in record.getMessage()]
