"""What a kit allows, apart from its certificates: who may do what, which classes a job may name, where jobs lie.

NVFlare's defaults let a submitter ship code to every site and stream logs (which can hold text) to the server, and
keep jobs in a temporary folder that every user of the machine can read.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

ENGINE = "fedrel.federation.engines.nvflare"
# The framework puts it into every job, whether or not the site lets logs out.
_LOG_STREAMER = "nvflare.app_common.logging.job_log_streamer.JobLogStreamer"
COORDINATOR_CLASSES = (f"{ENGINE}.coordinator.Coordinator", _LOG_STREAMER)
PLATFORM_CLASSES = (f"{ENGINE}.platform.Platform", _LOG_STREAMER)

_PINNED = {"comm_config.json", "resources.json", "fed_server.json", "fed_client.json"}
LEAD, MEMBER = "lead", "member"
_NOBODY = {
    **{"byoc": "none", "server-predeployed-flwr": "none", "shell_commands": "none", "clone_job": "none"},
    **{"configure_job_log": "none", "configure_site_log": "none"},  # a logging configuration can name any function
}
_VIEW = {"submit_job": "none", "manage_job": "none", "download_job": "none", "operate": "none", "view": "any"}
_SUBMIT = _VIEW | {"submit_job": "any", "manage_job": "any"}
_SERVER_RIGHTS = {
    LEAD: _SUBMIT | {"download_job": "any", "operate": "any", "app_command": "any"} | _NOBODY,
    MEMBER: _VIEW | {"app_command": "none"} | _NOBODY,
}
_NO_ERRORS = {"show_errors": "none", "reset_errors": "none"}  # a site's error can quote its text
_SITE_RIGHTS = {LEAD: _SUBMIT | _NO_ERRORS | _NOBODY, MEMBER: _VIEW | _NO_ERRORS | _NOBODY}


def harden_server(kit: Path) -> None:
    _write(kit / "local" / "authorization.json", _rights(_SERVER_RIGHTS))
    resources = _read_default(kit)
    server = resources["servers"][0]
    server["heart_beat_timeout"] = 30  # a dead platform is noticed within half a minute, not ten
    del server["download_job_url"]
    resources["class_allow_list"] = list(COORDINATOR_CLASSES)
    resources["snapshot_persistor"]["args"]["storage"] = _storage("store/snapshots")
    components = {component["id"]: component for component in resources["components"]}
    del components["log_receiver"]
    components["job_manager"]["args"]["uri_root"] = "store/jobs"
    components["job_store"] = {"id": "job_store", **_storage(".")}
    resources["components"] = list(components.values())
    _write(kit / "local" / "resources.json", resources)
    _finish(kit)


def harden_site(kit: Path) -> None:
    _write(kit / "local" / "authorization.json", _rights(_SITE_RIGHTS))
    resources = _read_default(kit)
    resources["class_allow_list"] = list(PLATFORM_CLASSES)
    resources["allow_log_streaming"] = False
    resources["components"] = [part for part in resources["components"] if part["id"] != "site_log_streamer"]
    _write(kit / "local" / "resources.json", resources)
    _finish(kit)


def harden_admin(kit: Path) -> None:
    _finish(kit)


def pin_settings(kit: Path) -> None:
    """NVFlare looks for its settings in every folder below the kit, those of jobs too, and takes the first that it
    finds; on top of all others, a job cannot bring its own (a driver of its own choice, for instance, which is code).
    """
    for path in (*(kit / "local").glob("*.json"), *(kit / "startup").glob("*.json")):
        on_top, target = kit / path.name, path.relative_to(kit)
        if path.name in _PINNED and not (on_top.is_symlink() and on_top.readlink() == target):
            on_top.unlink(missing_ok=True)
            on_top.symlink_to(target)


def pin_session_settings(kit: Path) -> None:
    """To be called before a session of an admin, for which NVFlare would search all of the working directory."""
    from nvflare.fuel.utils.config_service import ConfigService

    os.environ.update(trusted(kit))
    ConfigService.initialize(section_files={}, config_path=[str((kit / "local").absolute())])


def trusted(kit: Path) -> dict[str, str]:
    """Environment with which OpenSSL trusts this federation's authority alone, and not every one in the world:
    NVFlare loads those too, and does not compare the server's name.
    """
    return {"SSL_CERT_FILE": str((kit / "startup" / "rootCA.pem").absolute()), "SSL_CERT_DIR": str(kit.absolute())}


def _rights(roles: dict[str, dict[str, str]]) -> dict[str, Any]:
    nothing = dict.fromkeys(roles[LEAD], "none")
    return {"format_version": "1.0", "permissions": {"project_admin": nothing, "org_admin": nothing, **roles}}


def _storage(folder: str) -> dict[str, Any]:
    return {"path": f"{ENGINE}.storage.KitStorage", "args": {"folder": folder}}


def _read_default(kit: Path) -> Any:
    return json.loads((kit / "local" / "resources.json.default").read_text())


def _write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n")


def _finish(kit: Path) -> None:
    """Without scripts that start a node past our checks, samples, and defaults that a hardened file replaces."""
    _write(kit / "local" / "comm_config.json", {"allow_adhoc_conns": False, "backbone_conn_gen": 2})
    for path in [*kit.glob("startup/*"), *kit.glob("local/*")]:
        replaced = path.suffix == ".default" and path.with_suffix("").exists()
        if replaced or path.suffix in (".sh", ".sample", ".txt", ".ipynb"):
            path.unlink()
