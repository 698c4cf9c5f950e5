"""Blinded fact keys: platforms that share a secret compute the same keys, from which the server learns no fact."""

import hashlib
import hmac
from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor


def of_run(key: bytes, run: str) -> bytes:
    """A secret for one run, derived from the platforms' shared key."""
    return hmac.digest(key, run.encode(), hashlib.sha256)


def of_agreement(key: bytes, run_id: str, agreement_digest: bytes) -> bytes:
    """A secret for one run and its agreement, derived from the platforms' shared key. A coordinator that starts another
    run under the same name, or tells platforms different things about one run, gets unrelated keys. Each part is
    hashed with its length, so that no two pairs give the same message.
    """
    parts = (b"fedrel agreement", run_id.encode("utf-8", "surrogatepass"), agreement_digest)
    message = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    return hmac.digest(key, message, hashlib.sha256)


def of_round(secret: bytes, round_: int) -> bytes:
    """A secret for one round, derived from that of its run."""
    return hmac.digest(secret, f"round {round_}".encode(), hashlib.sha256)


def blind(facts: Iterable[str], secret: bytes) -> Tensor:
    """(n,) int64: the first 8 bytes of the HMAC-SHA256 of every fact (among 10^6 facts, a collision has a probability
    of about 3 in 10^8).
    """
    digests = b"".join(hmac.digest(secret, fact.encode(), "sha256")[:8] for fact in facts)
    return torch.from_numpy(np.frombuffer(digests, "<i8").astype(np.int64))
