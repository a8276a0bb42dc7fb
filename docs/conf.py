"""Sphinx's configuration of the documentation site; `./run docs` builds it, `tests/docs` checks it."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]

from reference_pages.expansion import setup  # noqa: E402, F401  Sphinx calls `setup` of its configuration

project = "coterie"
author = "The coterie authors"
copyright = "The coterie authors"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
root_doc = "index"
nitpicky = True

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
myst_links_external_new_tab = False

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
autodoc_use_type_comments = False
add_module_names = False
# Types in signatures that the reference has no entry for, Python's own among them (an inventory would need the network).
# Type variables have no entry either.
nitpick_ignore_regex = [("py:class", r".*"), ("py:obj", r"coterie\..*\.(K|V|T|T_co|T_contra)")]

html_theme = "furo"
html_title = "coterie"
html_static_path = ["_static"]
html_css_files = ["tables.css"]
html_favicon = "_static/icon.svg"
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {"navigation_with_keys": False}
