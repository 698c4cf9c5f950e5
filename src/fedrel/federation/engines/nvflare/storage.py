"""Where the coordinator's server keeps its jobs: inside the kit, wherever that was copied to."""

from pathlib import Path

from nvflare.app_common.storages.filesystem_storage import FilesystemStorage


class KitStorage(FilesystemStorage):  # type: ignore[misc]  # nvflare has no types
    """NVFlare asks for an absolute path, which a kit cannot know; its processes work in the kit's folder."""

    def __init__(self, folder: str) -> None:
        super().__init__(root_dir=str(Path(folder).absolute()), uri_root="/")
