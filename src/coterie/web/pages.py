"""The pages: templates of Jinja2, escaped, with the texts of one language."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Any

import jinja2

from coterie.text.hidden import HIDDEN, visible

LANGUAGES = {"en": "English", "zh": "中文"}
DEFAULT_LANGUAGE = "en"


@cache
def texts(language: str) -> dict[str, str]:
    """Name -> text, of texts.json. A phrase of `text.phrase` has none in English, in which documents have it."""
    document = json.loads((files("coterie.web") / "texts.json").read_text("utf-8"))
    return {name: of_languages[language] for name, of_languages in document.items() if language in of_languages}


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("coterie.web"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["visible"] = visible
    return environment


def language_of(chosen: Iterable[str | None], accepted: str) -> str:
    """The first that the reader has ``chosen`` and that there is, or the first such of an Accept-Language header."""
    for wanted in chosen:
        if wanted in LANGUAGES:
            return wanted
    named = [item.partition(";")[0].strip().partition("-")[0].lower() for item in accepted.split(",")]
    return next((language for language in named if language in LANGUAGES), DEFAULT_LANGUAGE)


def page(template: str, language: str, **values: Any) -> str:
    """The HTML of a page; ``values`` are the template's."""
    of_language = texts(language)
    shared = {"t": of_language, "languages": LANGUAGES, "texts_json": script_json(of_language), "hidden": HIDDEN}
    return _environment().get_template(template).render(language=language, **shared, **values)


def script_json(value: Any) -> str:
    """JSON that can stand within a script element: no text in it ends the element."""
    return json.dumps(value, ensure_ascii=False).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
