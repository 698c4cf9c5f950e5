"""Engines carry messages between the server and the platforms: in this process, on Ray, or anywhere else."""

from fedrel.engines.engine import Engine, Upload
from fedrel.engines.remote import Failure, Remote
from fedrel.engines.simulator import Simulator

__all__ = ["Engine", "Failure", "Remote", "Simulator", "Upload"]
