"""A change of the code changes the stories of seeds. Prints, for each rule of a table DEFECTS whose seed no longer sees that
the rule is off, the first seed that does.

    python -m tests.laboratory.known_seeds test_cluster_fuzz test_transaction_cluster_fuzz
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest

MOST_SEEDS = 200


def seeing_seed(
    defect: Callable[[pytest.MonkeyPatch], None], known: int, run_seeds: Callable[[Sequence[int]], None]
) -> int | None:
    """The known seed if it fails while the rule is off, or the first one from 0 on; None where none of `MOST_SEEDS` does."""
    with pytest.MonkeyPatch.context() as patch:
        defect(patch)
        for seed in (known, *range(MOST_SEEDS)):
            try:
                run_seeds([seed])
            except Exception:
                return seed
    return None


def main(names: Sequence[str]) -> None:
    for name in names:
        module: Any = importlib.import_module(f"tests.laboratory.{name}")
        for defect, known in module.DEFECTS.items():
            seed = seeing_seed(defect, known, module.run_seeds)
            if seed != known:
                print(f"{name}: {defect.__name__}: {seed}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
