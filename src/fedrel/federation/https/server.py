"""The coordinator's network process: answers six messages over mutually authenticated TLS, and nothing else.

It holds the TLS key and no other secret, reads no run and no data, starts no program, and once it listens it can open
no connection itself. It can drop the signed messages that pass through it, but not forge or change them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
from pathlib import Path
from typing import Any

from fedrel.federation.channel import Channel, ClosedError, started
from fedrel.federation.https.service import Service
from fedrel.sandbox import Limits, confine, python_paths


async def serve(channel: Channel, listener: socket.socket, told: dict[str, Any]) -> None:
    """Runs the service until the node ends it or has gone."""
    loop = asyncio.get_running_loop()
    service = Service(channel, Path(told["tls"]), Path(told["spool"]), told["federation"])
    ours = (asyncio.create_task(service.watch()), asyncio.create_task(service.listener.accept(listener)))

    def listen() -> None:
        with contextlib.suppress(ClosedError, RuntimeError):  # RuntimeError: the loop has ended
            while (message := channel.receive()) is not None:
                loop.call_soon_threadsafe(service.hear, message)
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(service.ended.set)

    threading.Thread(target=listen, daemon=True).start()
    ending = asyncio.create_task(service.ended.wait())
    await asyncio.wait([ending, *ours], return_when=asyncio.FIRST_COMPLETED)
    for task in ours:
        if task.done():
            task.result()  # a bug ends the process with its traceback
        task.cancel()


def _listener(port: int) -> socket.socket:
    """A socket that listens on all addresses of the machine, IPv4 and IPv6 where available."""
    family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    listener = socket.create_server(("", port), family=family, backlog=1024, dualstack_ipv6=family == socket.AF_INET6)
    listener.setblocking(False)
    return listener


def main() -> None:
    """`python -m fedrel.federation.https.server DESCRIPTOR`: started by the coordinator's node."""
    channel, told = started("`fedrel coordinator start`")
    try:
        listener = _listener(told["port"])
    except OSError as error:
        channel.send({"do": "failed", "why": f"port {told['port']}: {os.strerror(error.errno or 0)}"})
        return
    with listener:
        tls, spool = Path(told["tls"]), Path(told["spool"])
        limits = Limits(read=(*python_paths(), tls, spool), write=(spool,), network="none", programs=False)
        protection = confine(limits)
        channel.send({"do": "listening", "problems": list(protection.problems)})
        asyncio.run(serve(channel, listener, told))


if __name__ == "__main__":
    main()
