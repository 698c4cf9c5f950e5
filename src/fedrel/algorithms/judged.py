"""How any method is judged where nobody has a public dev or test set: each platform by what it holds out itself."""

from fedrel.protocol.codec import Record
from fedrel.protocol.round import Exam, Site, named_in, number_in, task

_COUNTED = {"bin": "i32 n places", "right": "i32 n counts", "wrong": "i32 n counts"}


class Judged:
    """The platforms are sent weights and answer with counts, which add up to those of all (`fedrel.evaluation`)."""

    @task(ranking=_COUNTED)
    def rank(self, site: Site, message: Record) -> Record:
        """How many right and wrong facts were given which score."""
        return {"ranking": _exam(site, message).ranking(site.model, named_in(message, "weights"))}

    @task(confusion={"counts": "i64 relations relations counts"})
    def classify(self, site: Site, message: Record) -> Record:
        """How many sentences of each label got each prediction."""
        return {"confusion": _exam(site, message).confusion(site.model, named_in(message, "weights"))}

    @task(confidence=_COUNTED)
    def calibrate(self, site: Site, message: Record) -> Record:
        """How many of the best guesses were given which score, and were right."""
        return {"confidence": _exam(site, message).confidence(site.model, named_in(message, "weights"))}


def _exam(site: Site, message: Record) -> Exam:
    split = "test" if number_in(message, "test") else "dev"
    if split not in site.exams:
        raise RuntimeError(f"{site.name} holds out no {split}")
    return site.exams[split]
