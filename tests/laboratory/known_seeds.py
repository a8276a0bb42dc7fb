"""Rules of the laboratory's clusters, each switched off, and a seed that sees it. A change of the code changes the stories of
seeds. Prints, for each rule of a module's `RULES` whose seed no longer sees that the rule is off, the first seed that does.

    python -m tests.laboratory.known_seeds test_cluster_fuzz test_transaction_cluster_fuzz
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pytest

from coterie.laboratory.fuzz import FuzzFailure

MOST_SEEDS = 200
SEEDS_FOR_A_DEFECT = 12
Defect = Callable[[pytest.MonkeyPatch], None]  # switches a rule off


@dataclass(frozen=True, slots=True)
class KnownSeeds:
    """``known``: each rule that is off, and a seed that sees it, which fails with one of ``failures`` and a text that matches
    ``match``; ``others`` are tried where that seed sees nothing any more."""

    known: Mapping[Defect, int]
    run_seed: Callable[[int], object]
    others: Sequence[int]
    failures: tuple[type[Exception], ...] = (FuzzFailure,)
    match: str | None = None

    def each(self) -> pytest.MarkDecorator:
        """Parametrizes a test by ``defect``: each rule that is off, and None, while all are on."""
        names = [defect.__name__ for defect in self.known]
        return pytest.mark.parametrize("defect", [*self.known, None], ids=[*names, "all_rules_are_on"])

    def check(self, defect: Defect | None, patch: pytest.MonkeyPatch) -> None:
        """The seeds see that the rule is off; those that are known see nothing while all rules are on."""
        if defect is None:
            self._run(sorted(set(self.known.values())))
            return
        defect(patch)
        with pytest.raises(self.failures, match=self.match):
            self._run([self.known[defect], *self.others])

    def _run(self, seeds: Sequence[int]) -> None:
        for seed in seeds:
            self.run_seed(seed)

    def seeing_seed(self, defect: Defect) -> int | None:
        """The known seed if it fails while the rule is off, or the first one from 0 on; None where none of them does."""
        with pytest.MonkeyPatch.context() as patch:
            defect(patch)
            for seed in (self.known[defect], *range(MOST_SEEDS)):
                try:
                    self.run_seed(seed)
                except Exception:
                    return seed
        return None


def main(names: Sequence[str]) -> None:
    for name in names:
        rules: KnownSeeds = importlib.import_module(f"tests.laboratory.{name}").RULES
        for defect, known in rules.known.items():
            seed = rules.seeing_seed(defect)
            if seed != known:
                print(f"{name}: {defect.__name__}: {seed}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
