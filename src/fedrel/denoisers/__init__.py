"""How the sentences of a bag become one training signal and one score, inside one platform."""

from fedrel.denoisers.attention import Attention, OwnQueries
from fedrel.denoisers.average import Average
from fedrel.denoisers.base import Denoiser, best_sentence_score, best_sentences, first_best, mean_score
from fedrel.denoisers.none import Nothing
from fedrel.denoisers.odds import label_log_odds, log_odds
from fedrel.denoisers.one import One
from fedrel.denoisers.relation_aware import RelationAware
from fedrel.util.plugins import Registry

_OWN: dict[str, type[Denoiser]] = {
    "none": Nothing,
    "one": One,
    "ave": Average,
    "att": Attention,
    "att-own": OwnQueries,
    "att-ra": RelationAware,
}


def _wrong(part: object) -> str | None:
    ok = isinstance(part, type) and issubclass(part, Denoiser)
    return None if ok else "is no subclass of fedrel.denoisers.Denoiser"


DENOISERS: Registry[type[Denoiser]] = Registry("fedrel.denoisers", _OWN, _wrong)

__all__ = [
    "DENOISERS",
    "Denoiser",
    "best_sentence_score",
    "best_sentences",
    "first_best",
    "label_log_odds",
    "log_odds",
    "mean_score",
]
