"""Methods, one paper per file. METHODS says what there is: fedrel's own, and those of installed plug-ins."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fedrel.algorithms.centralised import Centralised
from fedrel.algorithms.evidence import Evidence
from fedrel.algorithms.evidence_sums import EvidenceFromSums
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
from fedrel.algorithms.lazy_mil_sums import LazyMILFromSums
from fedrel.algorithms.moon import Moon
from fedrel.algorithms.scaffold import Scaffold
from fedrel.algorithms.server_only import ServerOnly
from fedrel.algorithms.server_optimizers import FedAdam, FedAvgM
from fedrel.algorithms.verdicts import Verdicts
from fedrel.config import Experiment
from fedrel.denoisers import DENOISERS
from fedrel.protocol import Algorithm
from fedrel.util.plugins import Origin, Registry


@dataclass(frozen=True)
class Method:
    """A name a user types: an algorithm with its fixed parts, and the paper it comes from."""

    algorithm: type[Algorithm]
    denoiser: str | None  # None: the algorithm's own setting `denoiser` says
    paper: str
    summary: str
    # What takes its place where the coordinator knows sums alone, from it and the experiment; None: itself
    from_sums: Callable[[Algorithm, Experiment], Algorithm] | None = None


_OWN: dict[str, Method] = {
    "lazy-mil": Method(
        LazyMIL,
        "none",
        "Sui et al., EMNLP 2021",
        "platforms elect, for every fact, the one sentence most likely to express it",
        LazyMILFromSums.of,
    ),
    "evidence": Method(
        Evidence,
        "none",
        "fedrel",
        "sentences train that hold their own against the best evidence any platform has shown for the fact",
        EvidenceFromSums.of,
    ),
    "none": Method(FedAvg, "none", "McMahan et al., AISTATS 2017", "FedAvg on every sentence as labelled"),
    "one": Method(
        FedAvg, "one", "Zeng et al., EMNLP 2015", "each platform trains on the best sentence of its own bags"
    ),
    "ave": Method(FedAvg, "ave", "Lin et al., ACL 2016", "each platform averages the sentences of its own bags"),
    "att": Method(FedAvg, "att", "Lin et al., ACL 2016", "each platform attends over the sentences of its own bags"),
    "att-own": Method(FedAvg, "att-own", "fedrel", "att, but a relation's query is no row of the classifier"),
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
    "verdicts": Method(
        Verdicts, "none", "fedrel", "fine-tunes a model by what people say of its predictions, and forgets nothing"
    ),
    "fedavgm": Method(FedAvgM, "none", "Hsu et al., 2019", "FedAvg with momentum on the server"),
    "fedadam": Method(FedAdam, "none", "Reddi et al., ICLR 2021", "FedAvg with Adam on the server"),
    "server-only": Method(ServerOnly, "none", "reference", "trained on the server's own small set alone"),
    "centralised": Method(Centralised, None, "reference", "all text in one place, which the platforms must not do"),
}


class Methods(Registry[Method]):
    """Methods by name. Every denoiser is a method too, under its own name: FedAvg whose models use it."""

    def __getitem__(self, name: str) -> Method:
        if not super().__contains__(name) and name in DENOISERS:
            denoiser = DENOISERS[name]
            return Method(FedAvg, name, "", (denoiser.__doc__ or "FedAvg with this denoiser").strip().split("\n")[0])
        return super().__getitem__(name)

    def __iter__(self) -> Iterator[str]:
        yield from super().__iter__()
        yield from (name for name in DENOISERS if not super(Methods, self).__contains__(name))

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in DENOISERS

    def origin(self, name: str) -> Origin | None:
        """The package that provides a method, or the denoiser that a method is named after."""
        return super().origin(name) if super().__contains__(name) else DENOISERS.origin(name)


def _wrong(part: object) -> str | None:
    if not isinstance(part, Method):
        return f"is {type(part).__name__} where fedrel.algorithms.Method was expected"
    if not (isinstance(part.algorithm, type) and issubclass(part.algorithm, Algorithm)):
        return "names an algorithm that is no subclass of fedrel.algorithms.Algorithm"
    return None


METHODS = Methods("fedrel.algorithms", _OWN, _wrong)

__all__ = [
    "METHODS",
    "Algorithm",
    "Centralised",
    "Evidence",
    "EvidenceFromSums",
    "FedAdam",
    "FedAtt",
    "FedAvg",
    "FedAvgM",
    "FedCMC",
    "FedDyn",
    "FedED",
    "FedLC",
    "FedProx",
    "FedRS",
    "Feedback",
    "LazyMIL",
    "LazyMILFromSums",
    "Method",
    "Moon",
    "Scaffold",
    "ServerOnly",
    "Verdicts",
]
