"""Rounds and scores of a run for TensorBoard and MLflow, beside what it writes itself."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from fedrel.config import Experiment, to_table, to_toml
from fedrel.errors import UserError
from fedrel.util.files import write_atomic

TENSORBOARD, MLFLOW = "tensorboard", "mlflow.json"  # in the folder of the run
_EXPERIMENT = "fedrel"  # at MLflow
_LONGEST = 500  # characters of a setting at MLflow


class Logger(Protocol):
    """Whoever is told of a run. `values` are numbers by name, such as dev/ap."""

    name: str

    def log(self, values: Mapping[str, float], round_: int) -> None: ...

    def close(self, state: str) -> None:
        """`state`: FINISHED, FAILED or KILLED."""


def require_loggers(experiment: Experiment) -> None:
    """Raises UserError if a package is missing that the settings ask for."""
    for setting, package in (("tensorboard", "tensorboard"), ("mlflow", "mlflow")):
        if getattr(experiment.report, setting) and find_spec(package) is None:
            raise UserError(f'report.{setting} needs {package}; install it with: pip install "fedrel[{package}]"')


def refuse_loggers(experiment: Experiment) -> None:
    """Raises UserError if an experiment that others run asks for one: it would write, or send, wherever it likes."""
    if experiment.report.tensorboard or experiment.report.mlflow:
        raise UserError(
            "[report]: a federation's runs are not logged elsewhere; leave report.tensorboard and report.mlflow out, "
            "and look with: fedrel watch"
        )


class Loggers:
    """All that a run is logged to, as its settings say. Raises UserError if one of them cannot be reached; once the run
    has begun, it goes on without those that fail, and `say` is told.
    """

    def __init__(self, experiment: Experiment, say: Callable[[str], None]) -> None:
        self._experiment, self._say = experiment, say
        self._mlflow = _MLflow(experiment) if experiment.report.mlflow else None
        self._all: list[Logger] = []

    def begin(self, folder: Path, resumed: int | None) -> None:
        """`folder` is that of the run, `resumed` the round after which it goes on."""
        if self._experiment.report.tensorboard:
            self._all.append(_TensorBoard(self._experiment, folder / TENSORBOARD, resumed))
        if self._mlflow is not None:
            self._mlflow.begin(folder)
            self._all.append(self._mlflow)

    def round(self, line: Mapping[str, Any]) -> None:
        """A line of metrics.jsonl."""
        self._log(dict(_of_round(line)), line["round"])

    def finish(self, result: Mapping[str, Any]) -> None:
        """The result.json of a run."""
        self._log({f"test/{name}": value for name, value in _numbers(result["test"])}, result["best_round"])
        self.close("FINISHED")

    def close(self, state: str) -> None:
        """Nothing more comes."""
        while self._all:
            logger = self._all.pop()
            self._try(logger, partial(logger.close, state))

    def _log(self, values: Mapping[str, float], round_: int) -> None:
        for logger in list(self._all):
            self._try(logger, partial(logger.log, values, round_))

    def _try(self, logger: Logger, what: Callable[[], None]) -> None:
        try:
            what()
        except Exception as error:  # of a server, a network, a store: each has its own
            self._say(f"{logger.name}: {' '.join(str(error).split())}; the run goes on without it")
            if logger in self._all:
                self._all.remove(logger)


def _of_round(line: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for part, values in (("dev", line["dev"]), ("selection", line["selection"] or {}), ("bytes", line["bytes"])):
        yield from ((f"{part}/{name}", value) for name, value in _numbers(values))
    names = ("loss", "lr", "trusted", "trained", "sentences_per_second", "seconds")
    yield from ((f"training/{name}", value) for name, value in _numbers({it: line.get(it) for it in names}))
    yield "training/platforms", float(len(line["cohort"]))


def _numbers(values: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for name, value in values.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield name, float(value)


class _TensorBoard:
    """Event files, to be read by `tensorboard --logdir`."""

    name = "report.tensorboard"

    def __init__(self, experiment: Experiment, folder: Path, resumed: int | None) -> None:
        from torch.utils.tensorboard import SummaryWriter

        purge = None if resumed is None else resumed + 1  # rounds that are repeated
        self._writer = SummaryWriter(str(folder), purge_step=purge)
        if resumed is None:
            settings = "".join(f"    {line}\n" for line in to_toml(to_table(experiment)).splitlines())
            self._writer.add_text("experiment", settings, 0)

    def log(self, values: Mapping[str, float], round_: int) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, round_)
        self._writer.flush()

    def close(self, state: str) -> None:
        self._writer.close()


def _address(where: str) -> str:
    """MLflow's name for a server, or for a file: it keeps runs in databases, no longer in folders."""
    return where if "://" in where else f"sqlite:///{Path(where).absolute()}"


class _MLflow:
    """A run at a tracking server, or in a folder; a resumed one goes on under the same number."""

    name = "report.mlflow"

    def __init__(self, experiment: Experiment) -> None:
        from mlflow import MlflowClient

        logging.getLogger("mlflow").setLevel(logging.WARNING)  # it tells of every table it makes
        self._settings, self._run = experiment, ""
        try:
            self._client = MlflowClient(tracking_uri=_address(experiment.report.mlflow))
            known = self._client.get_experiment_by_name(_EXPERIMENT)
            self._number = known.experiment_id if known else self._client.create_experiment(_EXPERIMENT)
        except Exception as error:  # as above
            why = " ".join(str(error).split())
            raise UserError(f'report.mlflow = "{experiment.report.mlflow}": {why}') from None

    def begin(self, folder: Path) -> None:
        """Goes on with the run whose number is in the folder, or else begins one."""
        path = folder / MLFLOW
        if path.is_file():
            self._run = str(json.loads(path.read_text(encoding="utf-8"))["run"])
            self._client.update_run(self._run, status="RUNNING")
            return
        self._run = str(self._client.create_run(self._number, run_name=folder.name).info.run_id)
        for section, values in to_table(self._settings).items():
            settings = values.items() if isinstance(values, Mapping) else [("", values)]
            for key, value in settings:
                self._client.log_param(self._run, f"{section}.{key}".rstrip("."), str(value)[:_LONGEST])
        write_atomic(path, json.dumps({"run": self._run}) + "\n")

    def log(self, values: Mapping[str, float], round_: int) -> None:
        from mlflow.entities import Metric

        now = round(time.time() * 1000)
        metrics = [Metric(name.replace("@", "_at_"), value, now, round_) for name, value in values.items()]
        self._client.log_batch(self._run, metrics=metrics)

    def close(self, state: str) -> None:
        self._client.set_terminated(self._run, status=state)
