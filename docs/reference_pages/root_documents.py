"""Documents of the repository's root as pages of the site, with their links turned to the site's pages."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    "ARCHITECTURE.md": "/contributing/architecture.md",
    "CHANGELOG.md": "/changelog.md",
    "CONTRIBUTING.md": "/contributing/index.md",
    "GLOSSARY.md": "/glossary.md",
    "README.md": "/index.md",
    "SECURITY.md": "/contributing/security.md",
}
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")


def page(document: str) -> str:
    """The text of `document`, whose links lead to pages of the site. A link to a file that the site lacks becomes text."""

    def turned(link: re.Match[str]) -> str:
        picture, label, target, heading = link[1], link[2], link[3], link[4] or ""
        if "://" in target:
            return link[0]
        if target in PAGES:
            return f"[{label}]({PAGES[target]}{heading})"
        if target.startswith("docs/"):
            return f"{picture}[{label}](/{target.removeprefix('docs/')}{heading})"
        return label

    return _LINK.sub(turned, (ROOT / document).read_text("utf-8"))
