"""Every file of the package with the first sentence of its docstring, by folder."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from reference_pages.markdown import code, table, text

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "coterie"
_SENTENCE_END = re.compile(r"\.\s(?=[A-Z`_])")
LONG = 30  # words: of a longer sentence the part before its colon or semicolon


def first_sentence(docstring: str) -> str:
    """The first sentence of the first paragraph, without the full stop; of a long one its first clause."""
    paragraph = " ".join(docstring.split("\n\n")[0].replace("``", "`").split())
    sentence = _SENTENCE_END.split(paragraph)[0].removesuffix(".")
    return re.split("[:;] ", sentence)[0] if len(sentence.split()) > LONG else sentence


def modules() -> str:
    """A heading for each folder with the sentence of its `__init__`, and a table of its files."""
    parts = []
    for folder in sorted({path.parent for path in PACKAGE.rglob("*.py")}):
        files = sorted(folder.glob("*.py"))
        sentences = {
            path.stem: first_sentence(ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "") for path in files
        }
        about = sentences.pop("__init__", "")
        name = folder.relative_to(PACKAGE).as_posix()
        parts.append(f"## `{'coterie' if name == '.' else name}/`\n\n{text(about)}.\n")
        if sentences:
            parts.append(
                table(("file", "what it holds"), [(code(stem), text(about)) for stem, about in sentences.items()])
            )
    return "\n".join(parts)
