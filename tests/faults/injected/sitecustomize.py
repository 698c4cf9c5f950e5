"""Makes one process of a federation misbehave: on PYTHONPATH of a test's node, with FEDREL_FAULT saying how.

`reply:KIND:N` changes the N-th answer of a platform's training process: garbage, nan, norm, shape, dtype, field,
oversize, twice. `disk` lets no file of that process grow. `checkpoint` kills the coordinator's job, once, in the
middle of writing the checkpoint of its fourth round.
"""

import os
import signal
import sys
from pathlib import Path

_fault = os.environ.get("FEDREL_FAULT", "")
_line = Path("/proc/self/cmdline").read_bytes()


def _spoil_replies(kind, number):
    from fedrel.federation import frames

    send = frames.send
    sent = [0]

    def changed(frame):
        import torch

        from fedrel.federation.codec import decode, encode
        from fedrel.learning.named import Named

        record = decode(bytearray(frame.payload))
        group = next(name for name, value in record.items() if isinstance(value, Named))
        name = next(name for name, tensor in record[group].items() if tensor.is_floating_point() and tensor.numel() > 1)
        tensor = record[group][name].clone()
        if kind == "nan":
            tensor.view(-1)[0] = float("nan")
        elif kind == "norm":
            tensor += 1e9
        elif kind == "shape":
            tensor = tensor.reshape(-1)[:-1]
        elif kind == "dtype":
            tensor = tensor.double()
        elif kind == "field":
            record["surprise"] = 1.0
        elif kind == "oversize":
            record[group]["more"] = torch.zeros(30_000_000)
        record[group][name] = tensor
        return frames.Frame(frame.header, encode(record))

    def spoilt(pipe, frame):
        if frame.payload and "do" not in frame.header:
            sent[0] += 1
            if sent[0] == number:
                if kind == "garbage":
                    frame = frames.Frame(frame.header, os.urandom(1000))
                elif kind == "twice":
                    send(pipe, frame)
                else:
                    frame = changed(frame)
        send(pipe, frame)

    frames.send = spoilt


def _fill_the_disk():
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (4_000, 4_000))


def _die_in_a_checkpoint():
    fsync, seen = os.fsync, [0]
    done = Path(os.environ["FEDREL_FAULT_DONE"])

    def deadly(handle):
        if ".round.safetensors." in str(Path(f"/proc/self/fd/{handle}").readlink()):
            seen[0] += 1
            if seen[0] == 5 and not done.exists():
                done.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        fsync(handle)

    os.fsync = deadly


if _fault.startswith("reply:") and b"fedrel.worker" in _line:
    _spoil_replies(_fault.split(":")[1], int(_fault.split(":")[2]))
elif _fault == "disk" and b"fedrel.worker" in _line:
    _fill_the_disk()
elif _fault == "checkpoint" and b"runner_process" in _line:
    _die_in_a_checkpoint()
sys.modules.pop("sitecustomize", None)
