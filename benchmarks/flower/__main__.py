"""`python -m benchmarks.flower FOLDER CORES CORES_PER_CLIENT`: the federation that `benchmarks.peers` wrote there."""

import sys
from pathlib import Path

from flwr.simulation import run_simulation

from benchmarks.flower.app import client, server, work_in

if __name__ == "__main__":
    folder, cores, each = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    run_simulation(
        server_app=server(folder),
        client_app=client,
        num_supernodes=work_in(str(folder))["platforms"],
        backend_config={
            "init_args": {"address": "local", "num_cpus": cores},
            "client_resources": {"num_cpus": each, "num_gpus": 0.0},
        },
    )
