"""Nodes: the long-running processes of a federation's parties."""
