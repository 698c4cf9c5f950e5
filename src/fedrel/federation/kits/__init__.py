"""Certificates, keys and settings of a federation's parties."""
