"""The federation of `benchmarks.peers` as a Flower user would write it. Imports flwr, torch and numpy, not fedrel."""
