"""Paths that a Python interpreter, and libraries that use accelerators, must be able to open."""

from __future__ import annotations

import sys
from pathlib import Path

# Shared libraries, and the loader's cache
_LIBRARIES = ("/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache")
# Host, user and service names; certificates; time zone
_SETTINGS = (
    *("resolv.conf", "hosts", "nsswitch.conf", "gai.conf", "host.conf", "services", "protocols", "hostname"),
    *("passwd", "group", "ssl", "pki", "ca-certificates", "crypto-policies", "localtime", "timezone", "mime.types"),
)
_SHARED = ("/usr/share/zoneinfo", "/usr/share/ca-certificates", "/usr/local/share/ca-certificates")
# /etc/resolv.conf is often a link into one of these. The folders are listed because the file is replaced when the
# network changes, and a rule for a file would keep naming the old one.
_NETWORKS = ("/run/systemd/resolve", "/run/NetworkManager", "/run/resolvconf")
_MACHINE = (
    *("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/loadavg", "/proc/version", "/proc/uptime"),
    *("/proc/filesystems", "/proc/sys/kernel", "/proc/sys/vm"),
    *("/sys/devices/system", "/sys/fs/cgroup", "/sys/kernel/mm/transparent_hugepage"),
)
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
_ACCELERATORS = ("nvidia*", "kfd", "dri")


def python_paths() -> tuple[Path, ...]:
    """The existing paths that an interpreter must read to import modules, resolve host names and check certificates.

    These are the folders it imports from, the standard library, shared libraries, and system settings; not the current
    folder. `/proc/self` is left as a link, which resolves in the process that is confined: a process forked later
    cannot read its own.
    """
    entries = [Path(entry) for entry in sys.path if entry]
    if entries[:1] == [Path.cwd()]:
        del entries[0]  # `python -m` puts the current folder first; an installed folder appears again further on
    installed = [Path(prefix) for prefix in (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix)]
    system = [Path(name) for name in (*_LIBRARIES, *_SHARED, *_NETWORKS, *_DEVICES, *_MACHINE)]
    settings = [Path("/etc", name) for name in _SETTINGS]
    real = [path.resolve() for path in settings if path.is_symlink()]
    named = dict.fromkeys((*installed, *entries, *system, *settings, *real))
    return tuple(path for path in named if path.is_absolute() and path.exists())


def accelerator_paths() -> tuple[Path, ...]:
    """The paths that a process must write to in order to use an accelerator: its devices, and /proc/self/task, where
    CUDA sets thread names. Empty on a machine without an accelerator.
    """
    devices = sorted(path for pattern in _ACCELERATORS for path in Path("/dev").glob(pattern))
    return (*devices, Path("/proc/self/task")) if devices else ()
