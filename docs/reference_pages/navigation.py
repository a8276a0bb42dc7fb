"""The titles of all pages beside each page, without what Sphinx does for nothing: for each page it copies all headings of all
pages and then drops them, half the time of a build."""

from __future__ import annotations

from typing import Any

from sphinx.addnodes import toctree


def _without_headings(contents: Any) -> Any:
    """The title of a page, and the pages below it, as Sphinx has them with titles_only."""
    contents = contents.deepcopy()
    for title in contents.children:
        if len(title) > 1:
            title[1][:] = list(title.findall(toctree))
            if not title[1].children:
                title.pop(1)
    return contents


def prepare(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Of Sphinx's event html-page-context, before the theme asks for the titles."""
    if "toctree" not in context:
        return
    env, of_sphinx = app.env, context["toctree"]
    if not hasattr(app, "titles_of_pages"):
        app.titles_of_pages = {name: _without_headings(contents) for name, contents in env.tocs.items()}

    def titles(**options: Any) -> Any:
        assert options["titles_only"]
        contents, env.tocs = env.tocs, app.titles_of_pages
        try:
            return of_sphinx(**options)
        finally:
            env.tocs = contents

    context["toctree"] = titles
