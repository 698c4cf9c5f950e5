"""CrowdTruth's medical sentences as a set of distant supervision whose every label was judged by people.

    python experiments/crowdtruth_set.py CROWDTRUTH-FOLDER FOLDER

writes FOLDER/train.jsonl in the OpenNRE format. The label of a sentence is what the knowledge base says of its terms
(`baseline`): cause, treat, or NA. `expressed` is what the crowd says of that label: half of a sentence's score or more.
"""

import csv
import json
import sys
from pathlib import Path

RELATIONS = ("cause", "treat")


def term(row: dict[str, str], number: int) -> dict[str, object]:
    """A term with its place, which is looked for where the given one does not hold it."""
    name, text, start = row[f"term{number}"], row["sentence"], int(row[f"b{number}"])
    if text[start : start + len(name)].lower() != name.lower():
        start = text.lower().find(name.lower())
    return {"id": name.lower(), "name": name, "pos": [start, start + len(name)]}


def main(source: Path, out: Path) -> None:
    found: dict[str, dict[str, object]] = {}
    every = set()
    for relation in RELATIONS:
        with (source / f"ground_truth_{relation}.csv").open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                every.add(row["SID"])
                head, tail = term(row, 1), term(row, 2)
                if head["pos"][0] < 0 or tail["pos"][0] < 0 or head["id"] == tail["id"]:
                    continue
                line = found.setdefault(row["SID"], {"text": row["sentence"], "h": head, "t": tail, "relation": "NA"})
                if row["baseline"] == "1":
                    line |= {"relation": relation, "expressed": float(row["sentence_relation_score"]) >= 0.5}
    out.mkdir(parents=True, exist_ok=True)
    (out / "train.jsonl").write_text("".join(json.dumps(line) + "\n" for line in found.values()), encoding="utf-8")
    judged = [line["expressed"] for line in found.values() if "expressed" in line]
    print(
        f"{len(found)} sentences; {len(judged)} with a relation, {sum(judged)} of them state it by the crowd; "
        f"{len(every) - len(found)} left out: a term is not in the text, or both are one"
    )


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
