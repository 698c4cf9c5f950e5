"""What became of every file of a folder of text: it was read, had no text, could not be read, or nothing reads it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from fedrel.errors import UserError

SHOWN = 5  # names of files kept of each kind
KEPT = 1_000  # broken files kept with their reasons
TOLERATED = 0.5  # the share of broken files, of those that something reads

_CONVERT = "save them as .docx, .pdf, .html or .txt"
_ADVICE = {
    "rows or records, no prose; name such a file itself, if `fedrel data check` knows its format": (
        *(".csv", ".tsv", ".xml", ".json", ".ann", ".a1", ".a2", ".conll", ".parquet", ".nt", ".xls", ".xlsx", ".ods"),
    ),
    "unpack them": (".zip", ".gz", ".tgz", ".tar", ".bz2", ".xz", ".7z", ".rar", ".zst"),
    "pictures and recordings; text recognition makes a .pdf with text of a scan": (
        *(".png", ".jpg", ".jpeg", ".gif", ".tif", ".tiff", ".bmp", ".svg", ".webp", ".mp3", ".wav", ".mp4", ".mov"),
    ),
    _CONVERT: (".doc", ".rtf", ".epub", ".ppt", ".pptx", ".odp", ".pages", ".tex", ".rst", ".ps", ".eml", ".msg"),
}
ADVICE = {extension: advice for advice, extensions in _ADVICE.items() for extension in extensions}
NO_READER = f"nothing reads them; if they hold text, {_CONVERT}"


@dataclass
class Names:
    """How many files, and the first few of them."""

    count: int = 0
    first: list[str] = field(default_factory=list)
    advice: str = ""  # what to do with them

    def add(self, name: str) -> None:
        self.count += 1
        if len(self.first) < SHOWN:
            self.first.append(name)

    def __str__(self) -> str:
        """`a.csv, b.csv and 3 more`"""
        more = self.count - len(self.first)
        return ", ".join(self.first) + (f" and {more:,} more" if more else "")


@dataclass
class FileCounts:
    """The files of a folder by what became of them. Each is in one of these groups, once."""

    read: Counter[str] = field(default_factory=Counter)  # by extension
    empty: Names = field(default_factory=Names)  # there is no text in them
    skipped: dict[str, Names] = field(default_factory=dict)  # by extension: nothing reads them
    broken: dict[str, str] = field(default_factory=dict)  # the first KEPT, each with the reason
    broken_count: int = 0
    first_broken: str = ""  # what was said of it, with its place
    aside: Names = field(default_factory=Names)  # hidden ones, what systems leave behind, readmes and licences
    # of empty and broken files: why, as `Skipped` counts them, and the first lines that it says of them
    reasons: Counter[str] = field(default_factory=Counter)
    messages: list[str] = field(default_factory=list)

    def skip(self, name: str, advice: str = "", extension: str = "") -> None:
        """Counts a file that nothing reads, or a link to a folder."""
        extension = extension or extension_of(name)
        advice = advice or ADVICE.get(extension, NO_READER)
        self.skipped.setdefault(extension, Names(advice=advice)).add(name)

    def break_(self, name: str, why: str, message: str) -> None:
        """Counts a file that cannot be read, with the reason in one sentence, and as a message with its place."""
        self.broken_count += 1
        self.first_broken = self.first_broken or message
        if len(self.broken) < KEPT:
            self.broken[name] = why

    def tell(self, why: str, message: str) -> None:
        """Notes what `Skipped` was told of a file that is counted here too."""
        self.reasons[why] += 1
        if len(self.messages) < KEPT:
            self.messages.append(message)

    @property
    def total(self) -> int:
        skipped = sum(names.count for names in self.skipped.values())
        return self.read.total() + self.empty.count + self.broken_count + skipped + self.aside.count

    def as_json(self) -> dict[str, object]:
        """As `--json` prints it."""
        return {
            "files": self.total,
            "read": {"count": self.read.total(), "by_extension": dict(sorted(self.read.items()))},
            "empty": {"count": self.empty.count, "first": self.empty.first},
            "skipped": {
                "count": sum(names.count for names in self.skipped.values()),
                "by_extension": {
                    extension: {"count": names.count, "first": names.first, "advice": names.advice}
                    for extension, names in sorted(self.skipped.items())
                },
            },
            "broken": {
                "count": self.broken_count,
                "files": [{"file": name, "why": why} for name, why in self.broken.items()],
            },
            "set_aside": {"count": self.aside.count, "first": self.aside.first},
        }

    def require_few_broken(self, path: Path) -> None:
        """Raises UserError, which begins with the first broken file, if more of them are broken than is tolerated."""
        tried = self.read.total() + self.empty.count + self.broken_count
        if self.broken_count > TOLERATED * tried:
            more = f"{self.broken_count:,} of the {tried:,} files of {path} that are text cannot be read"
            raise UserError(f"{self.first_broken} ({more}; up to half of them may be left out)")


def extension_of(name: str) -> str:
    """The extension of a file in lower case, with its dot; `(none)` for a name without one."""
    return PurePosixPath(name).suffix.lower() or "(none)"
