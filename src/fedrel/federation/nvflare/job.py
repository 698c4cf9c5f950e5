"""The job for FLARE. It contains no code, only names of classes that are installed at every site."""

from __future__ import annotations

import json
from pathlib import Path

from fedrel.errors import UserError

ENGINE = "fedrel.federation.nvflare"
CONTROLLER = f"{ENGINE}.controller.RelayController"
EXECUTOR = f"{ENGINE}.executor.RelayExecutor"
TASK = "fedrel"
_QUICK = 0.05  # seconds between a site's requests for work


def files(name: str = "fedrel-relay") -> dict[str, dict[str, object]]:
    """The files of the job: content by path."""
    meta = {"name": name, "resource_spec": {}, "min_clients": 1, "deploy_map": {"app": ["@ALL"]}}
    server = {
        "format_version": 2,
        "workflows": [{"id": "relay", "path": CONTROLLER, "args": {}}],
        "components": [],
        "task_data_filters": [],
        "task_result_filters": [],
        "server": {"task_request_interval": _QUICK},
    }
    client = {
        "format_version": 2,
        "executors": [{"tasks": [TASK], "executor": {"path": EXECUTOR, "args": {}}}],
        "components": [],
        "task_data_filters": [],
        "task_result_filters": [],
        "default_task_fetch_interval": _QUICK,
    }
    return {
        "meta.json": meta,
        "app/config/config_fed_server.json": server,
        "app/config/config_fed_client.json": client,
    }


def write(folder: Path) -> None:
    """Writes the job into a new folder. Raises UserError if it exists."""
    if folder.exists():
        raise UserError(f"{folder}: already exists; choose another name")
    for name, content in files().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
