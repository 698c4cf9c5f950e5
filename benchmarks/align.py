"""`python -m benchmarks.align`: megabytes of text per second in which all names of a knowledge base are found.

Ours against pyahocorasick with the loop that one writes around it: fold the text, check that a hit ends where words
end, then take the longest from left to right. Each in a process of its own, so that the memory is its own too
(interpreter and libraries included); names are read from a file one by one, text comes in documents of 3 kB, and what
was found is counted and dropped, as a pipeline would. Then the time and memory to load a large knowledge base.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.align_data import documents, names, write_kb

Mention = tuple[int, int, int]  # document, start, end
Find = Callable[[list[str]], Iterator[list[tuple[int, int]]]]  # the mentions of each text
TOGETHER = 32  # documents that a pipeline hands over at once


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--megabytes", type=float, default=20, help="of text")
    arguments.add_argument("--names", type=int, nargs="+", default=[100_000, 1_000_000])
    arguments.add_argument("--repeats", type=int, default=5, help="of every search; the fastest counts")
    arguments.add_argument("--triples", type=int, default=10_000_000, help="of the knowledge base")
    arguments.add_argument("--skip-kb", action="store_true")
    options = arguments.parse_args()
    report: dict[str, object] = {"megabytes": options.megabytes}
    with tempfile.TemporaryDirectory() as folder:
        report["names"] = {
            str(count): compare(Path(folder), count, options.megabytes, options.repeats) for count in options.names
        }
        if not options.skip_kb:
            known = list(names(max(options.names)))
            write_kb(Path(folder), known, options.triples)
            report["kb"] = alone(load_kb, Path(folder))
    print(json.dumps(report, indent=1))


def compare(folder: Path, count: int, megabytes: float, repeats: int) -> dict[str, object]:
    known = list(names(count))
    name_file, text_file = folder / "names.txt", folder / "documents.json"
    name_file.write_text("".join(f"{name}\n" for name in known), encoding="utf-8")
    text_file.write_text(json.dumps(documents(known, megabytes)), encoding="utf-8")
    found: dict[str, set[Mention]] = {}
    report: dict[str, Any] = {}
    for kind in BUILD:
        report[kind], found[kind] = alone(measure, kind, name_file, text_file, repeats)
    ours, theirs = found["ours"], found["pyahocorasick"]
    texts = json.loads(text_file.read_text(encoding="utf-8"))
    case = {name.lower(): name for name in known}
    report["times_as_fast"] = round(
        report["ours"]["megabytes_per_second"] / report["pyahocorasick"]["megabytes_per_second"], 1
    )
    report["found_by_both"] = len(ours & theirs)
    report["found_by_ours_alone"] = len(ours - theirs)
    report["found_by_pyahocorasick_alone"] = len(theirs - ours)
    if ours != theirs:
        by_case = sum(is_exact(case[texts[d][start:end].lower()]) for d, start, end in theirs - ours)
        report["note"] = (
            f"{by_case} that pyahocorasick alone finds are short names or names in capitals, written in another case: "
            f"ours takes these for other words. {len(ours ^ theirs) - by_case} differ for another reason."
        )
    return report


def is_exact(name: str) -> bool:
    return len("".join(name.split())) <= 3 or name.isupper()


def alone(function: Callable[..., Any], *arguments: object) -> Any:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        return process.submit(function, *arguments).result()


def measure(kind: str, name_file: Path, text_file: Path, repeats: int) -> tuple[dict[str, float], set[Mention]]:
    """Called in a fresh process."""
    begin = time.perf_counter()
    find = BUILD[kind](name_file)
    report = {"build_seconds": round(time.perf_counter() - begin, 1), **memory()}
    texts = json.loads(text_file.read_text(encoding="utf-8"))
    spent = []
    for _ in range(repeats):
        begin = time.perf_counter()
        for at in range(0, len(texts), TOGETHER):
            for _mentions in find(texts[at : at + TOGETHER]):
                pass
        spent.append(time.perf_counter() - begin)
    report["megabytes_per_second"] = round(sum(map(len, texts)) / 1e6 / min(spent), 1)
    found = {(document, *place) for document, places in enumerate(find(texts)) for place in places}
    return report, found


def entries(name_file: Path) -> Iterator[tuple[str, int]]:
    with name_file.open(encoding="utf-8") as file:
        for number, line in enumerate(file):
            yield line.rstrip("\n"), number


def build_ours(name_file: Path) -> Find:
    from fedrel.alignment.gazetteer import Gazetteer

    gazetteer = Gazetteer(entries(name_file))

    def find(texts: list[str]) -> Iterator[list[tuple[int, int]]]:
        for matches in gazetteer.find_all(texts):
            yield [match[:2] for match in matches]

    return find


def build_pyahocorasick(name_file: Path) -> Find:
    import ahocorasick

    automaton = ahocorasick.Automaton()
    for name, number in entries(name_file):
        key = name.lower()
        _, numbers = automaton.get(key, (0, ()))
        automaton.add_word(key, (len(key), (*numbers, number)))
    automaton.make_automaton()

    def find(texts: list[str]) -> Iterator[list[tuple[int, int]]]:
        for text in texts:
            folded = text.lower()
            hits = []
            for last, (length, _numbers) in automaton.iter(folded):
                start, end = last + 1 - length, last + 1
                if is_boundary(folded, start) and is_boundary(folded, end):
                    hits.append((start, -end))
            hits.sort()
            places, at = [], 0
            for start, minus_end in hits:
                if start >= at:
                    at = -minus_end
                    places.append((start, at))
            yield places

    return find


def is_boundary(text: str, at: int) -> bool:
    return at == 0 or at == len(text) or not (is_word(text[at - 1]) and is_word(text[at]))


def is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


BUILD = {"ours": build_ours, "pyahocorasick": build_pyahocorasick}


def load_kb(folder: Path) -> dict[str, float]:
    """Called in a fresh process."""
    from fedrel.alignment.kb import load

    begin = time.perf_counter()
    kb = load(folder)
    return {
        "entities": len(kb.ids),
        "triples": kb.triples,
        "seconds": round(time.perf_counter() - begin, 1),
        **memory(),
    }


def memory() -> dict[str, float]:
    """Of the whole process, in megabytes: now, and the most it ever had."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines())
    return {
        name: round(int(status[key].split()[0]) * 1024 / 1e6)
        for name, key in (("resident_megabytes", "VmRSS"), ("peak_megabytes", "VmHWM"))
    }


if __name__ == "__main__":
    main()
