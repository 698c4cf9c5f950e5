"""Sentences with exact character offsets."""

import re

from fedrel.corpus import cutting

_PIECE = 200_000  # characters that the splitter is given at a time: it takes about 90 bytes for each
_ODD_SPACE = re.compile(r"[^\S \n\r\t]")


def sentence_spans(text: str, language: str = "en") -> list[tuple[int, int]]:
    """Start and end of each sentence in `text`, without the white space around it; none is empty. A blank line ends a
    sentence, so that a long text, which is split in pieces, has the same ones as it would have whole.
    """
    return [
        (start + begin, start + end)
        for start, stop in cutting.spans(text, _PIECE)
        for begin, end in _in_piece(text[start:stop], language)
    ]


def _in_piece(text: str, language: str) -> list[tuple[int, int]]:
    from sentencex import get_sentence_boundaries  # a machine that only trains may lack it

    # The splitter stumbles over white space of more than one byte; a blank in its place keeps every offset.
    plain = _ODD_SPACE.sub(" ", text)
    spans = []
    place = 0
    for found in get_sentence_boundaries(language, plain):
        piece = found["text"].strip()
        if piece:
            start = plain.index(piece, place)  # its own numbers are not trusted: this is exact, or raises
            place = start + len(piece)
            spans.append((start, place))
    return spans
