"""Settings that were altered at run time, but for the topics': of brokers, client metrics and groups. Kept in
`altered-configs.json` in the data folder, so that they outlive a restart.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from coterie.log import checked_files
from coterie.log.checked_files import UnreadableFile
from coterie.log.filesystem import FileSystem

_FILE = "altered-configs.json"


class ResourceType(IntEnum):
    """Types of resources with settings, numbered as Kafka's ConfigResource.Type."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


Resource = tuple[ResourceType, str]  # with its name


class KeptConfigs:
    """Altered settings by resource. A broker's name is its id, or "" for the default of all brokers. Raises UnreadableFile,
    OSError."""

    def __init__(self, fs: FileSystem) -> None:
        self._fs = fs
        self._kept: dict[ResourceType, dict[str, dict[str, str]]] = {}
        if fs.exists(_FILE):
            remedy = "restore it from a backup, or move it away to go on without what was altered"
            kept = checked_files.read_json(fs, _FILE, remedy)
            try:
                self._kept = {ResourceType[kind]: dict(resources) for kind, resources in kept.items()}
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise UnreadableFile(_FILE, "it does not hold settings", remedy) from error

    def of(self, kind: ResourceType, name: str) -> dict[str, str]:
        """A copy of the altered settings of that resource."""
        return dict(self._kept.get(kind, {}).get(name, {}))

    def names(self, kind: ResourceType) -> list[str]:
        """The resources of that type that have altered settings."""
        return sorted(self._kept.get(kind, {}))

    def replace(self, altered: Mapping[Resource, Mapping[str, str]]) -> None:
        """All altered settings of each of these resources, written to disk once before they are in force here. Raises
        OSError."""
        kept = self._kept | {kind: dict(self._kept.get(kind, {})) for kind, _ in altered}
        for (kind, name), configs in altered.items():
            kept[kind].pop(name, None)
            if configs:
                kept[kind][name] = dict(configs)
        self._fs.write_file(_FILE, checked_files.to_json({k.name: r for k, r in sorted(kept.items()) if r}))
        self._kept = kept
