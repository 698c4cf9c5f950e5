"""What may leave a platform: rules in a file of its own, which nobody else can change.

An objection is a sentence for the coordinator, "platform a refuses: its policy …". It names the rule and the file, but
reveals neither the rest of the file nor anything about the data.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from fedrel import config
from fedrel.config import Experiment, Extractor, number
from fedrel.errors import UserError, suggest
from fedrel.privacy.entries import HEADER, Field
from fedrel.util.files import write_atomic
from fedrel.util.plugins import Origin

if TYPE_CHECKING:
    from fedrel.privacy.account import Account

FILE = "policy.toml"
TEMPLATE = """\
# What may leave this platform. Only people here can change this file; without rules, everything may leave but what was
# trained on fewer than 16 sentences. It is read when a run begins. Refusals are in the ledger: fedrel ledger show.

# [methods]
# allow = ["feded"]              # only these
# forbid = ["scaffold"]          # all but these

# [plugins]
# allow = ["fednova sha256:…"]   # code of other packages that runs may use; `fedrel check-plugin NAME` prints the line

# [fields]
# allow = ["log/p", "sentences", "words", "unknown_words"]  # only these; the last three are sent when a run begins
# forbid = ["*/words"]           # no word-embedding rows; * and ? as in a shell, "weights" means all of its tensors

# [size]
# round = "5 MB"                 # at most, per round
# run = "1 GB"                   # at most, per run

# [settings]
# embeddings = "frozen"          # refuse runs that train word embeddings
# blinded = true                 # refuse runs in which the keys of facts are not blinded
# min_sentences = 100            # refuse to take part with fewer sentences, or to send what was trained on fewer
# private_seeds = true           # refuse runs in which training can be replayed, since its seeds are public
# min_trained = 16               # of sentences behind an update, which is not sent otherwise; 0: any number
# sums = "secure"                # refuse runs whose coordinator sees more than sums over platforms
# min_summed = 3                 # platforms in such a sum; what is sent is not opened over fewer
# epsilon = 8.0                  # refuse runs without noise (dp.unit), and all that would give away more than this,
# epsilon_delta = 1e-5           # added up over all runs
# epsilon_unit = "sentence"      # of what: of any "sentence" here, or of the whole "platform"
"""

_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_PLUGIN = re.compile(r"\S+ sha256:[0-9a-f]{64}")
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,15})?) ?([KMGT]?B)", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True)
class Methods:
    """Names of methods."""

    allow: tuple[str, ...] = ()  # empty: all
    forbid: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plugins:
    """Parts from other packages that a run may use, each as `NAME sha256:DIGEST`."""

    allow: tuple[str, ...] = ()  # none: no plug-in at all


@dataclass(frozen=True)
class Fields:
    """Shell-style patterns. One that matches `weights` matches all of its tensors, and one that matches `weights/words`
    also its changed rows (`weights/words#rows` …), so that a rule does not depend on how a method encodes its upload.
    """

    allow: tuple[str, ...] = ()  # empty: all
    forbid: tuple[str, ...] = ()


@dataclass(frozen=True)
class Size:
    """The most that may leave, such as "5 MB"."""

    round: str = ""  # empty: no limit
    run: str = ""


@dataclass(frozen=True)
class Settings:
    """What a run's settings, and the platform's data, must meet."""

    embeddings: Literal["any", "frozen"] = "any"
    blinded: bool = False
    min_sentences: int = number(0, low=0)
    min_trained: int = number(16, low=0)  # by default, since from an update of a handful the sentences can be read
    private_seeds: bool = False
    sums: Literal["any", "secure"] = "any"
    min_summed: int = number(3, low=2)
    epsilon: float = number(0.0, low=0)  # over all runs; 0: runs need no noise
    epsilon_delta: float = number(1e-5, above=0, high=0.1)
    epsilon_unit: Literal["sentence", "platform"] = "sentence"


@dataclass(frozen=True)
class _Rules:
    methods: Methods = field(default_factory=Methods)
    plugins: Plugins = field(default_factory=Plugins)
    fields: Fields = field(default_factory=Fields)
    size: Size = field(default_factory=Size)
    settings: Settings = field(default_factory=Settings)


@dataclass(frozen=True)
class Policy(_Rules):
    """A platform's rules. The `objection_to_…` methods return a sentence for the coordinator, or None."""

    file: str = FILE  # its name; the coordinator is not told its folder

    @classmethod
    def read(cls, path: Path, *, methods: Iterable[str] = ()) -> Self:
        """The rules in a file; no rules if there is no file. `methods` are the known ones, to catch misspellings.
        Raises UserError for a file that cannot be read or is wrong.
        """
        try:
            path.lstat()
        except FileNotFoundError:
            return cls()
        except OSError as error:
            raise UserError(f"{path}: {error.strerror or error}") from None
        return cls(**vars(_rules(path, methods)), file=path.name)

    def objection_to_experiment(self, experiment: Experiment, *, blinded: bool = False) -> str | None:
        """Why the platform does not take part in a run. `blinded`: the keys of facts are computed with a secret that
        the coordinator does not have.
        """
        method = str(experiment.method["name"])
        if self.methods.allow and method not in self.methods.allow:
            return self._says(f"allows only {', '.join(self.methods.allow)}", "methods.allow")
        if method in self.methods.forbid:
            return self._says(f"forbids {method}", "methods.forbid")
        if self.settings.embeddings == "frozen" and not _words_stay(experiment.extractor):
            return self._says("requires word embeddings to be frozen", "settings.embeddings")
        if self.settings.blinded and not blinded:
            return self._says("requires the keys of facts to be blinded", "settings.blinded")
        if self.settings.private_seeds and experiment.engine.public_seeds:
            return self._says("requires training to draw from seeds that others do not know", "settings.private_seeds")
        if self.settings.sums == "secure" and experiment.privacy.sums != "secure":
            return self._says("requires that only sums over platforms can be read", "settings.sums")
        least = self.settings.min_summed
        if experiment.privacy.sums == "secure" and experiment.privacy.least < least:
            return self._says(f"requires at least {least} platforms in a sum", "settings.min_summed")
        return self._objection_to_unit(experiment)

    def _objection_to_unit(self, experiment: Experiment) -> str | None:
        unit, wanted = experiment.dp.unit, self.settings.epsilon_unit
        if not self.settings.epsilon:
            return None
        if unit == "off":
            return self._says("requires noise in what is sent (dp.unit)", "settings.epsilon")
        if experiment.engine.public_seeds:
            return self._says("requires noise that others do not know (engine.public_seeds)", "settings.epsilon")
        if wanted == "platform" and unit != "platform":
            return self._says(
                'requires noise that hides a whole platform (dp.unit = "platform")', "settings.epsilon_unit"
            )
        return None

    def objection_to_epsilon(self, account: Account, planned: Iterable[float], unit: str, run_id: str) -> str | None:
        """Why no more is given away, or a run is not begun whose answers are planned with so much noise each: the
        objection does not say how much has been given away before.
        """
        settings = self.settings
        if not settings.epsilon:
            return None
        spent = account.epsilon(settings.epsilon_unit, settings.epsilon_delta, planned=planned, of=unit, run_id=run_id)
        if spent <= settings.epsilon * (1 + 1e-9):
            return None
        return self._says("allows no more to be given away than its account over all runs has left", "settings.epsilon")

    def objection_to_fields(self, names: Iterable[str]) -> str | None:
        """Why fields with these names do not leave, in a sum or by themselves."""
        return next((objection for name in names if (objection := self._objection_to_field(name))), None)

    def objection_to_plugin(self, name: str, origin: Origin) -> str | None:
        """Why code from another package does not run here; None: the policy allows this very version of it."""
        if f"{name} sha256:{origin.digest}" in self.plugins.allow:
            return None
        named = any(line.split(" ")[0] == name for line in self.plugins.allow)
        what = "allows another version of the plug-in" if named else "does not allow the plug-in"
        return self._says(f'{what} "{name}"', "plugins.allow")

    def objection_to_size(self, sentences: int) -> str | None:
        """Why the platform does not take part with this many sentences: too few of them even if it trains on all."""
        least, rule = self._least_trained()
        if sentences < least:
            return self._says(f"requires at least {least:,} sentences to take part", rule)
        return None

    def objection_to_training(self, sentences: float) -> str | None:
        """Why what was trained on this many sentences is not sent: a method may select a handful of many, and the
        weights would reveal them. The objection names neither their number nor the least required, since several
        refusals would narrow it down.
        """
        least, rule = self._least_trained()
        if least and not sentences >= least:  # NaN is not enough
            return self._says("requires more sentences behind what it sends", rule)
        return None

    def _least_trained(self) -> tuple[int, str]:
        """The least number of sentences behind an update, and the rule that says so."""
        settings = self.settings
        if settings.min_sentences >= settings.min_trained:
            return settings.min_sentences, "settings.min_sentences"
        return settings.min_trained, "settings.min_trained"

    def objection_to_reply(
        self,
        fields: Iterable[Field],
        *,
        sent_this_round: int,
        sent_this_run: int,
        unreadable: bool = False,
    ) -> str | None:
        """Why a reply with these fields is not sent, given the bytes sent before it in this round and run. One that is
        `unreadable` is of a secure sum, whose own fields were looked at before: its size alone counts.
        """
        made_of = list(fields)
        size = sum(it.bytes for it in made_of)
        names = [] if unreadable else [it.name for it in made_of if it.name != HEADER]
        if objection := self.objection_to_fields(names):
            return objection
        for most, sent, rule in (
            (self.size.round, sent_this_round, "round"),
            (self.size.run, sent_this_run, "run"),
        ):
            if most and sent + size > _bytes(most):
                return self._says(f"allows at most {most} per {rule}", f"size.{rule}")
        return None

    def _objection_to_field(self, name: str) -> str | None:
        if _matches(name, self.fields.forbid):
            return self._says(f"forbids the field {name}", "fields.forbid")
        if self.fields.allow and not _matches(name, self.fields.allow):
            return self._says(f"does not allow the field {name}", "fields.allow")
        return None

    def _says(self, what: str, rule: str) -> str:
        return f"its policy {what} ({self.file}, {rule})"


def install(path: Path) -> None:
    """Writes a file that explains the rules, all commented out, unless there is a file already."""
    if not path.exists():
        write_atomic(path, TEMPLATE)


def _bytes(size: str) -> int:
    """The number of bytes of a size: "5 MB" is 5,000,000."""
    found = _SIZE.fullmatch(size)
    assert found is not None, "rules are checked when they are read"
    return int(float(found[1]) * _UNITS[found[2].upper()])


def _words_stay(extractor: Extractor) -> bool:
    if extractor.kind == "bert":
        return extractor.encoder == "frozen" or extractor.lora > 0
    return extractor.embeddings == "frozen"


def _matches(name: str, patterns: Iterable[str]) -> bool:
    forms = {name, name.partition("#")[0], name.partition("/")[0]}
    return any(fnmatchcase(form, pattern) for pattern in patterns for form in forms)


def _rules(path: Path, methods: Iterable[str]) -> _Rules:
    table, text = config.read_table(path)
    rules = config.section(_Rules, table, str(path), text=text)
    given = ((part, key, value) for part, it in table.items() if isinstance(it, dict) for key, value in it.items())
    for part, key, value in given:
        if problem := _problem(part, value, sorted(methods)):
            raise UserError(f"{path}{config.line_of(text, f'{part}.', key)}: {part}.{key} {problem}")
    return rules


def _problem(part: str, value: Any, methods: list[str]) -> str:
    """What is wrong with the value of a rule whose type is right; empty: nothing."""
    if part == "size":
        return "" if _SIZE.fullmatch(value) else f'= "{value}" is not a size such as "5 MB" (B, KB, MB, GB or TB)'
    if part == "settings":
        return ""
    if part == "plugins":
        wrong = [line for line in value if not _PLUGIN.fullmatch(line)]
        return f'has "{wrong[0]}" in it, which is no name and digest such as "fednova sha256:…"' if wrong else ""
    if not value or not all(name and name == name.strip() for name in value):
        return "is empty, or has a name that is empty or has spaces around it; fix it or leave it out"
    unknown = [name for name in value if part == "methods" and methods and name not in methods]
    return f'names "{unknown[0]}", which is not a method{suggest(unknown[0], methods)}' if unknown else ""
