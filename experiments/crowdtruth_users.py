"""Crowd workers as users: verdict files, a table of users and a figure from CrowdTruth's medical relations.

    python experiments/crowdtruth_users.py CROWDTRUTH-FOLDER FOLDER

writes FOLDER/cause.csv, treat.csv and both.csv (verdicts, for `fedrel feedback estimate`), FOLDER/users.csv (for
feedback.table; γ and δ of each worker over both relations, shrunk) and FOLDER/users.png. A worker who ticked the
relation calls its prediction right, one who did not calls it wrong. Workers chose among 14 relations and may have
ticked a related one instead, so γ is lower than if they had been asked about one.
"""

import csv
import sys
from pathlib import Path

from fedrel.corpus.crowdtruth import TICKS, Judgment, judgments
from fedrel.feedback.estimates import Verdict, estimate_users, write_users
from fedrel.report.feedback_figures import users_figure


def main(source: Path, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    found: dict[str, list[Judgment]] = {relation: list(judgments(source, relation)) for relation in TICKS}
    found["both"] = [it for part in found.values() for it in part]
    groups = {}
    for name, part in found.items():
        verdicts = [Verdict(it.user, "right" if it.right else "wrong", it.correct) for it in part]
        with (out / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow((*Verdict._fields, "relation", "sentence"))
            for verdict, it in zip(verdicts, part, strict=True):
                writer.writerow((verdict.user, verdict.verdict, str(verdict.correct).lower(), it.relation, it.sentence))
        groups[name] = estimate_users(verdicts)
        pooled, sentences = groups[name].pooled, len({it.sentence for it in part})
        print(
            f"{name}: {sentences} sentences, {len(groups[name].users)} workers, {pooled.judgments} judgments, "
            f"γ {pooled.gamma.value:.3f}, δ {pooled.delta.value:.3f}"
        )
    write_users(groups["both"], out / "users.csv")
    users_figure(groups, out / "users.png")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
