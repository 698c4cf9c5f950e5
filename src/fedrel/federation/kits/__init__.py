"""Certificates, keys and settings of the parties of a federation."""
