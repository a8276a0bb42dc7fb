"""The project's addresses in a package's metadata, from COTERIE_URL, which the release's workflow sets to the repository's. A
build without it, as from a checkout, has none: a wrong address would be worse."""

from __future__ import annotations

import os
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

PAGES = {"Source": "", "Documentation": "/tree/main/docs", "Changelog": "/blob/main/CHANGELOG.md", "Issues": "/issues"}


class ProjectUrls(MetadataHookInterface):
    """Completes `[project]`, whose field `urls` is dynamic."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """``metadata``: the table `[project]`."""
        repository = os.environ.get("COTERIE_URL", "").rstrip("/")
        metadata["urls"] = {name: repository + page for name, page in PAGES.items()} if repository else {}
