"""What needs a real browser."""

from __future__ import annotations

import os

import pytest

from coterie_conformance.console.browser import CHROMIUM

in_a_browser = pytest.mark.skipif(
    CHROMIUM is None and os.environ.get("CI") != "true", reason="LOUD: no Chromium here to open a page in"
)
