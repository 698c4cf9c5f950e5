"""The key that links verdicts to their sentence without storing the sentence."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

_BYTES = 16


def sentence_key(tokens: Sequence[str], spans: Sequence[int]) -> str:
    """A hash of a sentence and its entity pair, 32 hexadecimal digits. `spans` are head start, head end, tail start and
    tail end, all 0 for a plain text. Every token is hashed with its length, so that no two sentences give the same
    input.
    """
    digest = hashlib.blake2b(digest_size=_BYTES, person=b"fedrel sentence")
    digest.update(" ".join(str(int(place)) for place in spans).encode())
    for token in tokens:
        content = token.encode("utf-8", "surrogatepass")
        digest.update(b"\n%d\n" % len(content) + content)
    return digest.hexdigest()
