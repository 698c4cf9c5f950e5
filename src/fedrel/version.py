"""Which fedrel this is."""

from importlib.metadata import PackageNotFoundError, version


def installed_version() -> str:
    try:
        return version("fedrel")
    except PackageNotFoundError:  # used from a checkout that is not installed
        return "unknown"
