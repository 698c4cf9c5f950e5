"""All messages that NVFlare 2.9 answers from the network while the relay's job runs: (channel, topic) by process.

Found by running it. A test compares this list with what the installed version registers, so that new callbacks are
noticed.
"""

from __future__ import annotations

Pair = tuple[str, str]

_NET_MANAGER = (
    *("bulk_item", "bulk_test", "cells", "change_root", "comm_config", "config_vars", "conns", "echo", "heartbeat"),
    *("list_pools", "msg_stats", "peers", "process_info", "route", "show_pool", "speed", "start_route", "stop"),
    *("stop_cell", "stress", "url_use"),
)
_EVERYWHERE: set[Pair] = {
    *(("_net_manager", topic) for topic in _NET_MANAGER),
    ("aux_communication", "*"),
    ("cellnet.channel", "bulk"),
    ("cellnet.channel", "bye"),
    ("credential_manager", "key_exchange"),
    *(("sm__STREAM", f"sm__{topic}") for topic in ("ACK", "DATA", "ERROR")),
}
_TASKS: set[Pair] = {("server_command", "get_task"), ("server_command", "submit_update")}

REQUESTS: dict[str, set[Pair]] = {
    "client": _EVERYWHERE | _TASKS | {("admin", "*")},
    "client job": _EVERYWHERE
    | _TASKS
    | {("client_command", "*")}
    | {("download_service__", f"download_service__{topic}") for topic in ("download", "source_failure")},
    "server": _EVERYWHERE
    | {("hci_channel", "*"), ("server_parent_listener", "*")}
    | {("task", topic) for topic in ("challenge", "heart_beat", "quit", "register", "report_job_failure")},
    "server job": _EVERYWHERE | {("server_command", "*")},
}
_STREAMS: set[Pair] = {("aux_communication", "*"), ("return_only", "*")}
STREAMS: dict[str, set[Pair]] = {
    "client": _STREAMS | _TASKS,
    "client job": _STREAMS
    | _TASKS
    | {("download_service__", f"download_service__{topic}") for topic in ("download", "source_failure")},
    "server": _STREAMS | {("hci_channel", "*")},
    "server job": _STREAMS | {("server_command", "*")},
}
COMMANDS = {  # of a client, within a message on its admin channel
    *("info.reset_errors", "info.show_errors", "info.show_stats", "resource_manager.report_resources"),
    *("scheduler.cancel_resource", "scheduler.check_resource", "sys.configure_site_log", "sys.info"),
    *("sys.report_env", "sys.report_version", "sys.shell", "train.abort", "train.abort_task", "train.check_status"),
    *("train.configure_job_log", "train.delete_run", "train.deploy", "train.get_scopes", "train.notify_job_status"),
    *("train.restart", "train.shutdown", "train.start_job"),
}
# Topics to try instead of "*" on channels that accept any
TOPICS: dict[str, tuple[str, ...]] = {
    "admin": ("admin", *sorted(COMMANDS)),
    "aux_communication": (
        *("ObjectStreamer.Abort", "ObjectStreamer.Request", "RM.RELIABLE_REPLY", "RM.RELIABLE_REQUEST"),
        *("__do_task__", "__end_run__", "__job_heartbeat__", "__sync_runner__", "__task_check__", "fed.event"),
        "fedrel.beat",
    ),
    "client_command": (
        *("abort", "abort_task", "check_status", "configure_job_log", "reset_errors", "show_errors", "show_stats"),
        "shutdown",
    ),
    "hci_channel": ("command",),
    "return_only": ("server_command:get_task",),
    "server_command": ("abort", "configure_job_log", "get_task", "handle_dead_job", "show_stats", "submit_update"),
    "server_parent_listener": ("get_clients", "heartbeat", "update_run_status", "anything"),
}


def each(pairs: set[Pair]) -> list[Pair]:
    """The rules with `*` replaced by topics."""
    return sorted(
        (channel, found) for channel, topic in pairs for found in (TOPICS[channel] if topic == "*" else (topic,))
    )
