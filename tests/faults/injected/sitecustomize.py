"""Injects a fault into one process of a federation: loaded through the PYTHONPATH of a test's node, chosen by
FEDREL_FAULT.

`reply:KIND:N` changes the N-th reply of a platform's training process before it is signed: garbage, nan, norm, shape,
dtype, field, oversize, noise, twice. `begin:KIND` changes each of its replies to `begin`. `disk` prevents its files
from growing. `checkpoint` kills the process of the coordinator's run, once, while it writes the checkpoint of its
fourth round. `die:TASK:WHEN` kills a platform's training process, once, in the second round, "before" or "after" it
does this task. `lie:KIND` has the coordinator's run lie in secure sums: `alone` says that all but one platform dropped
out, `rosters` tells platforms of different ones, `replay` sends the first round's offers again, `plain` asks for what
is to be added up itself, `crafted` sends other weights from the second round on, `different` sends them to p0 alone,
`again` sends the first weights in every round, `forged` says that another sum was opened. FEDREL_KEY_LOG is where a
platform's network process logs its TLS session keys.
"""

import os
import signal
import sys
from pathlib import Path

_fault = os.environ.get("FEDREL_FAULT", "")
_line = Path("/proc/self/cmdline").read_bytes()


def _once_confined(install):
    """Runs a function once the process is confined: libraries that start threads must not be loaded earlier."""
    from fedrel.federation.channel import Channel

    send = Channel.send

    def sending(self, header, payload=None):
        send(self, header, payload)
        if header.get("do") == "confined":
            install()

    Channel.send = sending


def _spoil_replies(kind, chosen):
    from fedrel.federation.channel import Channel
    from fedrel.federation.worker import Worker

    call, send = Worker.__call__, Channel.send
    answered = [0]

    def spoilt(self, request, payload):
        outcome = call(self, request, payload)
        answered[0] += bool(outcome.payload)
        if not outcome.payload or not chosen(request, answered[0]) or kind == "twice":
            return outcome
        return outcome._replace(payload=os.urandom(1000) if kind == "garbage" else changed(outcome.payload))

    def changed(payload):
        import torch

        from fedrel.learning.named import Named
        from fedrel.protocol.codec import decode, encode

        record = decode(bytearray(payload))
        if kind == "field":
            return encode(record | {"surprise": 1.0})
        if kind == "oversize":
            return encode(record | {"more": Named(zeros=torch.zeros(30_000_000))})
        group = next(name for name, value in record.items() if isinstance(value, Named))
        name = next(name for name, tensor in record[group].items() if tensor.is_floating_point() and tensor.numel() > 1)
        tensor = record[group][name].clone()
        if kind == "nan":
            tensor.view(-1)[0] = float("nan")
        elif kind == "norm":
            tensor += 1e9
        elif kind == "noise":
            tensor += 50 * torch.randn(tensor.shape)
        elif kind == "shape":
            tensor = tensor.reshape(-1)[:-1]
        elif kind == "dtype":
            tensor = tensor.double()
        record[group][name] = tensor
        return encode(record)

    def sending(self, header, payload=None):
        send(self, header, payload)
        if kind == "twice" and header.get("do") == "reply" and chosen(None, answered[0]):
            send(self, header, payload)

    Worker.__call__, Channel.send = spoilt, sending


def _fill_the_disk():
    """Limits regular files only: payloads between processes are in memory, of which there is enough."""
    import resource

    from fedrel.federation.channel import Blob

    write, most = Blob.write, (4_000, resource.RLIM_INFINITY)

    def writing(self, content):
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        write(self, content)
        resource.setrlimit(resource.RLIMIT_FSIZE, most)

    Blob.write = writing
    resource.setrlimit(resource.RLIMIT_FSIZE, most)


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


def _die_in(task, when):
    from fedrel.federation.worker import Worker

    call = Worker.__call__
    done = Path(os.environ["TMPDIR"]) / "died"

    def deadly(self, request, payload):
        now = (request.task, request.round) == (task, 1) and not done.exists()
        if now:
            done.touch()
        if now and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        outcome = call(self, request, payload)
        if now:
            os.kill(os.getpid(), signal.SIGKILL)
        return outcome

    Worker.__call__ = deadly


def _lie(kind):
    from fedrel.engines.remote import Remote
    from fedrel.learning.named import Named
    from fedrel.privacy.secure_sum import Coordinator
    from fedrel.protocol.round import Ask

    masked, offers, encoded = Coordinator.masked, Coordinator.offers, Remote._encoded
    first = {}

    def alone(self, replies):
        self.stayed = masked(self, replies)[:1]
        return self.stayed

    def replayed(self, replies):
        found = offers(self, replies)
        first.update({name: offer for name, offer in found.items() if name not in first})
        return {**found, "p1": first["p1"]}

    def with_other_weights(name, message, round_):
        if "weights" not in message:
            return message
        first.setdefault("weights", message["weights"])
        if kind == "again":
            return {**message, "weights": first["weights"]}
        if round_ and (kind == "crafted" or name == "p0"):
            return {**message, "weights": 1.01 * message["weights"]}
        return message

    def otherwise(self, ask):
        to = {}
        for name, message in ask.to.items():
            if kind in ("crafted", "different", "again"):
                message = with_other_weights(name, message, ask.round)
            elif kind == "forged" and "sums" in message:
                message = {"sums": Named({it: value + (it == "0") for it, value in message["sums"].items()})}
            elif kind == "plain":
                message = {field: value for field, value in message.items() if field != "sum_units"}
            elif kind == "rosters" and "offers" in message and name == "p0":
                message = {"offers": Named({it: value for it, value in message["offers"].items() if it != "p1"})}
            to[name] = message
        return encoded(self, Ask(ask.task, to))

    if kind == "alone":
        Coordinator.masked = alone
    elif kind == "replay":
        Coordinator.offers = replayed
    else:
        Remote._encoded = otherwise


def _write_down_keys(path):
    from fedrel.federation.https import client

    make = client.client_context

    def context(folder):
        made = make(folder)
        made.keylog_filename = path
        return made

    client.client_context = context


_what, _, _how = _fault.partition(":")
if b"confined\0worker" in _line:
    if _what == "reply":
        _kind, _number = _how.split(":")
        _once_confined(lambda: _spoil_replies(_kind, lambda request, count: count == int(_number)))
    elif _what == "begin":
        _once_confined(
            lambda: _spoil_replies(_how, lambda request, count: request is not None and request.task == "begin")
        )
    elif _what == "disk":
        _fill_the_disk()
    elif _what == "die":
        _once_confined(lambda: _die_in(*_how.split(":")))
elif b"confined\0conductor" in _line and _what == "checkpoint":
    _die_in_a_checkpoint()
elif b"confined\0conductor" in _line and _what == "lie":
    _once_confined(lambda: _lie(_how))
elif b"https.transport" in _line and "FEDREL_KEY_LOG" in os.environ:
    _write_down_keys(os.environ["FEDREL_KEY_LOG"])
sys.modules.pop("sitecustomize", None)
