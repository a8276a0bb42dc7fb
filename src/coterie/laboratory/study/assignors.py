"""The assignor of the study's members under each of the classic protocols. It imports nothing: a process of `bench study` is
timed from its start."""

from __future__ import annotations

ASSIGNOR_OF_PROTOCOL = {"eager": "range", "cooperative": "cooperative-sticky"}
