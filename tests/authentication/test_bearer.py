"""The token of a request over HTTP."""

from __future__ import annotations

import pytest

from coterie.authentication.bearer import bears

TOKEN = "a token of enough characters"


@pytest.mark.parametrize("header", [f"Bearer {TOKEN}", TOKEN])
def test_the_token_is_borne(header: str) -> None:
    assert bears(header, TOKEN)


@pytest.mark.parametrize("header", ["", "Bearer ", "Bearer another", f"Basic {TOKEN}", "Bearer \udcff", "Bearer é"])
def test_anything_else_is_refused_without_an_error(header: str) -> None:
    assert not bears(header, TOKEN)
