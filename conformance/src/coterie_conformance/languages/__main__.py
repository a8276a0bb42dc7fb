"""`python -m coterie_conformance.languages` writes what is generated, from the repository's root."""

from __future__ import annotations

from pathlib import Path

from coterie_conformance.languages.generated import sources

if __name__ == "__main__":
    for path, text in sources().items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text)
