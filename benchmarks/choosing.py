"""How well a criterion chooses among runs and rounds, by what people say of the models.

    python -m benchmarks.choosing --data FOLDER --out choosing.jsonl --figure verdicts.png

FOLDER is a set of distant supervision in the OpenNRE format whose test was labelled by people, and of whose training
sentences some say whether they express their relation (`expressed`). These are taken out of train, with all sentences
of their pairs, and play the part of verdicts that somebody gave on held-out text. Every row of METHODS (`--rows`) is
trained with every rate and seed for 60 rounds (`--rounds`), 20 platforms, all active. Every few rounds each criterion
and `ap_human` on test are measured.

Prints as JSON, for each criterion: Spearman's rank correlation with `ap_human` over the runs, each at its best round by
plain dev; and how much `ap_human` is lost by choosing method, rate and round with it, beside the best that there is
(mean over seeds; for verdicts also over draws). Test decides nothing here, it only judges the choices.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from benchmarks.defaults import scored

METHODS: dict[str, list[str]] = {
    "none": ["method.name=none"],
    "one": ["method.name=one"],
    "lazy-mil": ["method.name=lazy-mil"],
    "evidence, names shown": ["method.name=evidence", "extractor.hide_names=0"],
    "evidence": ["method.name=evidence"],
    "none, names hidden": ["method.name=none", "extractor.hide_names=0.3"],
}
RATES = (0.1, 0.3, 0.5)
VERDICTS = (30, 100, 300)
DRAWS = 40  # of so many verdicts from all
EVERY = 5  # rounds between two measurements
PLAIN, BOTH, HIDDEN = "dev", "dev, both views", "dev, names hidden"


def without_judged(folder: Path, out: Path) -> None:
    """Writes train without the judged sentences and their pairs, the judged ones, and test as it is."""
    lines = (folder / "train.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    judged = {(row["h"]["id"], row["t"]["id"]) for row in rows if "expressed" in row}
    kept = [line for line, row in zip(lines, rows, strict=True) if (row["h"]["id"], row["t"]["id"]) not in judged]
    out.mkdir(parents=True)
    (out / "train.jsonl").write_text("\n".join(kept) + "\n", encoding="utf-8")
    verdicts = [line for line, row in zip(lines, rows, strict=True) if "expressed" in row]
    (out / "judged.jsonl").write_text("\n".join(verdicts) + "\n", encoding="utf-8")
    (out / "test.jsonl").write_text((folder / "test.jsonl").read_text(encoding="utf-8"), encoding="utf-8")


def followed(job: dict[str, Any]) -> dict[str, Any]:
    """Runs one job: the job, with what every criterion says every few rounds."""
    from fedrel import config
    from fedrel.data.loading import load_judged
    from fedrel.data.store import sentence_bags
    from fedrel.encoding import vectors
    from fedrel.encoding.words import WordEncoding
    from fedrel.evaluation.heldout import rank
    from fedrel.evaluation.human import judged_sentences
    from fedrel.experiment.assembly import prepare
    from fedrel.experiment.execution import Execution
    from fedrel.learning.model import BOTH_VIEWS, SHOWN
    from fedrel.learning.model import HIDDEN as HIDDEN_VIEW

    experiment = config.read(None, job["settings"])
    setup = prepare(experiment)
    model, dataset = setup.model, setup.dataset
    ours = BOTH_VIEWS if model.hide_names else SHOWN
    # Names can be hidden in scoring whether or not training hid them
    assert isinstance(setup.encoding, WordEncoding)
    stand_ins = vectors.stand_ins(setup.encoding.vocabulary, vectors.load(experiment.extractor.vectors))
    encoding = replace(setup.encoding, stand_ins=stand_ins)
    pool = load_judged(experiment.data, dataset.relations, job["judged"])
    rows, stated = judged_sentences(pool.test, labelled_by_people=False)
    judged = encoding.pack(pool.test, *sentence_bags(pool.test, rows), encoding.numbers(pool.words))
    dev, test = (
        encoding.pack(split, *setup.evaluation.bags(split), encoding.numbers(dataset.words))
        for split in (dataset.dev, dataset.test)
    )
    draws = {
        count: [np.random.default_rng([count, draw]).permutation(len(rows))[:count] for draw in range(DRAWS)]
        for count in VERDICTS
    }

    def ap(shard: Any, facts: Any, view: float) -> float:
        model.hidden_view = view
        return float(rank(scores(shard, view), facts).metrics()["ap"])

    def scores(shard: Any, view: float) -> Any:
        model.load(weights, shard)
        model.hidden_view = view
        return model.score_bags(shard).numpy()

    points = []
    with tempfile.TemporaryDirectory() as folder:
        execution = Execution(setup, Path(folder) / "run")
        for progress in execution.rounds():
            number = progress.line["round"]
            if number % EVERY:
                continue
            weights = setup.algorithm.model(execution.state)
            found = scores(judged, ours)
            points.append(
                {
                    "round": number,
                    "human": ap(test, dataset.test.facts, ours),
                    PLAIN: ap(dev, dataset.dev.facts, ours),
                    BOTH: ap(dev, dataset.dev.facts, BOTH_VIEWS),
                    HIDDEN: ap(dev, dataset.dev.facts, HIDDEN_VIEW),
                    **{
                        f"{count} verdicts": [
                            float(rank(found[some], _facts(stated[some])).metrics()["ap"]) for some in draws[count]
                        ]
                        for count in VERDICTS
                    },
                }
            )
            model.hidden_view = BOTH_VIEWS
        execution.close()
    return job | {"points": points}


def _facts(stated: Any) -> Any:
    """(F, 2) which of the sentences states which relation."""
    return np.stack([np.arange(len(stated)), stated], axis=1)[stated > 0]


def table(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """An entry for each criterion."""
    best_by_dev = [max(run["points"], key=lambda point: point[PLAIN]) for run in runs]
    human = [point["human"] for point in best_by_dev]
    by_seed: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for run in runs:
        by_seed[run["seed"]] += [point | {"row": run["row"], "rate": run["rate"]} for point in run["points"]]

    def entry(name: str, says: list[Callable[[dict[str, Any]], float]]) -> dict[str, Any]:
        """`says`: the criterion, once or once a draw."""
        found = [float(spearmanr([it(point) for point in best_by_dev], human).statistic) for it in says]
        chosen = [(max(points, key=it), points) for it in says for points in by_seed.values()]
        lost = [max(point["human"] for point in points) - it["human"] for it, points in chosen]
        return {"criterion": name, "spearman": fmean(found), "lost": fmean(lost), "chosen": _most(chosen)}

    names = [
        *((name, [lambda point, name=name: point[name]]) for name in (PLAIN, BOTH, HIDDEN)),
        *(
            (name, [lambda point, name=name, draw=draw: point[name][draw] for draw in range(DRAWS)])
            for name in (f"{count} verdicts" for count in VERDICTS)
        ),
        *(
            (
                f"{HIDDEN} + {name}",
                [lambda point, name=name, draw=draw: point[HIDDEN] + point[name][draw] for draw in range(DRAWS)],
            )
            for name in (f"{count} verdicts" for count in VERDICTS)
        ),
    ]
    return [entry(name, says) for name, says in names]  # type: ignore[arg-type]


def _most(chosen: list[tuple[dict[str, Any], Any]]) -> dict[str, int]:
    """How often each method was chosen."""
    counts: dict[str, int] = defaultdict(int)
    for point, _ in chosen:
        counts[point["row"]] += 1
    return dict(counts)


def draw(entries: list[dict[str, Any]], path: Path) -> None:
    """What choosing loses, over the number of verdicts, beside the criteria that need none."""
    from fedrel.report.drawing import COLOURS, ON_WHITE, drawing, save

    lost = {entry["criterion"]: entry["lost"] for entry in entries}
    with drawing(331, width=560, theme=ON_WHITE) as figure:
        axes = figure.add_subplot()
        places = range(len(VERDICTS))
        for number, name in enumerate((PLAIN, BOTH, HIDDEN)):
            axes.axhline(lost[name], color=COLOURS[number], linestyle="--", label=name)
        for number, before in enumerate(("", f"{HIDDEN} + "), start=3):
            values = [lost[f"{before}{count} verdicts"] for count in VERDICTS]
            axes.plot(places, values, color=COLOURS[number], marker="o", label=f"{before}verdicts")
        axes.set_xticks(places, [str(count) for count in VERDICTS])
        axes.set(xlabel="verdicts", ylabel="ap_human lost by choosing", ylim=(0, None))
        figure.legend(loc="outside right upper")
        save(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("choosing.jsonl"))
    parser.add_argument("--figure", type=Path, help="a PNG: what is lost over the number of verdicts")
    parser.add_argument("--rows", nargs="*", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--platforms", type=int, default=20)
    parser.add_argument("--vectors", default="glove")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--device", default="auto")
    args = parser.parse_args()
    folder = args.out.with_suffix(".data").absolute()
    if not folder.is_dir():
        without_judged(args.data, folder)
    wanted = []
    for row, rate, seed in product(args.rows, RATES, range(1, args.seeds + 1)):
        settings = [
            *("data.source=opennre", f"data.path={folder}", "data.allow_overlap=true", f"training.lr={rate}"),
            f"training.rounds={args.rounds}",
            *(f"extractor.vectors={args.vectors}", f"partition.platforms={args.platforms}", f"seed={seed}"),
            *("engine.workers=1", f"engine.device={args.device}", "engine.save_every=100000", *METHODS[row]),
        ]
        job = {"row": row, "rate": rate, "seed": seed, "settings": settings, "judged": str(folder / "judged.jsonl")}
        wanted.append(job)
    entries = table(scored(wanted, args.out, args.workers, followed))
    if args.figure:
        draw(entries, args.figure)
    print(json.dumps(entries, indent=1))


if __name__ == "__main__":
    main()
