"""Methods, one paper per file. A plain dictionary says what there is."""

from dataclasses import dataclass

from fedrel.algorithms.centralised import Centralised
from fedrel.algorithms.evidence import Evidence
from fedrel.algorithms.fedatt import FedAtt
from fedrel.algorithms.fedavg import FedAvg
from fedrel.algorithms.fedcmc import FedCMC
from fedrel.algorithms.feddyn import FedDyn
from fedrel.algorithms.feded import FedED
from fedrel.algorithms.fedlc import FedLC
from fedrel.algorithms.fedprox import FedProx
from fedrel.algorithms.fedrs import FedRS
from fedrel.algorithms.feedback import Feedback
from fedrel.algorithms.lazy_mil import LazyMIL
from fedrel.algorithms.moon import Moon
from fedrel.algorithms.scaffold import Scaffold
from fedrel.algorithms.server_only import ServerOnly
from fedrel.algorithms.server_optimizers import FedAdam, FedAvgM


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
    "evidence": Method(
        Evidence,
        "none",
        "fedrel",
        "sentences train that hold their own against the best evidence any platform has shown for the fact",
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
    "fedavg": Method(FedAvg, "none", "McMahan et al., AISTATS 2017", "the same as none, under its own name"),
    "fedprox": Method(FedProx, "none", "Li et al., MLSys 2020", "platforms stay near the global model"),
    "scaffold": Method(Scaffold, "none", "Karimireddy et al., ICML 2020", "control variates correct the drift"),
    "feddyn": Method(FedDyn, "none", "Acar et al., ICLR 2021", "local objectives bent towards the global minimum"),
    "moon": Method(Moon, "none", "Li et al., CVPR 2021", "contrast with the global and the last local model"),
    "fedrs": Method(FedRS, "none", "Li and Zhan, KDD 2021", "absent classes are pushed away less"),
    "fedlc": Method(FedLC, "none", "Zhang et al., ICML 2022", "logits calibrated by how often a class is seen"),
    "fedcmc": Method(FedCMC, "none", "FedCMC, 2023", "contrast with major classifier vectors, for uneven labels"),
    "fedatt": Method(FedAtt, "none", "Ji et al., IJCNN 2019", "the server attends to the platforms layer by layer"),
    "feded": Method(FedED, "none", "Sui et al., EMNLP 2020", "platforms upload predictions, the server distils"),
    "feedback": Method(
        Feedback, "none", "Sharma et al., NAACL 2022", "users accept or reject predictions; verdicts stay at home"
    ),
    "fedavgm": Method(FedAvgM, "none", "Hsu et al., 2019", "FedAvg with momentum on the server"),
    "fedadam": Method(FedAdam, "none", "Reddi et al., ICLR 2021", "FedAvg with Adam on the server"),
    "server-only": Method(ServerOnly, "none", "reference", "trained on the server's own small set alone"),
    "centralised": Method(Centralised, None, "reference", "all text in one place, which the platforms must not do"),
}

__all__ = ["METHODS", "Centralised", "Evidence", "FedAvg", "Feedback", "LazyMIL", "Method"]
