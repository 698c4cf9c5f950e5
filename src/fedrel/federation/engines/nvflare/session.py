"""What an administrator can ask a coordinator: who is there, start a run, how is it doing, stop it."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nvflare.fuel.flare_api import api_spec
from nvflare.fuel.flare_api.flare_api import Session, new_secure_session

from fedrel.errors import UserError
from fedrel.federation.engines.nvflare.hardening import COORDINATOR_CLASSES, PLATFORM_CLASSES, pin_session_settings
from fedrel.federation.engines.nvflare.kits import Kit
from fedrel.federation.engines.nvflare.platform import TASK
from fedrel.federation.engines.nvflare.status import COMMAND


@dataclass(frozen=True)
class Job:
    id: str
    run: str
    state: str  # NVFlare's: SUBMITTED, RUNNING, FINISHED:COMPLETED, …


class Admin:
    def __init__(self, session: Session) -> None:
        self._session = session

    def connected(self) -> dict[str, float]:
        """Platforms that are there now, and when they last said so."""
        clients = self._session.get_system_info().client_info
        return {client.name: float(client.last_connect_time or 0) for client in clients}

    def submit(self, run: str, experiment: str) -> str:
        """Starts, or goes on with, a run; the id of its job."""
        with tempfile.TemporaryDirectory() as folder:
            job = Path(folder) / run
            write_job(job, run, experiment)
            with _explained("submit a run"):
                return str(self._session.submit_job(str(job)))

    def jobs(self) -> list[Job]:
        """The newest first."""
        found = sorted(self._session.list_jobs(detailed=False), key=lambda job: str(job.get("submit_time")))
        return [Job(job["job_id"], job.get("job_name", ""), job.get("status", "")) for job in reversed(found)]

    def running(self, run: str) -> list[str]:
        """The ids of the jobs that work on a run, the newest first. One whose server died counts for ever."""
        return [job.id for job in self.jobs() if job.run == run and job.state == "RUNNING"]

    def state(self, run: str) -> dict[str, Any] | None:
        """What the run's job says of it; none while there is no job, or it does not answer."""
        for job in self.running(run):
            with contextlib.suppress(NoAnswerError):
                return self.command(job, "status")
        return None

    def command(self, job: str, what: str) -> dict[str, Any]:
        with _explained("command a run"):
            answer: dict[str, Any] = self._session.do_app_command(job, COMMAND, what)
            return answer

    def jobs_of(self, platform: str) -> set[str]:
        """The ids of the jobs that a platform takes part in."""
        found = self._session.get_client_job_status([platform]) or []
        return {str(entry.get("job_id", "")) for entry in found if isinstance(entry, dict)}

    def abort(self, job: str) -> None:
        with _explained("stop a run"):
            self._session.abort_job(job)


@contextmanager
def connect(kit: Kit, *, timeout: float = 10.0) -> Iterator[Admin]:
    """With the identity of an admin's kit, or of the keeper in the coordinator's own."""
    if kit.role == "platform":
        raise UserError(f"{kit.folder}: a platform's kit cannot command the federation; use the admin's")
    identity = kit.keeper() if kit.role == "coordinator" else kit
    logging.getLogger("nvflare").setLevel(logging.CRITICAL)
    pin_session_settings(identity.folder)
    session = None
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # NVFlare chats
            session = new_secure_session(identity.user, str(identity.folder.absolute()), timeout=timeout)
        yield Admin(session)
    except (api_spec.NoConnection, ConnectionError, TimeoutError) as error:
        raise UserError(
            f"cannot reach the coordinator at {kit.host}:{kit.port} ({error}); is it running, and does it know "
            f"{identity.name}?"
        ) from None
    except api_spec.AuthenticationError as error:
        raise UserError(f"the coordinator refuses {identity.name}: {error}") from None
    finally:
        if session is not None:
            with contextlib.suppress(Exception), contextlib.redirect_stdout(io.StringIO()):
                session.close()


class NoAnswerError(Exception):
    """The run's job ended, or is too busy to answer."""


@contextmanager
def _explained(what: str) -> Iterator[None]:
    try:
        yield
    except api_spec.AuthorizationError:
        raise UserError(f"this identity has no right to {what}; ask for a kit with the role admin") from None
    except api_spec.JobNotFound:
        raise UserError(f"cannot {what}: the coordinator does not know it") from None
    except (api_spec.JobNotRunning, api_spec.NoReply, api_spec.InternalError, api_spec.CommandError) as error:
        raise NoAnswerError(str(error)) from None


def write_job(folder: Path, run: str, experiment: str) -> None:
    """A job carries names of classes that every party has installed, and the experiment; no code."""
    config = folder / "app" / "config"
    config.mkdir(parents=True)
    meta = {"name": run, "resource_spec": {}, "min_clients": 1, "deploy_map": {"app": ["@ALL"]}}
    coordinator = {"id": "coordinator", "path": COORDINATOR_CLASSES[0], "args": {"run": run, "experiment": experiment}}
    server = {
        "format_version": 2,
        "workflows": [coordinator],
        "components": [],
        "server": {"task_request_interval": 0.05},
        "dead_client_grace_period": 5,  # a platform that is gone is not waited for
        "dead_client_check_lead_time": 5,
    }
    client = {
        "format_version": 2,
        "executors": [{"tasks": [TASK], "executor": {"path": PLATFORM_CLASSES[0], "args": {}}}],
        "components": [],
        "default_task_fetch_interval": 0.05,
    }
    for path, content in (
        (folder / "meta.json", meta),
        (config / "config_fed_server.json", server),
        (config / "config_fed_client.json", client),
    ):
        path.write_text(json.dumps(content, indent=1), encoding="utf-8")
