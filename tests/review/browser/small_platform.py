"""A platform to review: some sentences, among them nasty ones, and a model that sees a relation in nearly all."""

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import unescape
from http.client import HTTPConnection, HTTPMessage
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import uvicorn

from fedrel.config import Data, read
from fedrel.corpus import NA, Instance, Mention
from fedrel.data import loading
from fedrel.evaluation.calibration import Calibration
from fedrel.experiment.assembly import prepare
from fedrel.experiment.saved import load_model, save_model
from fedrel.feedback.store import Store
from fedrel.learning.named import Named
from fedrel.review import questions
from fedrel.review.queue import Queue
from fedrel.review.server import create_app
from tests.instances import write

SCRIPT = "<script>document.title='taken'</script>"
HEBREW = ["רות", "גרה", "בעיר", "חיפה", "."]
RELATIONS = ("born_in", "/people/person/place_lived", 'works<"at">')


def sentences(prefix: str, count: int = 30) -> list[Instance]:
    made = [
        Instance(
            ["In", str(1900 + n), f"{prefix}Ann{n // 2}", "came", "to", f"{prefix}Bonn{n // 2}", f"word{n % 5}", "."],
            Mention(f"{prefix}h{n // 2}", 2, 3),
            Mention(f"{prefix}t{n // 2}", 5, 6),
            NA if n % 4 == 3 else RELATIONS[n % 3],
        )
        for n in range(count)
    ]
    nasty = [
        ([SCRIPT, "met", f"{prefix}<b>Eve</b>", "&amp;", "co"], (0, 1), (2, 3)),
        (HEBREW, (0, 1), (3, 4)),
    ]
    return made + [
        Instance(words, Mention(f"{prefix}x{n}", *head), Mention(f"{prefix}y{n}", *tail), RELATIONS[0])
        for n, (words, head, tail) in enumerate(nasty)
    ]


def write_data(folder: Path, count: int = 30) -> Path:
    for split in ("train", "dev", "test"):
        write(folder / f"{split}.jsonl", sentences(split if split != "train" else "", count))
    return folder


def write_texts(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for split in ("train", "dev", "test"):
        lines = [f"a {('good', 'bad')[n % 2]} film {split} {n} <i>\t{('good', 'bad')[n % 2]}\n" for n in range(12)]
        (folder / f"{split}.tsv").write_text("".join(lines))
    return folder


def save(data: Path, folder: Path, *, source="opennre", kind="pcnn", seed=1, na=-10.0) -> Path:
    """An untrained model; `na` is added to what "no relation" scores, so that it is seen nowhere, or everywhere."""
    chosen = [f"data.source={source}", f"data.path={data}", f"extractor.kind={kind}", f"seed={seed}"]
    chosen += ["method.name=fedavg", "partition.platforms=2", "extractor.filters=8", "extractor.min_count=1"]
    setup = prepare(read(None, chosen))
    bias = setup.weights["classifier.bias"].clone()
    bias[0] += na if setup.dataset.has_na else 0.0
    folder.mkdir(parents=True)
    save_model(folder, setup, Named({**setup.weights, "classifier.bias": bias}), Calibration())
    return folder


def queue_of(data: Path, model: Path, source="opennre", **options) -> Queue:
    dataset = loading.load(Data(source=source, path=str(data)))
    return Queue(questions.of_dataset(dataset, load_model(model), questions.digest_of(model), **options))


@contextmanager
def serving(queue: Queue, store: Store, *, user="anna", order="confident", **options) -> Iterator[str]:
    """The address of a real server, in a thread."""
    app = create_app(queue, store, user=user, order=order, **options)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


@dataclass
class Answer:
    status: int
    headers: HTTPMessage
    text: str

    def form(self, action: str) -> dict[str, str]:
        """The hidden fields of the first form that goes there."""
        content, *_ = re.findall(rf'<form[^>]*action="{re.escape(action)}"[^>]*>(.*?)</form>', self.text, re.DOTALL)
        found = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', content)
        return {name: unescape(value) for name, value in found}

    @property
    def words(self) -> str:
        return " ".join(unescape(re.sub(r"<[^>]+>", "", self.text)).split())

    @property
    def sentence(self) -> str:
        [content] = re.findall(r"<blockquote[^>]*>(.*?)</blockquote>", self.text, re.DOTALL)
        return unescape(re.sub(r"<sup>.*?</sup>|<[^>]+>", "", content))


@dataclass
class Visitor:
    """A browser without JavaScript: follows links and sends forms, with cookies."""

    address: str
    cookies: dict[str, str] = field(default_factory=dict)

    def ask(self, method: str, path: str, body: str | None = None, **headers: str) -> Answer:
        connection = HTTPConnection(urlsplit(self.address).netloc, timeout=60)
        sent = {"Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())}
        if body is not None:
            sent |= {"Content-Type": "application/x-www-form-urlencoded", "Origin": self.address}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        sent_body = None if body is None else body.encode()
        connection.request(method, path, sent_body, {name: value for name, value in sent.items() if value})
        response = connection.getresponse()
        answer = Answer(response.status, response.headers, response.read().decode())
        connection.close()
        for cookie in response.headers.get_all("Set-Cookie") or ():
            name, _, value = cookie.partition(";")[0].partition("=")
            self.cookies[name] = value.strip('"')
        return answer

    def get(self, path: str = "/", **headers: str) -> Answer:
        return self.ask("GET", path, **headers)

    def post(self, path: str, fields: dict[str, str], **headers: str) -> Answer:
        return self.ask("POST", path, urlencode(fields), **headers)

    def send(self, path: str, fields: dict[str, str]) -> Answer:
        """Sends a form and goes where its answer leads."""
        answer = self.post(path, fields)
        assert answer.status == 303, answer.text
        return self.get(answer.headers["Location"])

    def judge(self, page: Answer, verdict: str) -> Answer:
        return self.send("/verdict", page.form("/verdict") | {"verdict": verdict})
