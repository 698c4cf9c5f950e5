"""A federation without a network: a coordinator and workers of separate folders, behind the requests of a real one."""

from __future__ import annotations

from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from typer.testing import CliRunner

from fedrel import config
from fedrel.cli.app import app
from fedrel.engines.opening import Opening
from fedrel.engines.past_sums import PastSums
from fedrel.engines.remote import Failure, Remote
from fedrel.experiment.execution import Execution
from fedrel.experiment.parties import coordinate, federated
from fedrel.federation.home import Home
from fedrel.federation.signing import Request, sha256
from fedrel.federation.summing import Proof
from fedrel.federation.worker import Worker
from fedrel.protocol.codec import encode
from fedrel.protocol.sum_messages import context

PLATFORMS = ("p0", "p1", "p2")
SMALL = [
    "data.size=600",
    "partition.platforms=3",
    "partition.server=0.2",
    "training.rounds=3",
    "training.epochs=1",
    "training.batch=16",
    "extractor.filters=8",
    "extractor.bias=false",
    "extractor.vocabulary=public",
    "engine.workers=1",
    "engine.deadline=60",
    "engine.device=cpu",
    "engine.public_seeds=true",  # to be compared with one process
    "privacy.sums=off",  # but where a test is about sums
]


KEYS = {name: Ed25519PrivateKey.generate() for name in PLATFORMS}


def signed_by(name: str, message: bytes, signature: bytes) -> bool:
    """Whether a platform has signed this; between organisations, certificates say so."""
    try:
        KEYS[name].public_key().verify(signature, message)
        return True
    except (InvalidSignature, KeyError):
        return False


def write_world(folder: Path, *settings: str) -> Path:
    """A folder of platforms, and an experiment to train on it."""
    given = [part for setting in (*SMALL, *settings) for part in ("--set", setting)]
    done = CliRunner().invoke(app, ["data", "partition", *given, "--out", str(folder)])
    assert done.exit_code == 0, done.output
    return folder


def read(world: Path, *settings: str) -> config.Experiment:
    table, _ = config.read_table(world / "experiment.toml")
    table = config.override(table, [f"data.path={world}", *settings])
    return config.parse(federated(table))


class Consortium:
    """`carry` is where a test can lose, change or record messages."""

    def __init__(self, world: Path, home: Path, experiment: config.Experiment, run: str = "run") -> None:
        self.world, self.folder, self.run = world, home, run
        self.stores: dict[str, str] = {}  # verdicts of a platform's reviewers
        self.number = 0
        self.run_id = sha256(run.encode())[:32]  # in a federation it is drawn: two runs of a name have two
        self.coordination = coordinate(experiment, world / "coordinator", PLATFORMS)
        self.workers: dict[str, Worker] = {}
        self.attempt = 1
        self.failures: list[tuple[str, str]] = []
        self.engine = Remote(
            self.coordination.setup.algorithm,
            self.carry,
            sizes=self.coordination.setup.reply_sizes,
            announced=self.coordination.setup.sites.sizes,
            minimum=1,
            half=experiment.engine.transport == "half",
            on_failure=lambda ask, platform, why: self.failures.append((platform, why)),
            opening=Opening(
                self.names_sum,
                signed_by,
                experiment.privacy.least,
                PastSums(home / "sums", PLATFORMS, lambda: self.attempt),
            ),
        )

    def names_sum(self, round_: int, task: str) -> bytes:
        return context("fedrel-test", self.run_id, self.attempt, round_, task)

    def begin(self) -> None:
        agreed = encode(self.coordination.agreement)
        for name in PLATFORMS:
            answer = self.ask(name, "begin", 0, agreed)
            if isinstance(answer, Failure):
                self.failures.append((name, answer.why))
            else:
                self.coordination.welcome(name, answer)

    def restart(self, name: str) -> None:
        """A platform's worker dies, and a new one begins."""
        ledger = self.workers.pop(name).ledger
        assert ledger is not None
        ledger.close()
        self.ask(name, "begin", 0, encode(self.coordination.agreement))

    def execution(self, folder: Path, *, resume: bool = False) -> Execution:
        return Execution(self.coordination.setup, folder, resume=resume, engine=self.engine)

    def carry(self, task, round_, messages, most):
        return {name: self.ask(name, task, round_, payload) for name, payload in messages.items()}

    def home(self, name) -> Home:
        kit = self.folder / name
        for folder in ("ledger", "memory", "local"):
            (kit / folder).mkdir(parents=True, exist_ok=True)
        home = Home.of(kit, name, self.world / name, self.stores.get(name, ""))
        home.blinding_key.write_bytes(b"k" * 32)
        return home

    def ask(self, name, task, round_, payload):
        self.workers.setdefault(name, Worker(self.home(name), proof=Proof(KEYS[name].sign, signed_by)))
        self.number += 1
        request = Request(
            federation="fedrel-test",
            run=self.run,
            run_id=self.run_id,
            to=name,
            task=task,
            round=round_,
            attempt=self.attempt,
            number=self.number,
            seconds=60.0,
            bytes=len(payload),
            sha256=sha256(payload),
        )
        answer = self.workers[name](request, bytes(payload))
        if answer.state != "done":
            return Failure(f"{answer.state}: {answer.why}")
        return bytearray(answer.payload)

    def close(self) -> None:
        for worker in self.workers.values():
            if worker.ledger is not None:
                worker.ledger.close()


__all__ = ["PLATFORMS", "Consortium", "read", "write_world"]
