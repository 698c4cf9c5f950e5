"""Platforms as work for Ray, on this machine or on several: the same experiment, the same result to the last bit.

A few workers live as long as the run, one for each core of the cluster. Every one of them prepares the experiment by
itself, from the data where they lie, and looks after some of the platforms, always the same ones, so that what these
remember stays with them. Nothing but records of our codec travels.
"""

from __future__ import annotations

import importlib
import logging
import os
import socket
import tomllib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fedrel import config
from fedrel.config import Experiment
from fedrel.engines.remote import Failure, Remote, TooFewError
from fedrel.engines.simulator import Simulator
from fedrel.errors import UserError
from fedrel.protocol.codec import Payload, Record, decode, encode
from fedrel.protocol.round import Ask, Replies
from fedrel.util.parallel import cores

_AHEAD = 8  # replies that a worker may be ahead of the server; it waits then, and memory stays small


@dataclass(frozen=True)
class Plan:
    """A run as the engine sees it, handed in by whoever sets the run up."""

    algorithm: object
    experiment: Experiment
    announced: Mapping[str, int]  # sentences by platform
    sizes: Mapping[str, int]  # that the forms of replies speak of
    secret: bytes  # what platforms blind their facts with
    data: str  # digest of the data set
    rebuild: Callable[[Experiment, bytes], tuple[str, Simulator]]  # in a worker: the digest of its data, and platforms


class Actor:
    """Lives in a process of its own, somewhere in the cluster."""

    def begin(
        self, rebuild: Callable[[Experiment, bytes], tuple[str, Simulator]], experiment: str, secret: bytes, folder: str
    ) -> tuple[str, str]:
        """What data it found, and which machine it is on."""
        if Path(folder).is_dir():
            os.chdir(folder)  # paths in an experiment may be relative
        data, self.simulator = rebuild(config.parse(tomllib.loads(experiment)), secret)
        return data, str(_ray().get_runtime_context().get_node_id())

    def answer(self, task: str, round_: int, sent: dict[str, int], payloads: list[bytes]) -> Iterator[bytes]:
        """The replies of these platforms, who were sent the payloads with these numbers."""
        messages = [decode(payload) for payload in payloads]
        ask = Ask(task, {name: messages[number] for name, number in sent.items()}, round_)
        for _, (_, reply) in self.simulator.answers(ask):
            yield bytes(reply if isinstance(reply, bytearray) else encode(reply))

    def memories(self) -> dict[str, bytes]:
        return {name: bytes(encode(memory)) for name, memory in self.simulator.memories().items()}

    def remember(self, memories: dict[str, bytes]) -> None:
        self.simulator.remember({name: decode(memory) for name, memory in memories.items()})

    def selections(self) -> dict[str, npt.NDArray[np.int64]]:
        return {name: places.numpy() for name, places in self.simulator.selections().items()}


class RayEngine(Remote):
    """An Exchange whose platforms are with workers. If a worker dies, its platforms are absent until the next round;
    then a new one takes its place, and they remember what they did at the last checkpoint.
    """

    def __init__(self, plan: Plan) -> None:
        settings = plan.experiment.engine
        super().__init__(
            plan.algorithm,
            self._carry,
            sizes=plan.sizes,
            announced=plan.announced,
            minimum=min(settings.min_platforms, len(plan.announced)),
            half=settings.transport == "half",
        )
        self.data = plan.data
        _connect(settings)
        device, count = _capacity(settings)
        self._options = {"num_cpus": 1, "num_gpus": int(device == "cuda"), "scheduling_strategy": "SPREAD"}
        there = replace(plan.experiment, engine=replace(settings, device=device))
        self._told = (plan.rebuild, config.to_toml(config.to_table(there)), plan.secret, str(Path.cwd()))
        self._workers: list[Any] = [None] * min(count, len(plan.announced))
        self.machines = [""] * len(self._workers)  # where each of them is
        self._place = {name: number % len(self._workers) for number, name in enumerate(sorted(plan.announced))}
        self._lost: dict[int, str] = {}  # workers that died in this round, and why
        self._remembered: dict[str, bytes] = {}  # at the last checkpoint
        self._start(range(len(self._workers)))

    def __call__(self, ask: Ask) -> Replies:
        if ask.round != self._round and self._lost:
            self._start(self._lost)
            self._lost = {}
        try:
            return super().__call__(ask)
        except TooFewError as error:
            raise UserError("; ".join([f"round {ask.round + 1}: {error}", *self._lost.values()])) from None

    def memories(self) -> dict[str, Record]:
        for kept in self._everywhere("memories"):
            self._remembered |= kept
        return {name: decode(self._remembered[name]) for name in sorted(self._remembered)}

    def remember(self, memories: Mapping[str, Record]) -> None:
        self._remembered = {name: bytes(encode(memory)) for name, memory in memories.items()}
        self._remind(range(len(self._workers)))

    def selections(self) -> dict[str, Tensor]:
        found = {name: places for part in self._everywhere("selections") for name, places in part.items()}
        return {name: torch.from_numpy(found[name].copy()) for name in sorted(found)}

    def close(self) -> None:
        for worker in self._workers:
            _ray().kill(worker)
        self._workers = []

    def _start(self, numbers: Iterable[int]) -> None:
        """New workers under these numbers."""
        made = _ray().remote(**self._options)(Actor)
        begun = {}
        for number in numbers:
            self._workers[number] = made.remote()
            begun[number] = self._workers[number].begin.remote(*self._told)
        for number, ready in begun.items():
            data, self.machines[number] = _result(ready, _refuse)
            if data != self.data:
                raise UserError(
                    "a machine of the Ray cluster found other data than this one under the same path; copy them "
                    "there, or use a folder that all machines share"
                )
        self._remind(begun)

    def _remind(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            own = {name: memory for name, memory in self._remembered.items() if self._place[name] == number}
            if own:
                _result(self._workers[number].remember.remote(own), _refuse)

    def _everywhere(self, method: str) -> Iterator[Any]:
        """What every worker says, but those that died."""
        there = [number for number in range(len(self._workers)) if number not in self._lost]
        asked = {number: getattr(self._workers[number], method).remote() for number in there}
        for number, ready in asked.items():
            said = _result(ready, partial(self.lose, number))
            if not isinstance(said, Failure):
                yield said

    def lose(self, number: int, why: str) -> Failure:
        self._lost[number] = f"a worker died: {why}"
        return Failure(self._lost[number])

    def _carry(
        self, task: str, round_: int, messages: Mapping[str, Payload], most: int
    ) -> Mapping[str, Payload | Failure]:
        names: dict[int, list[str]] = {}
        for name in messages:
            names.setdefault(self._place[name], []).append(name)
        parcels: dict[tuple[int, ...], Any] = {}  # a broadcast is one, which all workers share
        arriving = _Arriving(self)
        for number, own in names.items():
            if number in self._lost:
                arriving.ready |= dict.fromkeys(own, Failure(self._lost[number]))
                continue
            distinct = {id(messages[name]): messages[name] for name in own}
            if (key := tuple(distinct)) not in parcels:
                parcels[key] = _ray().put([bytes(payload) for payload in distinct.values()])
            numbers = {known: place for place, known in enumerate(distinct)}
            sent = {name: numbers[id(messages[name])] for name in own}
            streamed = self._workers[number].answer.options(
                num_returns="streaming", _generator_backpressure_num_objects=_AHEAD
            )
            arriving.expect(number, own, streamed.remote(task, round_, sent, parcels[key]))
        return arriving


@dataclass
class _Arriving(Mapping[str, Payload | Failure]):
    """Replies as the workers send them: each is fetched when it is asked for, and given out once."""

    engine: RayEngine
    ready: dict[str, Payload | Failure] = field(default_factory=dict)
    _number: dict[str, int] = field(default_factory=dict)  # of the worker who will say
    _streams: dict[int, tuple[Iterator[str], Any]] = field(default_factory=dict)

    def expect(self, number: int, names: list[str], stream: Any) -> None:
        self._number |= dict.fromkeys(names, number)
        self._streams[number] = (iter(names), stream)

    def __getitem__(self, name: str) -> Payload | Failure:
        while name not in self.ready:
            self._fetch(self._number[name])
        return self.ready.pop(name)

    def _fetch(self, number: int) -> None:
        names, stream = self._streams[number]
        arrived = _result(stream, partial(self.engine.lose, number), next)
        if isinstance(arrived, Failure):
            self.ready |= dict.fromkeys(names, arrived)  # nobody else of this worker will answer
        else:
            self.ready[next(names)] = arrived

    def __iter__(self) -> Iterator[str]:
        return iter([*self.ready, *self._number])

    def __len__(self) -> int:
        return len(self.ready) + len(self._number)


def _ray() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        with warnings.catch_warnings():  # of its own making, about itself
            warnings.simplefilter("ignore")
            return importlib.import_module("ray")
    except ImportError:
        raise UserError('engine.kind = "ray" needs Ray; install it with: pip install "fedrel[ray]"') from None


def _connect(settings: config.Engine) -> None:
    ray = _ray()
    _knock(settings.address)
    if ray.is_initialized():
        return
    new: dict[str, Any] = {"num_cpus": settings.workers or cores(), "include_dashboard": False}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ray.init(
                address=settings.address or "local",
                log_to_driver=False,
                logging_level=logging.ERROR,
                **({} if settings.address else new),
            )
    except (ConnectionError, RuntimeError, ValueError) as error:
        where = f'engine.address = "{settings.address}"' if settings.address else "Ray does not start here"
        raise UserError(f"{where}: {_first_line(error)}") from None


def _knock(address: str) -> None:
    """Ray itself would wait for minutes where nobody is."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except (OSError, OverflowError) as error:
        raise UserError(f'engine.address = "{address}": no Ray answers there ({_first_line(error)})') from None


def _capacity(settings: config.Engine) -> tuple[Literal["cpu", "cuda"], int]:
    """What the workers compute on, and how many there are."""
    there = _ray().cluster_resources()
    cpus, gpus = int(there.get("CPU", 0)), int(there.get("GPU", 0))
    on_gpu = settings.device == "cuda" or (settings.device == "auto" and gpus > 0)
    most, what = (min(cpus, gpus), "GPUs") if on_gpu else (cpus, "cores")
    if max(settings.workers, 1) > most:
        raise UserError(f"engine.workers = {settings.workers}, and the Ray cluster has {most} {what} to work on")
    return "cuda" if on_gpu else "cpu", settings.workers or most


def _result(ready: Any, on_death: Callable[[str], Any], step: Callable[[Any], Any] = lambda ready: ready) -> Any:
    """What became of work. What a user can mend is told as if it had happened here."""
    ray = _ray()
    try:
        return ray.get(step(ready))
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, UserError):
            raise error.cause from None
        raise
    except ray.exceptions.RayError as error:
        return on_death(_first_line(error))


def _refuse(why: str) -> NoReturn:
    raise UserError(f"a worker does not start on the Ray cluster ({why}); every machine of it needs this fedrel")


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
