"""A ClientApp and a ServerApp in the manner of Flower's own tutorial: the model's state as an array record, its FedAvg.

Two things are better than there: a platform's data stays in memory between rounds, and batches are rows of tensors,
which is faster than a DataLoader.
"""

from __future__ import annotations

import json
import time
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from torch import Tensor

from benchmarks import plain

client = ClientApp()


@client.train()  # type: ignore[untyped-decorator]
def train(message: Message, context: Context) -> Message:
    config = message.content["config"]
    folder = str(config["folder"])
    work = work_in(folder)
    data, orders = platform_in(folder, int(context.node_config["partition-id"]))
    model = new_model(work)
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    begin, begin_cpu = time.perf_counter(), time.process_time()
    epochs = orders[int(config["server-round"]) - 1]
    batches = [batch for order in epochs for batch in torch.split(order, work["batch"])]
    plain.train(model, data, batches, lr=work["lr"], weight_decay=work["weight_decay"])
    spent, spent_cpu = time.perf_counter() - begin, time.process_time() - begin_cpu
    count = len(data.labels)
    metrics = {
        "num-examples": count,
        "seconds-a-sentence": spent / count,
        "cpu-seconds-a-sentence": spent_cpu / count,
        "threads": torch.get_num_threads(),
    }
    content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": MetricRecord(metrics)})
    return Message(content=content, reply_to=message)


def server(folder: Path) -> ServerApp:
    """Writes the last weights and, per round, when it ended and what the platforms said of it."""
    app = ServerApp()

    @app.main()  # type: ignore[untyped-decorator]
    def main(grid: Grid, context: Context) -> None:
        work = work_in(str(folder))
        model = new_model(work)
        with np.load(folder / "start.npz") as start:
            model.load_state_dict({name: torch.from_numpy(start[name]) for name in start.files})
        ends = []
        strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=1, min_available_nodes=work["platforms"])
        result = strategy.start(
            grid=grid,
            initial_arrays=ArrayRecord(model.state_dict()),
            num_rounds=work["rounds"],
            train_config=ConfigRecord({"folder": str(folder)}),
            evaluate_fn=lambda number, arrays: ends.append(time.time()),  # before the first round, and after each
        )
        final = {name: value.numpy() for name, value in result.arrays.to_torch_state_dict().items()}
        np.savez(folder / "end.npz", **final)
        told = [dict(result.train_metrics_clientapp[number + 1]) for number in range(work["rounds"])]
        (folder / "flower.json").write_text(json.dumps({"ends": ends, "told": told}))

    return app


def new_model(work: dict[str, Any]) -> plain.PlainPCNN:
    model = plain.PlainPCNN(work["vocabulary"], work["relations"], dropout=0.0)
    return model.to(getattr(torch, work["precision"]))


@lru_cache
def work_in(folder: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((Path(folder) / "work.json").read_text())
    return found


@lru_cache
def platform_in(folder: str, number: int) -> tuple[plain.Padded, Tensor]:
    """Its sentences, and their order in every round: (rounds, epochs, S)."""
    with np.load(Path(folder) / f"{number}.npz") as columns:
        found = {name: torch.from_numpy(columns[name]) for name in columns.files}
    orders = found.pop("orders")
    return plain.Padded(**found), orders
