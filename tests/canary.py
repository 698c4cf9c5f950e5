"""Secrets that are planted at platforms, and how they are looked for in whatever leaves one."""

import base64
import contextlib
import hashlib
import hmac
import json
import os
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import ahocorasick

from fedrel.algorithms import METHODS
from fedrel.engines.remote import Failure
from fedrel.feedback.keys import sentence_key
from fedrel.feedback.store import RIGHT, WRONG, Store
from fedrel.protocol.codec import decode
from tests.algorithms.tiny import NEEDS, tiny_bert
from tests.parity.consortium import PLATFORMS, Consortium, write_world

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


def settings(method: str, extractor: str) -> list[str]:
    weights = [f"extractor.weights={tiny_bert()}"] if extractor == "a transformer" else []
    needs = NEEDS.get(method, [])
    return [*EXTRACTORS[extractor], *weights, f"method.name={method}", *needs]


# ------------------------------------------------------------------------------------- what is planted


def planted_world(folder: Path) -> Path:
    made = write_world(folder)
    plant(made)
    return made


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


def break_line(folder: Path) -> None:
    lines = (folder / "train.jsonl").read_text().splitlines()
    for number in range(2, 3 + len(lines) // 20):  # more than are tolerated
        lines[number] = lines[-1][:-9]
    (folder / "train.jsonl").write_text("\n".join(lines) + "\n")


# -------------------------------------------------------------------------------- how it is looked for


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


# ---------------------------------------------------------------------- a consortium without a network


class Recorded(Consortium):
    """Keeps all that platforms answer, and all that they are told."""

    def __init__(self, world: Path, home: Path, experiment, run: str = "run") -> None:
        super().__init__(world, home, experiment, run)
        self.answers: list[tuple[str, str, int, bytes]] = []
        self.told: list[tuple[str, str, int, bytes]] = []
        for name in PLATFORMS:
            (home / name).mkdir(parents=True, exist_ok=True)
            self.stores[name] = str(review(world / name, name, home / name / "verdicts.sqlite"))

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
