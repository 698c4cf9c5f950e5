"""Quantities formatted for people."""


def format_bytes(count: float) -> str:
    """A number of bytes in decimal units: "1.5 GB", "2.0 MB", "3.1 KB" or "12 B"."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count:.0f} B"
