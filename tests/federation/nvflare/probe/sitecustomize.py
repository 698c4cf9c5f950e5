"""Loaded by every Python process with this folder on its path: records which callbacks NVFlare registers.

One line for each callback of a cell, each one for streams, and each command of a client: to `$FLARE_PROBE/PID.jsonl`.
"""

import importlib.abc
import importlib.machinery
import json
import os
import sys
from pathlib import Path

_FOLDER = os.environ.get("FLARE_PROBE", "")


def _note(**line):
    with (Path(_FOLDER) / f"{os.getpid()}.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")


def _cells(module):
    register = module.CoreCell.register_request_cb

    def noted(self, channel, topic, cb, *args, **kwargs):
        _note(cell=self.my_info.fqcn, kind="request", channel=channel, topic=topic)
        return register(self, channel, topic, cb, *args, **kwargs)

    module.CoreCell.register_request_cb = noted


def _streams(module):
    register = module.ByteReceiver.register_callback

    def noted(self, channel, topic, stream_cb, *args, **kwargs):
        _note(cell=self.cell.my_info.fqcn, kind="stream", channel=channel, topic=topic)
        return register(self, channel, topic, stream_cb, *args, **kwargs)

    module.ByteReceiver.register_callback = noted


def _commands(module):
    register = module.FedAdminAgent.register_processor

    def noted(self, processor):
        for topic in processor.get_topics():
            _note(cell=self.cell.core_cell.my_info.fqcn, kind="command", channel="admin", topic=topic)
        return register(self, processor)

    module.FedAdminAgent.register_processor = noted


_CHANGED = {
    "nvflare.fuel.f3.cellnet.core_cell": _cells,
    "nvflare.fuel.f3.streaming.byte_receiver": _streams,
    "nvflare.private.fed.client.admin": _commands,
}


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        change = _CHANGED.pop(name, None)
        if change is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        execute = spec.loader.exec_module

        def changed(module):
            execute(module)
            change(module)

        spec.loader.exec_module = changed
        return spec


if _FOLDER:
    sys.meta_path.insert(0, _Finder())
