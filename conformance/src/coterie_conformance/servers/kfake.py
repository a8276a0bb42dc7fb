"""kfake, the broker in memory of franz-go's own tests (Go)."""

from __future__ import annotations

from pathlib import Path

from coterie_conformance.servers.go_programs import FRANZ_GO, go_program

VERSION = "v0.0.0-20260918054303-01f206a7e32c"  # it has no releases
NAME = "kfake 2026-09-18"


def kfake_program() -> Path:
    """A program that prints its address and ends with SIGTERM. Raises CannotRun."""
    modules = f"github.com/twmb/franz-go@{FRANZ_GO}", f"github.com/twmb/franz-go/pkg/kfake@{VERSION}"
    return go_program(Path(__file__).with_suffix(".go"), *modules)
