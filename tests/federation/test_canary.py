"""Nothing private on the wire: what is planted in a platform's text, in the names of its folders and in its reviewers'
verdicts is in no byte that leaves it, whatever the method.
"""

import base64
import contextlib
import hashlib
import hmac
import json
import os
import re
import shutil
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import ahocorasick
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrel import datasets
from fedrel.algorithms import METHODS, FedAvg
from fedrel.bags import fact_name
from fedrel.encoding.words import WordEncoding
from fedrel.errors import UserError
from fedrel.federation.codec import decode
from fedrel.federation.engines.nvflare.kits import open_kit
from fedrel.federation.engines.remote import Failure
from fedrel.federation.frames import Frame
from fedrel.federation.protocol import named_in, task
from fedrel.feedback.keys import sentence_key
from fedrel.feedback.store import RIGHT, WRONG, Store
from fedrel.privacy.ledger import read as read_ledger
from fedrel.worker import Worker
from tests.algorithms.tiny import NEEDS, tiny_bert
from tests.deployment import Deployment
from tests.parity.consortium import PLATFORMS, Consortium, read, write_world
from tests.processes import descendants
from tests.wire import Tap, plain

FEDERATED = [name for name in METHODS if name != "centralised"]
EXTRACTORS = {
    "words that are trained": ["extractor.kind=pcnn", "extractor.embeddings=trainable"],
    "public vectors": ["extractor.kind=pcnn", "extractor.embeddings=frozen", "extractor.vectors=glove"],
    "a transformer": [
        "extractor.kind=bert",
        "extractor.max_length=32",
        "training.optimizer=adamw",
        "training.lr=0.001",
    ],
}
KEY = b"k" * 32  # with which a consortium without a network blinds
PAGE = Path(__file__).parents[2] / "docs" / "privacy.md"

# ------------------------------------------------------------------------------------------------ what is planted


@dataclass(frozen=True)
class Planted:
    """A platform's secrets."""

    name: str

    @property
    def words(self) -> list[str]:
        return [f"Quillfeather{self.name}", f"Ravenscroft{self.name}", f"zymoglossia{self.name}"]

    @property
    def folder(self) -> str:
        return f"archive-of-brannoc-{self.name}"

    @property
    def reviewer(self) -> str:
        return f"sister.hollis.{self.name}"

    def sentences(self):
        """One about people whom this platform alone knows, one about a fact that all platforms hold."""
        doctor, patient, illness = self.words
        tokens = [
            "Doctor",
            doctor,
            "told",
            patient,
            "of",
            illness,
            "on",
            "the",
            "glossary",
            "surgeon",
            "newsletter",
            ".",
        ]

        def mention(id_, place):
            return {"id": id_, "name": tokens[place], "pos": [place, place + 1], "type": f"Oncological{self.name}"}

        about = {"token": tokens, "relation": "person/born_in", "source": f"Saint Brannoc {self.name}"}
        own = {"h": mention(f"PATIENT-{self.name}-481516", 3), "t": mention(f"DIAGNOSIS-{self.name}-2342", 5)}
        shared = {"h": mention("PATIENT-OF-ALL-108", 3), "t": mention("DIAGNOSIS-OF-ALL-316", 5)}
        return [about | own, about | shared]

    def texts(self):
        """All that must not leave."""
        own, shared = self.sentences()
        found = [*self.words, " ".join(own["token"]), own["source"], own["h"]["type"]]
        found += [side["id"] for it in (own, shared) for side in (it["h"], it["t"])]
        found += [f"{it['h']['id']}\t{it['relation']}\t{it['t']['id']}" for it in (own, shared)]  # the names of facts
        found += [self.folder, self.reviewer, f"model-of-yesterday-{self.name}", key_of(own)]
        return found


def key_of(sentence) -> str:
    return sentence_key(sentence["token"], [*sentence["h"]["pos"], *sentence["t"]["pos"]])


def everything_planted() -> list[str]:
    return [text for name in PLATFORMS for text in Planted(name).texts()]


def plant(world: Path) -> None:
    for name in PLATFORMS:
        path = world / name / "train.jsonl"
        sentences = [json.dumps(it) for it in Planted(name).sentences()]
        path.write_text("\n".join([*path.read_text().splitlines(), *(2 * sentences)]) + "\n")


def review(folder: Path, name: str, into: Path) -> Path:
    """Verdicts on the platform's own sentences, the planted ones among them."""
    sentences = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
    with Store.open(into) as store:
        for number, it in enumerate([*sentences[:40], *Planted(name).sentences()]):
            shown = store.show(key_of(it), it["relation"], 0.9, f"model-of-yesterday-{name}")
            store.give(shown, Planted(name).reviewer, WRONG if number % 3 else RIGHT)
    return into


# ------------------------------------------------------------------------------------------- how it is looked for


def folded(text: str) -> set[bytes]:
    """Ways to write a text for which the case of letters does not matter."""
    written = [it.encode(kind) for it in (text, text.lower()) for kind in ("utf-8", "utf-16-le", "utf-16-be")]
    return {it.lower() for it in written} | {it.hex().encode() for it in written}


def exact(text: str) -> set[bytes]:
    """Base64, wherever the text begins in what was encoded, and what anybody could compute from a guess."""
    raw = text.encode()
    shifted = [base64.b64encode(b"\0" * shift + raw)[-(-shift * 4 // 3) :] for shift in range(3)]
    inner = {it[: len(it) // 4 * 4 - 4] for it in shifted}  # the last letters depend on what follows
    digests = [hashlib.new(kind, raw).digest() for kind in ("md5", "sha1", "sha256", "blake2b")]
    digests.append(hmac.digest(b"", raw, "sha256"))
    return inner | {it[:8] for it in digests} | {it.hex()[:16].encode() for it in digests}


def traces(texts, content: bytes) -> list[str]:
    """Those of the texts that the content holds in one of these ways."""
    found = set()
    for forms, where in ((folded, content.lower()), (exact, content)):
        search = ahocorasick.Automaton()
        for text in texts:
            for form in forms(text):
                search.add_word(form.decode("latin-1"), text)
        search.make_automaton()
        found |= {text for _, text in search.iter(where.decode("latin-1"))}
    return sorted(found)


@given(st.binary(max_size=7), st.binary(max_size=7), st.sampled_from(everything_planted()))
def test_a_trace_is_found_however_it_is_written(before, after, text):
    ways = [text.encode(), text.upper().encode(), text.encode("utf-16-le"), text.encode().hex().upper().encode()]
    ways += [base64.b64encode(before + text.encode() + after), hashlib.sha256(text.encode()).digest()]
    for way in ways:
        assert text in traces([text], before + way + after)
    assert traces([text], before + text[:-1].encode() + b"?" + after) == []


# ---------------------------------------------------------------------------------------- recorded at the codec


@dataclass
class Reviewed(Worker):
    """A platform with verdicts."""

    store: str = ""

    def __call__(self, frame: Frame) -> Frame:
        return super().__call__(Frame({**frame.header, "store": self.store}, frame.payload))


class Recorded(Consortium):
    """Keeps all that platforms answer, and all that they are told."""

    def __init__(self, world: Path, home: Path, experiment, run: str = "run") -> None:
        super().__init__(world, home, experiment, run)
        self.answers: list[tuple[str, str, int, bytes]] = []
        self.told: list[tuple[str, str, int, bytes]] = []
        for name in PLATFORMS:
            (home / name).mkdir(parents=True, exist_ok=True)
            self.workers[name] = Reviewed(store=str(review(world / name, name, home / name / "verdicts.sqlite")))

    def ask(self, name, task, round_, payload):
        self.told.append((name, task, round_, bytes(payload)))
        answer = super().ask(name, task, round_, payload)
        content = answer.why.encode() if isinstance(answer, Failure) else bytes(answer)
        self.answers.append((name, task, round_, content))
        return answer

    def train(self, folder: Path) -> None:
        try:
            self.begin()
            execution = self.execution(folder)
            for _ in execution.rounds():
                pass
            execution.finish()
        finally:
            self.close()

    def records(self, task):
        """(platform, round): what it answered."""
        return {(name, round_): decode(content) for name, kind, round_, content in self.answers if kind == task}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    made = write_world(tmp_path_factory.mktemp("canary") / "world")
    plant(made)
    return made


def settings(method: str, extractor: str) -> list[str]:
    weights = [f"extractor.weights={tiny_bert()}"] if extractor == "a transformer" else []
    needs = NEEDS.get(method, [])
    return [*EXTRACTORS[extractor], *weights, f"method.name={method}", *needs]


def sequences(worker: Worker) -> list[bytes]:
    """The sentences as the numbers of their words, of every width that such numbers have."""
    assert worker.participant is not None
    shard, found = worker.participant.site.shard, []
    for begin, end in zip(shard.starts[:-1].tolist(), shard.starts[1:].tolist(), strict=True):
        numbers = np.trim_zeros(shard.vocabulary[shard.tokens[begin:end].numpy()])
        if len(set(numbers.tolist())) > 5:
            found += [numbers.astype(kind).tobytes() for kind in (np.int16, np.int32, np.int64, np.float32)]
    assert len(found) > 40
    return found


def marked(method: str, extractor: str):
    quick = extractor == "words that are trained" or method == "lazy-mil"
    return pytest.param(method, extractor, marks=[] if quick else pytest.mark.slow)


@pytest.mark.parametrize(("method", "extractor"), [marked(it, kind) for kind in EXTRACTORS for it in FEDERATED])
def test_no_answer_holds_what_was_planted(method, extractor, world, tmp_path):
    consortium = Recorded(world, tmp_path / "homes", read(world, *settings(method, extractor)))
    consortium.train(tmp_path / "run")
    assert not consortium.failures
    assert len(consortium.answers) >= len(PLATFORMS) * (1 if method == "server-only" else 4)
    for name in PLATFORMS:
        answers = b"".join(content for whose, _, _, content in consortium.answers if whose == name)
        assert traces(everything_planted(), answers) == []
        assert not any(secret in answers for secret in (KEY, KEY.hex().encode(), RIGHT.encode(), WRONG.encode()))
        assert not any(sequence in answers for sequence in sequences(consortium.workers[name]))
    assert traces(everything_planted(), b"".join({content for *_, content in consortium.told})) == []
    assert found_in_files(tmp_path / "run", everything_planted()) == {}


def found_in_files(folder: Path, secrets) -> dict[str, list[str]]:
    found = {path: traces(secrets, content) for path, content in contents(folder)}
    return {path: texts for path, texts in found.items() if texts}


def contents(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Of every file, and of those packed in one; a job may end while we look."""
    for parent, _, names in os.walk(folder):
        for name in names:
            path = Path(parent, name)
            with contextlib.suppress(FileNotFoundError):
                yield str(path), path.read_bytes()
                if zipfile.is_zipfile(path):
                    with zipfile.ZipFile(path) as packed:
                        yield from ((f"{path}: {it}", packed.read(it)) for it in packed.namelist())


# ------------------------------------------------------------------------------------------- what a failure says


def failing(error: type[Exception]):
    """FedAvg's training, which on p0 fails and says more than it should."""
    whole = FedAvg.train

    @task(weights="model", sentences="count", loss="number")
    def train(self, site, message):
        if site.name == "p0":
            raise error(f"{Planted('p0').words[1]} was born in Bonn")
        return whole(self, site, message)

    return train


@pytest.mark.parametrize("error", [ValueError, KeyError, UserError, MemoryError])
def test_a_failure_tells_the_coordinator_nothing_of_the_text(error, world, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(FedAvg, "train", failing(error))
    consortium = Recorded(world, tmp_path / "homes", read(world, "method.name=fedavg", "training.rounds=1"))
    consortium.train(tmp_path / "run")
    [(platform, why)] = consortium.failures
    assert platform == "p0" and why
    assert traces(everything_planted(), b"".join(content for *_, content in consortium.answers)) == []
    assert found_in_files(tmp_path / "run", everything_planted()) == {}
    assert (Planted("p0").words[1] in capfd.readouterr().err) == (error is not MemoryError)  # its own people know


def test_a_broken_file_tells_the_coordinator_nothing_of_it(world, tmp_path, capfd):
    broken = shutil.copytree(world, tmp_path / Planted("p0").folder)
    consortium = Recorded(broken, tmp_path / "homes", read(broken, "method.name=fedavg", "training.rounds=1"))
    break_line(broken / "p0")
    consortium.train(tmp_path / "run")
    assert {platform for platform, _ in consortium.failures} == {"p0"}
    assert traces(everything_planted(), b"".join(content for *_, content in consortium.answers)) == []
    assert f"{broken}/p0/train.jsonl:3: not a JSON object" in capfd.readouterr().err


def break_line(folder: Path) -> None:
    lines = (folder / "train.jsonl").read_text().splitlines()
    lines[2] = lines[-1][:-9]
    (folder / "train.jsonl").write_text("\n".join(lines) + "\n")


# -------------------------------------------------------------------------------------------------- fact keys


@pytest.fixture(scope="module")
def elections(world, tmp_path_factory):
    """Two runs of the same experiment under different names."""
    folder = tmp_path_factory.mktemp("elections")
    experiment = read(world, "method.name=lazy-mil", "method.warmup=0", "extractor.embeddings=trainable")
    made = {}
    for run in ("one", "two"):
        made[run] = Recorded(world, folder / run, experiment, run)
        made[run].train(folder / f"run-{run}")
    return made


def test_fact_keys_are_fresh_in_every_round_and_every_run(elections):
    keys: dict[tuple[str, int], set[int]] = {}
    for run, consortium in elections.items():
        for (_, round_), reply in consortium.records("score").items():
            keys.setdefault((run, round_), set()).update(named_in(reply, "ballot")["key"].tolist())
    assert len(keys) == 6
    assert len(set().union(*keys.values())) == sum(map(len, keys.values()))  # no key comes twice


def test_elections_are_those_of_the_facts_themselves(elections):
    for consortium in elections.values():
        facts = {name: facts_of(consortium, name) for name in PLATFORMS}
        assert set.intersection(*map(set, facts.values())), "platforms share facts, or there is nothing to elect"
        ballots = consortium.records("score")
        told = {(name, round_): decode(it) for name, kind, round_, it in consortium.told if kind == "train_elected"}
        for round_ in range(3):
            best: dict[str, tuple[float, str]] = {}  # of every fact: the highest score, and whose it is
            for name in PLATFORMS:
                scores = named_in(ballots[name, round_], "ballot")["score"].tolist()
                for fact, score in zip(facts[name], scores, strict=True):
                    if fact not in best or score > best[fact][0]:
                        best[fact] = score, name
            for name in PLATFORMS:
                won = named_in(told[name, round_], "wins")["won"].tolist()
                assert won == [best[fact][1] == name for fact in facts[name]]


def facts_of(consortium, name):
    """The facts that the platform puts to the vote, in the order of its ballot."""
    participant = consortium.workers[name].participant
    data = participant.experiment.data
    dataset = datasets.load_part(data, consortium.world / name, relations=data.relations)
    firsts = participant.site.shard.rows[participant.site.shard.bag_starts[:-1]].tolist()
    elected = [row for row in firsts if dataset.train.labels[row] >= participant.site.first_relation]
    return [fact_name(dataset, dataset.train, row) for row in elected]


# ----------------------------------------------------------------------------- what does leave, where words are trained


def words_sent(world: Path, folder: Path, *settings: str) -> dict[str, set[str]]:
    """The words whose vectors each platform sent."""
    consortium = Recorded(world, folder / "homes", read(world, "method.name=fedavg", *settings))
    consortium.train(folder / "run")
    encoding = consortium.coordination.setup.encoding
    assert isinstance(encoding, WordEncoding)
    sent: dict[str, set[str]] = {name: set() for name in PLATFORMS}
    for (name, _), reply in consortium.records("train").items():
        rows = named_in(reply, "weights").get("words#rows")
        sent[name] |= {encoding.vocabulary.words[row] for row in ([] if rows is None else rows.tolist())}
    return sent


def test_trained_word_vectors_tell_which_words_a_platform_uses_and_the_ledger_says_so(world, tmp_path, fedrel):
    """A public word that one platform alone uses is not in its bytes, but its number is; that is said, not hidden."""
    told = shutil.copytree(world, tmp_path / "world")
    for name, split in (("coordinator", "dev"), ("p0", "train")):
        path = told / name / f"{split}.jsonl"
        first, *others = path.read_text().splitlines(keepends=True)
        row = json.loads(first)
        path.write_text(json.dumps(row | {"token": ["Paracelsus", *row["token"][1:]]}) + "\n" + "".join(others))
    sent = words_sent(told, tmp_path / "trained", "extractor.embeddings=trainable")
    assert [name for name in PLATFORMS if "paracelsus" in sent[name]] == ["p0"]
    shown = fedrel("ledger", "show", tmp_path / "trained" / "homes" / "p0", "--json")
    assert "weights/words#rows" in shown.out and "which words your text uses" in shown.out
    assert "**which words the platform's text uses**" in PAGE.read_text(encoding="utf-8")
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("".join(f"{word} {'0.1 ' * 50}".strip() + "\n" for word in ("paracelsus", "the", "surgeon")))
    frozen = ["extractor.embeddings=frozen", f"extractor.vectors={vectors}"]
    assert not any(words_sent(told, tmp_path / "frozen", *frozen).values())
    shown = fedrel("ledger", "show", tmp_path / "frozen" / "homes" / "p0", "--json")
    assert shown.code == 0 and "weights/" in shown.out and "weights/words" not in shown.out


# ------------------------------------------------------------------------------------- over the wire, for real


class Tapped(Deployment):
    """A federation in which somebody listens between every platform and the coordinator, and has all session keys."""

    def __init__(self, folder: Path, world: Path) -> None:
        super().__init__(folder, world, PLATFORMS)
        self.key_log = folder / "session.keys"
        self.taps = {name: Tap("localhost", open_kit(self.kits / name).port) for name in PLATFORMS}
        self.elsewhere: set[tuple[str, int]] = set()  # connections of platforms that go past the taps
        self._watched = threading.Event()
        self._watch = threading.Thread(target=self._look_around)
        for name, tap in self.taps.items():
            for file in ("kit.json", "startup/fed_client.json"):
                path = self.kits / name / file
                path.write_text(path.read_text().replace(str(tap.target[1]), str(tap.port)))
            archive = folder / Planted(name).folder
            shutil.copytree(world / name, archive)
            review(archive, name, archive / "verdicts.sqlite")

    def __enter__(self):
        for tap in self.taps.values():
            tap.__enter__()
        super().__enter__()
        self._watch.start()
        return self

    def __exit__(self, *problem):
        self._watched.set()
        self._watch.join()
        super().__exit__(*problem)
        for tap in self.taps.values():
            tap.__exit__(*problem)

    def start(self, name, *more):
        archive = self.folder / Planted(name).folder
        own = ["--data", str(archive), "--store", str(archive / "verdicts.sqlite")] if name in PLATFORMS else []
        super().start(name, *own, *more)

    def said(self, name) -> tuple[bytes, bytes]:
        """All that a platform sent, and all that it was sent, connection after connection."""
        opened = [plain(talk, self.key_log) for talk in self.taps[name].talks]
        return b"".join(there for there, _ in opened), b"".join(back for _, back in opened)

    def _look_around(self):
        while not self._watched.wait(0.3):
            for name, tap in self.taps.items():
                found = connections([self.nodes[name].pid, *descendants(self.nodes[name].pid)])
                self.elsewhere |= {(name, port) for port in found - {tap.port}}


def connections(pids) -> set[int]:
    """The ports to which these processes are connected, other than those on which they listen themselves."""
    mine: set[str] = set()
    for pid in pids:
        with contextlib.suppress(OSError):  # it ended
            mine |= {str(it.readlink()) for it in Path(f"/proc/{pid}/fd").iterdir()}
    listening, near_and_far = set(), []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            near, far = (int(address.rpartition(":")[2], 16) for address in fields[1:3])
            if f"socket:[{fields[9]}]" not in mine:
                continue
            if fields[3] == "0A":
                listening.add(near)
            else:
                near_and_far.append((near, far))
    return {far for near, far in near_and_far if near not in listening and far not in listening}


@pytest.fixture(scope="module")
def tapped(world, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tapped")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSLKEYLOGFILE", str(folder / "session.keys"))
        with Tapped(folder, world) as running:
            yield running


def require_silence(federation: Tapped) -> None:
    """Nothing that was planted, and no key, is in what any platform sent or got, nor anywhere at the coordinator's."""
    secrets = everything_planted()
    key = open_kit(federation.kits / "p0").blinding_key()
    runs = [path.name.removesuffix(".status.json") for path in federation.runs.glob("*.status.json")]
    keys = [key, *(hmac.digest(key, run.encode(), "sha256") for run in runs)]
    keys += [hmac.digest(it, f"round {round_}".encode(), "sha256") for it in keys[1:] for round_ in range(3)]
    hidden = {form for it in keys for form in (it, it.hex().encode(), base64.b64encode(it))}
    for name in PLATFORMS:
        sent, got = federation.said(name)
        assert traces(secrets, sent) == [] and traces(secrets, got) == []
        assert not any(form in sent or form in got for form in hidden)
    for folder in (federation.runs, federation.kits / "coordinator", federation.kits / "admin"):
        assert found_in_files(folder, secrets) == {}
    assert traces(secrets, (federation.folder / "coordinator.log").read_bytes()) == []
    assert federation.elsewhere == set()


def unseen(sent: bytes, entries) -> list[str]:
    """Replies of a ledger that are not in what was sent, byte for byte."""
    wanted = {entry.sha256: entry for entry in entries if not entry.refused}
    for found in re.finditer(rb'\{["}]', sent):  # where the header of a record may begin, after its length
        begin = found.start() - 8
        for digest, entry in list(wanted.items()):
            if hashlib.sha256(sent[begin : begin + entry.bytes]).hexdigest() == digest:
                del wanted[digest]
    return [f"{entry.run}, round {entry.round}, {entry.task}" for entry in wanted.values()]


@pytest.mark.parametrize(
    "method", [it if it == "lazy-mil" else pytest.param(it, marks=pytest.mark.slow) for it in FEDERATED]
)
def test_nothing_that_was_planted_goes_over_the_wire(method, tapped):
    tapped.train(method, *settings(method, "words that are trained"))
    for name in PLATFORMS:
        sent, got = tapped.said(name)
        entries = [it for it in read_ledger(tapped.kits / name / "ledger" / "ledger.jsonl") if it.run == method]
        assert entries and unseen(sent, entries) == []  # or the search would prove nothing
        assert method.encode() in got
    require_silence(tapped)


@pytest.mark.slow
def test_a_platform_that_fails_says_nothing_of_its_text_over_the_wire(tapped):
    """One cannot read its data, another's node itself is broken; the third goes on alone."""
    break_line(tapped.folder / Planted("p0").folder)
    start = tapped.kits / "p1" / "local" / "start.json"
    start.write_text(start.read_text().replace("{", Planted("p1").words[1]))
    tapped.train("failing", *settings("fedavg", "words that are trained"), "engine.min_platforms=1")
    failures = {name: it["why"] for name, it in tapped.status("failing")["platforms"].items()}
    assert failures["p0"] == "the reason is in the platform's own log" and failures["p1"] and not failures["p2"]
    assert f"{Planted('p0').folder}/train.jsonl:3: not a JSON object" in (tapped.kits / "p0" / "node.log").read_text()
    require_silence(tapped)
