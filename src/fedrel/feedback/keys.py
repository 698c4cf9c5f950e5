"""The name under which a sentence and its verdicts find each other again, without the sentence itself."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

_BYTES = 16


def sentence_key(tokens: Sequence[str], spans: Sequence[int]) -> str:
    """The one place where the key of a sentence with its pair is made; `spans` are head start, head end, tail start,
    tail end, all 0 for a plain text. Every token goes in with its length, so that no two sentences read alike.
    """
    digest = hashlib.blake2b(digest_size=_BYTES, person=b"fedrel sentence")
    digest.update(" ".join(str(int(place)) for place in spans).encode())
    for token in tokens:
        content = token.encode("utf-8", "surrogatepass")
        digest.update(b"\n%d\n" % len(content) + content)
    return digest.hexdigest()
