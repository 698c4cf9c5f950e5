"""What a kit allows: who may do what, which classes a job may name, and where logs and jobs lie."""

import json
from pathlib import Path

import pytest
from nvflare.apis.fl_exception import UnsafeComponentError
from nvflare.apis.workspace import Workspace
from nvflare.app_common.widgets.component_path_authorizer import ComponentPathAuthorizer
from nvflare.fuel.sec.authz import AuthzContext, Person
from nvflare.fuel.utils.config_factory import ConfigFactory
from nvflare.security.security import FLAuthorizer

from fedrel.federation.engines.nvflare.kits import open_kit
from fedrel.federation.engines.nvflare.storage import KitStorage


def may(kit: Path, role: str, right: str) -> bool:
    policy = json.loads((kit / "local" / "authorization.json").read_text())
    person = Person("x@fedrel.local", "fedrel", role)
    allowed, _ = FLAuthorizer("fedrel", policy).authorize(AuthzContext(right, person, person))
    return bool(allowed)


@pytest.mark.parametrize("role", ["lead", "member", "project_admin", "org_admin", "", "anything"])
@pytest.mark.parametrize("kit", ["coordinator", "a"])
def test_nobody_brings_code_or_looks_into_files(made, kit, role):
    for right in ("byoc", "server-predeployed-flwr", "cat", "ls", "grep", "clone_job"):
        assert not may(made / kit, role, right)
    for right in ("configure_job_log", "configure_site_log"):  # a logging configuration can call any function
        assert not may(made / kit, role, right)


def test_a_lead_starts_and_stops_runs_a_member_looks_and_others_do_nothing(made):
    start = ("submit_job", "abort_job", "app_command", "download_job", "disable_client", "shutdown")
    look = ("list_jobs", "get_job_meta", "check_status")
    for right in (*start, *look):
        assert may(made / "coordinator", "lead", right)
        assert may(made / "coordinator", "member", right) == (right in look)
        assert not may(made / "coordinator", "", right)


def test_a_platform_can_be_asked_to_train_but_not_be_shut_down_or_made_to_show_errors(made):
    for right in ("submit_job", "abort_job", "check_status"):
        assert may(made / "a", "lead", right)
    for right in ("shutdown", "restart", "report_env", "sys_info", "show_errors", "call", "download_job"):
        assert not may(made / "a", "lead", right)


@pytest.mark.parametrize(
    ("kit", "own"), [("coordinator", "coordinator.Coordinator"), ("a", "platform.Platform"), ("b", "platform.Platform")]
)
def test_a_job_names_our_class_and_no_other(made, kit, own):
    workspace = Workspace(str(made / kit))

    def ask(path: str) -> None:
        ComponentPathAuthorizer().authorize_component_config({"path": path}, workspace=workspace)

    ours = "fedrel.federation.engines.nvflare."
    ask(ours + own)
    ask("nvflare.app_common.logging.job_log_streamer.JobLogStreamer")  # NVFlare puts it into every job
    strangers = ["nvflare.app_common.workflows.fedavg.FedAvg", "subprocess.Popen", ours + "kits.Kit", ours + own + "2"]
    for path in strangers:
        with pytest.raises(UnsafeComponentError, match="not in allow_list"):
            ask(path)


def test_logs_stay_at_home_and_jobs_in_the_kit(made, tmp_path, monkeypatch):
    site = json.loads((made / "a/local/resources.json").read_text())
    assert site["allow_log_streaming"] is False
    server = json.loads((made / "coordinator/local/resources.json").read_text())
    assert server["servers"][0]["heart_beat_timeout"] == 30
    assert "/tmp" not in json.dumps([site, server])
    monkeypatch.chdir(tmp_path)
    (store,) = (part["args"] for part in server["components"] if part["id"] == "job_store")
    (manager,) = (part["args"] for part in server["components"] if part["id"] == "job_manager")
    KitStorage(**store).create_object(manager["uri_root"] + "/job", b"content", {"name": "job"})
    assert (tmp_path / "store/jobs/job/data").read_bytes() == b"content"


def test_a_job_cannot_bring_settings_of_its_own(federation):
    kit = open_kit(federation / "a")
    names = ("comm_config.json", "resources.json", "fed_client.json")
    for folder in ("0-job/app/config", "z-job/app/config"):
        (kit.folder / folder).mkdir(parents=True)
        for name in names:
            (kit.folder / folder / name).write_text('{"comm_driver_path": "0-job/app/config"}')
    environment = kit.environment()
    for name in names:
        _, found = ConfigFactory.search_config_format(name, [str(kit.folder)])
        assert "comm_driver_path" not in Path(found).read_text()
    assert Path(environment["TMPDIR"]).is_relative_to(kit.folder)
    assert kit.environment() == environment  # again, at the next start
