"""Until which version requests name their topics: later ones have the topics' ids instead (KIP-516)."""

from __future__ import annotations

FETCH = PRODUCE = 12
OFFSET_COMMIT = OFFSET_FETCH = 9
