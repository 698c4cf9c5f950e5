"""Blinded fact keys: platforms that share a secret agree on them, the server learns nothing from them."""

import hashlib
import hmac
from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor


def of_run(key: bytes, run: str) -> bytes:
    """The platforms' shared key, made fit for one run alone."""
    return hmac.digest(key, run.encode(), hashlib.sha256)


def of_agreement(key: bytes, run_id: str, agreement_digest: bytes) -> bytes:
    """The platforms' shared key, made fit for one run and for what was agreed on for it. A coordinator that starts
    another run under the same name, or tells platforms different things of one run, gets keys that have nothing to do
    with each other. Lengths stand before both parts, so that no two pairs of them make the same message.
    """
    parts = (b"fedrel agreement", run_id.encode("utf-8", "surrogatepass"), agreement_digest)
    message = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    return hmac.digest(key, message, hashlib.sha256)


def of_round(secret: bytes, round_: int) -> bytes:
    return hmac.digest(secret, f"round {round_}".encode(), hashlib.sha256)


def blind(facts: Iterable[str], secret: bytes) -> Tensor:
    """(n,) int64: the first 8 bytes of HMAC-SHA256 of every fact (a clash among 10^6 facts: about 3 in 10^8)."""
    digests = b"".join(hmac.digest(secret, fact.encode(), "sha256")[:8] for fact in facts)
    return torch.from_numpy(np.frombuffer(digests, "<i8").astype(np.int64))
