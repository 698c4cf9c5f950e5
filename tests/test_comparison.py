import pytest

from fedrel import comparison
from fedrel.comparison import paired, spread


def read(tmp_path, text, **options):
    path = tmp_path / "table.toml"
    path.write_text(text)
    settings = {"settings": [], "methods": [], "vary": [], "seeds": None, "metric": None} | options
    return comparison.read(path, **settings)


def test_a_table_is_rows_times_columns_times_seeds(tmp_path):
    asked = read(
        tmp_path,
        """
        [compare]
        rows = ["one", {label = "few", set = ["method.name=none"], columns = ["a"]}]
        [[compare.columns]]
        label = "a"
        set = ["training.fraction=0.5"]
        seeds = 3
        [[compare.columns]]
        label = "b"
        seeds = 1
        """,
    )
    cells = asked.cells()
    assert [(c.row, c.column, c.seed) for c in cells if c.row == "few"] == [("few", "a", s) for s in (1, 2, 3)]
    assert [(c.column, c.seed, c.experiment.training.fraction) for c in cells if c.row == "one"] == [
        *(("a", s, 0.5) for s in (1, 2, 3)),
        ("b", 1, 1.0),
    ]
    assert len({c.name for c in cells}) == len(cells)


def test_settings_of_one_method_are_not_for_another(tmp_path):
    asked = read(tmp_path, '[method]\nname = "lazy-mil"\nwarmup = 4\n[compare]\nrows = ["lazy-mil", "one"]\nseeds = 1')
    lazy, one = asked.cells()
    assert lazy.experiment.method == {"name": "lazy-mil", "na": "local", "warmup": 4}
    assert one.experiment.method == {"name": "one"}


def test_a_cell_is_another_when_the_data_is(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    (data / "train.jsonl").write_text("1")
    text = f'[data]\nsource = "opennre"\npath = "{data}"\n[compare]\nrows = ["one"]\nseeds = 1'
    before = read(tmp_path, text).cells()[0].name
    (data / "train.jsonl").write_text("2")
    comparison.fingerprint.cache_clear()
    assert read(tmp_path, text).cells()[0].name != before


def test_summary_pairs_seeds(tmp_path):
    asked = read(tmp_path, "", methods=["lazy-mil", "one"], seeds=3)
    scores = {"lazy-mil": [0.8, 0.9, 0.7], "one": [0.6, 0.8, 0.6]}
    cells = [
        {"row": row, "column": "default", "seed": seed, "test": {"ap": value}}
        for row, values in scores.items()
        for seed, value in enumerate(values, 1)
    ]
    lazy, one = asked.summary(cells)
    assert lazy["mean"] == pytest.approx(0.8)
    assert lazy["std"] == pytest.approx(0.1)
    assert lazy["reference_ahead"] is None
    assert one["reference_ahead"]["mean"] == pytest.approx(0.4 / 3)
    assert one["reference_ahead"]["standard_error"] == pytest.approx(0.0577350 / 3**0.5)
    assert one["reference_ahead"]["clear"]


def test_one_run_has_no_deviation():
    assert spread([0.5]) == {"n": 1, "mean": 0.5, "std": None}
    assert paired([0.1])["clear"] is False
