"""The sections of an experiment: every key with its default and its bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

DEFAULT_METHOD = "evidence"
HIDE_NAMES = 0.3  # of extractor.hide_names, for the default method


WORLD = "world"  # of data.source: the built-in world


AUTO = "auto"  # of training.metric, what the labels of the data call for; of evaluation.bags, as the method has it


def number(default: float, *, low: float | None = None, above: float | None = None, high: float | None = None) -> Any:
    """A field with bounds: `low` and `high` may be reached, `above` may not."""
    return field(default=default, metadata={"low": low, "above": above, "high": high})


@dataclass(frozen=True)
class Data:
    source: str = WORLD
    path: str = ""
    size: str | int = "demo"  # of the built-in world
    seed: int = 1  # of the built-in world, apart from the experiment's seed: the same data for every seed
    noise: float = number(0.6, low=0, high=1)
    evidence: float = number(7.0, low=1)
    allow_overlap: bool = False
    dev: float = number(0.0, low=0, high=0.5)  # share of train to choose rounds by, in place of a dev file; 0: the file
    na: Literal["keep", "drop"] = "keep"  # pairs without a relation: a class of their own, or left out
    relations: tuple[str, ...] = ()  # agreed beforehand, in this order; empty: those that the data hold
    identity: Literal["id", "name", "document"] = "id"  # what makes two mentions one entity, and so two facts one
    na_label: str = ""  # the label that means no relation; empty: the usual names (NA, Other, no_relation …)
    labels: tuple[tuple[str, str], ...] = ()  # new names for labels, a table in the file: {"CPR:3" = "activates"}
    directions: tuple[tuple[str, str], ...] = ()  # of relations, a table: undirected, directed, or "Drug -> Disease"
    max_pairs: int = number(5_000, low=1)  # without a relation, of one sentence with gold relations; the nearest stay
    max_distance: int = number(0, low=0)  # tokens between the entities of such a pair; 0: any number
    # sentences that people labelled, for a score beside that of test: a file, or "test", if people
    # chose the labels of test; empty: those sentences of test that say whether they express their relation
    human: str = ""
    trusted: str = ""  # a file of sentences that people judged, held out: rounds are chosen by them, not by dev
    bad_rows: float = number(0.01, low=0, high=1)  # share of rows that may be broken and left out; 0: none
    more: tuple[str, ...] = ()  # other data sets, with the same relations: their train is added to train


@dataclass(frozen=True)
class Partition:
    """Who holds what. `source`: a platform for each file or hospital; `relation`: for each relation; `folder`: for
    each folder in data.path. An experiment on files without this section has one platform, which holds all.
    """

    kind: Literal["iid", "dirichlet", "source", "relation", "folder"] = "iid"
    platforms: int = number(20, low=1)
    alpha: float = number(0.5, above=0, high=1e6)  # of dirichlet: the smaller, the more uneven
    minimum: int = number(1, low=1)  # sentences that every platform holds, of dirichlet
    server: float = number(0.0, low=0, high=0.9)  # share of train that the server itself holds, with its labels


@dataclass(frozen=True)
class Extractor:
    kind: str = "pcnn"  # or cnn, text, bag, bert, or the name of a plug-in
    kind_auto: bool = (
        False  # chosen by what is installed; an experiment of one holder that names no extractor has it so
    )
    bias: bool = True  # of the classifier
    # of bert
    weights: str = "minilm"  # the package's; or a folder, or a name on a model hub
    # parts: head, tail and what stands between them. auto: sum, below a hidden layer parts; for plain text, mean
    pooling: Literal["auto", "max", "sum", "cls+sum", "parts", "cls", "mean"] = "auto"
    blind: bool = False  # mentions give way to their types
    max_length: int = number(128, low=16, high=8_192)  # pieces; a longer sentence is cut far from its entities
    encoder: Literal["trainable", "frozen"] = "trainable"
    layers: int = number(0, low=0, high=1_000)  # of the transformer, from below, that are used; 0: all
    hidden: int = number(0, low=0, high=100_000)  # width of a layer that is trained on a frozen encoder; 0: none
    hide: float = number(0.5, low=0, high=0.99)  # of parts, below that layer: share of mentions hidden in training
    lora: int = number(0, low=0, high=1_024)  # rank; 0: all weights are trained and sent
    # of the others
    vectors: str = "random"  # or "glove", or a file
    spread: float = number(
        0.2, low=0, high=100
    )  # standard deviation that a file's vectors are scaled to; 0: as they are
    embeddings: Literal["trainable", "frozen"] = "trainable"
    # share of mentions that training hides behind stand-ins; a sentence is then scored with names shown and hidden.
    # `evidence` has 0.3 by default, published methods none
    hide_names: float = number(0.0, low=0, high=0.99)
    hide_auto: bool = False  # unless hardly a sentence of train is without a relation; where nobody named a share
    # training: of everybody's training text. public: agreed without it, from word vectors or else the coordinator's own
    # text; public+FILE: with the words of a file too. Or a file alone, one word a line
    vocabulary: str = "training"
    min_count: int = number(10, low=1)  # of training: rarer words are unknown, unless they have a pretrained vector
    word_dim: int = number(50, low=1, high=10_000)
    position_dim: int = number(5, low=1, high=1_000)
    filters: int = number(230, low=1, high=100_000)
    window: int = number(3, low=1, high=99)
    reach: int = number(60, low=1, high=16_000)  # distances beyond this count as this; stored in 16 bits
    activation: Literal["tanh", "relu"] = "tanh"


@dataclass(frozen=True)
class Training:
    start: str = ""  # the folder of a run whose model is gone on from; empty: a fresh model
    rounds: int = number(100, low=1, high=1_000_000)  # by default; over the square root of C where C < 1
    # rounds without a better dev score before stopping, once a method has settled; likewise
    patience: int = number(12, low=1)
    # the dev score that chooses the best round; auto: ap, where labels are gold micro_f1, of labelled texts accuracy
    metric: str = AUTO
    fraction: float = number(1.0, above=0, high=1)  # C
    epochs: int = number(3, low=1)  # E
    batch: int = number(32, low=1, high=1_000_000)  # B
    micro_batch: int = number(0, low=0, high=1_000_000)  # sentences at once, gradients adding up to B; 0: all B
    optimizer: Literal["sgd", "adamw"] = "sgd"  # adamw begins anew in every round
    lr: float = number(1.0, above=0, high=1_000)
    lr_auto: bool = False  # lr follows from the sentences of a platform; an experiment without an lr has it so
    lr_decay: float = number(0.005, low=0, high=1)
    weight_decay: float = number(1e-5, low=0, high=1)
    dropout: float = number(0.5, low=0, high=0.99)
    restarts: int = number(3, low=0, high=20)  # how often a run that diverges begins again, with 0.3 of its lr

    def lr_at(self, round_: int) -> float:
        """lr · (1 - lr_decay)^round."""
        return self.lr * (1.0 - self.lr_decay) ** round_


@dataclass(frozen=True)
class Evaluation:
    # how the sentences of a pair become its score, on dev, on test and in use. auto: as the method's paper has it; max:
    # the best sentence for each relation; mean: the mean of the sentence vectors; attention: of methods that have one
    bags: Literal["auto", "max", "mean", "attention"] = "auto"


@dataclass(frozen=True)
class Engine:
    kind: Literal["local", "ray"] = "local"
    address: str = ""  # of ray: a cluster to join; empty: one on this machine, for this run
    device: Literal["auto", "cpu", "cuda"] = "auto"
    workers: int = number(0, low=0, high=1_024)  # platforms that work side by side; 0: as many as a trial finds useful
    # stacked training, platforms as one program; auto: on a GPU. The last digits differ from training them one by one
    stacked: Literal["auto", "on", "off"] = "auto"
    # of torch, inside one step. More change the last digits, and wait for each other on a busy machine; 0: all
    threads: int = number(1, low=0, high=1_024)
    precision: Literal["auto", "float32", "tf32", "bfloat16"] = "auto"  # auto: on a GPU tf32, bfloat16 in a transformer
    save_every: int = number(1, low=1, high=1_000_000)  # rounds between checkpoints
    # how weights travel: half rounds them to 16 bits, which is half the bytes and not quite the same result
    transport: Literal["exact", "half"] = "exact"
    # of a federation
    deadline: float = number(600.0, above=0, high=1e6)  # seconds that a platform has for a request
    min_platforms: int = number(2, low=1)  # that must answer, or the round is repeated
    # platforms draw from the experiment's seed, as a simulation does in any case: the same weights as in one process,
    # and a coordinator that can replay their training. By default each draws from a secret of its own
    public_seeds: bool = False


@dataclass(frozen=True)
class Feedback:
    """Who says "right" or "wrong": simulated users, or people whose verdicts lie in a store (`fedrel review`)."""

    users: Literal["fixed", "low-noise", "adversarial", "always-positive", "always-negative", "table"] = "fixed"
    gamma: float = number(1.0, low=0, high=1)  # of fixed: P(right | the prediction is right)
    delta: float = number(1.0, low=0, high=1)  # of fixed: P(wrong | the prediction is wrong)
    table: str = ""  # of table: a file of measured users
    store: str = ""  # a store, or a folder of stores; takes the place of simulated users
    hold_out: float = number(0.0, low=0, high=0.9)  # share of judged pairs whose stored verdicts train nothing
    without: tuple[str, ...] = ()  # people whose stored verdicts do not count


@dataclass(frozen=True)
class Robust:
    """What the server does about platforms that lie, or whose training goes wrong; see docs/robust.md."""

    screening: Literal["leave-out", "report", "off"] = "leave-out"  # of updates that are out of line
    far: float = number(4.0, above=1, high=1e6)  # times the median length that an update may have
    heaviest: float = number(10.0, low=1, high=1e9)  # times the median of what platforms hold that one may count as
    aggregation: Literal["mean", "clipped", "median", "trimmed", "krum"] = "mean"
    clip: float = number(1.0, above=0, high=1e6)  # of clipped: times the median length that is left of a longer update
    liars: float = number(0.2, low=0, high=0.49)  # of trimmed, the share cut off at either end; of krum, expected


@dataclass(frozen=True)
class Privacy:
    """What the coordinator may know; see docs/privacy.md."""

    # secure: of what platforms send in a round, the sum over them and nothing else. auto: secure in a federation, and
    # where platforms have folders of their own, if the method and the number of active platforms allow it; else off
    sums: Literal["auto", "off", "secure"] = "auto"
    least: int = number(3, low=2, high=1_000)  # platforms in a sum; none over fewer is opened
    # of evidence and lazy-mil in sums: places that facts are hashed to; 0: about four times as many as facts, by what
    # sums tell of their number. And rounds that are remembered together, 0: one, or twice as many as it takes until all
    # platforms were active
    slots: int = number(0, low=0, high=2**22)
    window: int = number(0, low=0, high=1_000_000)


@dataclass(frozen=True)
class Dp:
    """Differential privacy of what leaves; see docs/dp.md."""

    # what noise hides: nothing, all text of one platform, or each single sentence
    unit: Literal["off", "platform", "sentence"] = "off"
    epsilon: float = number(8.0, above=0, high=10_000)  # of a run, at most: it stops before it gives away more
    delta: float = number(1e-5, above=0, high=0.1)
    # of a sum, as a multiple of what one platform or sentence may change in it; 0: as much as all rounds need to stay
    # within epsilon
    noise: float = number(0.0, low=0, high=1e6)
    clip: float = number(1.0, above=0, high=1e6)  # length of a platform's change, or of a sentence's gradient, at most
    colluders: float = number(0.2, low=0, high=0.5)  # share of platforms that may tell the coordinator their noise


@dataclass(frozen=True)
class Report:
    """Where the rounds and scores of a run are logged, beside its own folder; of a run in one process."""

    tensorboard: bool = False  # event files in the folder's tensorboard/
    mlflow: str = ""  # a tracking server's address, or a file, which is made; empty: none


@dataclass(frozen=True)
class Experiment:
    seed: int = 1
    data: Data = field(default_factory=Data)
    partition: Partition = field(default_factory=Partition)
    extractor: Extractor = field(default_factory=lambda: Extractor(hide_names=HIDE_NAMES, hide_auto=True))
    method: Mapping[str, object] = field(default_factory=lambda: {"name": DEFAULT_METHOD})
    training: Training = field(default_factory=lambda: Training(lr_auto=True))
    evaluation: Evaluation = field(default_factory=Evaluation)
    feedback: Feedback = field(default_factory=Feedback)
    robust: Robust = field(default_factory=Robust)
    privacy: Privacy = field(default_factory=Privacy)
    dp: Dp = field(default_factory=Dp)
    engine: Engine = field(default_factory=Engine)
    report: Report = field(default_factory=Report)
