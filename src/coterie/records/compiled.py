"""The compiled part, where it was built here (`_unfold`); one of an older source counts as not built."""

from __future__ import annotations

try:
    from coterie.records._unfold import Unfolder as Unfolder
    from coterie.records._unfold import walk as walk

    COMPILED = True
except ImportError:
    COMPILED = False
