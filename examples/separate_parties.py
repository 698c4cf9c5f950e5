"""A coordinator and platforms, each with a folder of its own, that exchange bytes alone: what an engine carries."""

import subprocess
import tempfile
from pathlib import Path

from fedrel import config
from fedrel.engines.remote import Remote
from fedrel.experiment.execution import Execution
from fedrel.experiment.parties import coordinate, federated, participate
from fedrel.protocol.codec import decode, encode
from fedrel.protocol.round import Ask
from fedrel.protocol.tasks import answer

NAMES = ["p0", "p1", "p2"]
SMALL = ["data.size=2000", "partition.platforms=3", "training.rounds=3", "extractor.filters=50", "privacy.sums=off"]

with tempfile.TemporaryDirectory() as folder:
    world = Path(folder) / "world"
    given = [part for setting in SMALL for part in ("--set", setting)]
    subprocess.run(["fedrel", "data", "partition", *given, "--out", str(world)], check=True, capture_output=True)

    table, _ = config.read_table(world / "experiment.toml")
    coordinator = coordinate(config.parse(federated(table)), world / "coordinator", NAMES)
    agreed = encode(coordinator.agreement)  # settings, relations, vocabulary: nothing private
    secret = b"of the platforms alone".ljust(32)
    parties = {name: participate(decode(agreed), name=name, data=world / name, secret=secret) for name in NAMES}
    for name, party in parties.items():
        coordinator.welcome(name, encode(party.summary))

    def carry(task, round_, messages, most):  # type: ignore[no-untyped-def]
        """Here a real engine has a network between the two sides."""
        replies = {}
        for name, message in messages.items():
            party = parties[name]
            replies[name] = encode(answer(party.algorithm, party.site, Ask(task, {}, round_), decode(message)))
        return replies

    setup = coordinator.setup
    engine = Remote(setup.algorithm, carry, sizes=setup.reply_sizes, announced=setup.sites.sizes)
    run = Execution(setup, Path(folder) / "run", engine=engine)
    for progress in run.rounds():
        up = progress.line["bytes"]["up"]
        print(f"round {progress.line['round']}: {up:,} bytes from the platforms, dev {progress.line['dev']['ap']:.3f}")
