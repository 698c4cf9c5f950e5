"""Methods, one paper per file. A plain dictionary says what there is."""

from dataclasses import dataclass

from fedrel.algorithms.centralised import Centralised
from fedrel.algorithms.fedavg import FedAvg
from fedrel.algorithms.lazy_mil import LazyMIL


@dataclass(frozen=True)
class Method:
    """A name a user types: an algorithm with its fixed parts, and the paper it comes from."""

    algorithm: type[FedAvg]
    denoiser: str | None  # none: the algorithm's own setting says
    paper: str
    summary: str


METHODS: dict[str, Method] = {
    "lazy-mil": Method(
        LazyMIL,
        "none",
        "Sui et al., EMNLP 2021",
        "platforms elect, for every fact, the one sentence most likely to express it",
    ),
    "none": Method(FedAvg, "none", "McMahan et al., AISTATS 2017", "FedAvg on every sentence as labelled"),
    "one": Method(
        FedAvg, "one", "Zeng et al., EMNLP 2015", "each platform trains on the best sentence of its own bags"
    ),
    "ave": Method(FedAvg, "ave", "Lin et al., ACL 2016", "each platform averages the sentences of its own bags"),
    "att": Method(FedAvg, "att", "Lin et al., ACL 2016", "each platform attends over the sentences of its own bags"),
    "att-ra": Method(
        FedAvg, "att-ra", "Ye and Ling, NAACL 2019", "attention within bags with one bag vector per relation"
    ),
    "centralised": Method(Centralised, None, "reference", "all text in one place, which the platforms must not do"),
}

__all__ = ["METHODS", "Centralised", "FedAvg", "LazyMIL", "Method"]
