"""The compiled part of the gazetteer: names as paths of tokens in a trie, and the search for them in text.

Tokens are compared folded. Where a path ends, hang the forms of the names that take it: at most one folded form,
which any text that got there has, and exact forms, which the text must also equal character by character.

Two hash tables, of tokens and of edges (parent node, token): open addressing, a power of two slots, each with 32
bits of hash above the number + 1, 0 where free. The hash only says where to look; what it finds is compared.

All in one file, although it is long: numba's cache does not notice when a helper in another file has changed.

Text comes as code points, several texts one after the other; text i is codes[bounds[i] : bounds[i + 1]].
"""

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

from fedrel.alignment.characters import CAPITAL, FOLDED, LETTER, SPACE, WORD
from fedrel.kernels.jit import kept

# Columns
TOKEN_BEGIN, TOKEN_LENGTH, TOKEN_NODE = range(3)  # its folded characters; the node of the path of it alone, or -1
PARENT, EDGE = range(2)  # a node: where it hangs (-1: nowhere) and by which token;
FOLDED_FORM, EXACT_FORM = range(2, 4)  # its forms, or -1;
CHILDREN = 4  # a bit for the last five bits of each token that leads on from it, which saves most of the searches
NEXT, FORM_BEGIN = range(2)  # an exact form: the next of its node, or -1; its characters without spaces
START, END, ROW_FOLDED, ROW_EXACT, ONLY = range(5)  # a match: place; forms, or -1; the candidate if there is one alone
# Counts
TOKENS, TOKEN_CHARACTERS, NODES, FORMS, FORM_CHARACTERS = range(5)

SHORT = 3  # characters up to which a name is matched exactly

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
_NUMBER = np.uint64(0xFFFFFFFF)
_FOLDED, _WORD, _SPACE, _LETTER, _CAPITAL = map(np.uint32, (FOLDED, WORD, SPACE, LETTER, CAPITAL))

Codes: TypeAlias = NDArray[np.uint32]
Slots: TypeAlias = NDArray[np.uint64]
Rows: TypeAlias = NDArray[np.int32]
Integers: TypeAlias = NDArray[np.int64]
Number: TypeAlias = int | np.int64
# Slots of the tokens, their rows (tokens, 3) and characters; slots of the edges, rows of the nodes (nodes, 5);
# rows of the forms (forms, 2) and their characters
Trie: TypeAlias = tuple[Slots, Rows, Codes, Slots, Rows, Rows, Codes]

# Without numba's reference counts: nothing here makes an array, and counting those that are passed on to a helper
# would take more time than the helper.
_OPTIONS: dict[str, Any] = {"nogil": True, "_nrt": False}
_Function = TypeVar("_Function", bound=Callable[..., Any])


def _inlined(function: _Function) -> _Function:
    return cast(_Function, njit(forceinline=True, **_OPTIONS)(function))


def _compiled(signature: str) -> Callable[[_Function], _Function]:
    """Compiled at import, or read from what was kept of it."""

    def compile_(function: _Function) -> _Function:
        return cast(_Function, kept(function, signature, **_OPTIONS))

    return compile_


@_inlined
def _token_at(codes: Codes, at: Number, stop: Number, characters: Codes) -> tuple[Number, Number, np.uint64]:
    """The next token: begin, end and hash; begin is `stop` where there is none."""
    while at < stop and characters[codes[at]] & _SPACE:
        at += 1
    begin = at
    digest = np.uint64(0)
    if at < stop:
        entry = characters[codes[at]]
        digest = np.uint64(entry & _FOLDED)
        at += 1
        if entry & _WORD:
            while at < stop:
                entry = characters[codes[at]]
                if not entry & _WORD:
                    break
                digest = digest * _MULTIPLIER + np.uint64(entry & _FOLDED)
                at += 1
    return begin, at, _mixed(digest)


@_inlined
def _mixed(digest: np.uint64) -> np.uint64:
    """32 bits that all of the 64 have a part in."""
    return ((digest ^ (digest >> _HALF)) * _MULTIPLIER) >> _HALF


@_inlined
def _find_token(
    codes: Codes,
    begin: Number,
    end: Number,
    digest: np.uint64,
    characters: Codes,
    slots: Slots,
    tokens: Rows,
    token_characters: Codes,
) -> Number:
    mask = np.uint64(len(slots) - 1)
    place = digest & mask
    while slots[place] != 0:
        if slots[place] >> _HALF == digest:
            token = np.int64(slots[place] & _NUMBER) - 1
            if tokens[token, TOKEN_LENGTH] == end - begin:
                shift = tokens[token, TOKEN_BEGIN] - begin
                at = begin
                while at < end and token_characters[shift + at] == characters[codes[at]] & _FOLDED:
                    at += 1
                if at == end:
                    return token
        place = (place + np.uint64(1)) & mask
    return -1


@_inlined
def _read(
    codes: Codes, at: Number, stop: Number, characters: Codes, slots: Slots, tokens: Rows, token_characters: Codes
) -> tuple[Number, Number, Number]:
    """The next token: begin, end and number; -1 for one that no name has, and where there is none (begin is `stop`)."""
    begin, end, digest = _token_at(codes, at, stop, characters)
    if begin == stop:
        return begin, end, -1
    return begin, end, _find_token(codes, begin, end, digest, characters, slots, tokens, token_characters)


@_inlined
def _edge_hash(node: Number, token: Number) -> np.uint64:
    return _mixed((np.uint64(node) << _HALF | np.uint64(token)) * _MULTIPLIER)


@_inlined
def _find_child(node: Number, token: Number, slots: Slots, nodes: Rows) -> Number:
    if not nodes[node, CHILDREN] >> (token & 31) & 1:
        return -1
    digest = _edge_hash(node, token)
    mask = np.uint64(len(slots) - 1)
    place = digest & mask
    while slots[place] != 0:
        if slots[place] >> _HALF == digest:
            child = np.int64(slots[place] & _NUMBER) - 1
            if nodes[child, PARENT] == node and nodes[child, EDGE] == token:
                return child
        place = (place + np.uint64(1)) & mask
    return -1


@_inlined
def _find_exact(
    codes: Codes, begin: Number, end: Number, characters: Codes, form: Number, forms: Rows, form_characters: Codes
) -> Number:
    """The exact form, `form` or one that follows it, which the text from begin to end has. Its tokens are as long as
    those of the text, since the folded ones are the same: only the characters remain to be compared.
    """
    while form >= 0:
        character = forms[form, FORM_BEGIN]
        at = begin
        while at < end:
            if not characters[codes[at]] & _SPACE:
                if form_characters[character] != codes[at]:
                    break
                character += 1
            at += 1
        if at == end:
            return form
        form = forms[form, NEXT]
    return -1


@_inlined
def _put(slots: Slots, digest: np.uint64, number: Number) -> None:
    mask = np.uint64(len(slots) - 1)
    place = digest & mask
    while slots[place] != 0:
        place = (place + np.uint64(1)) & mask
    slots[place] = digest << _HALF | np.uint64(number + 1)


@_compiled("void(uint64[::1], uint64[::1])")
def move(slots: Slots, larger: Slots) -> None:
    """Put everything into a larger hash table."""
    for slot in slots:
        if slot != 0:
            _put(larger, slot >> _HALF, np.int64(slot & _NUMBER) - 1)


_TEXT = "Array(uint32, 1, 'C', readonly=True), int64[::1], uint32[::1]"
_TRIE = "Tuple((uint64[::1], int32[:, ::1], uint32[::1], uint64[::1], int32[:, ::1], int32[:, ::1], uint32[::1]))"


@_compiled(f"void({_TEXT}, {_TRIE}, int64[::1], int64[::1])")
def add(
    codes: Codes,
    bounds: Integers,
    characters: Codes,
    trie: Trie,
    counts: Integers,
    form_of: Integers,
) -> None:
    """Enter names, and write the form of each; -1 where it has no word character and was not entered.

    All arrays must have room enough: this many characters, tokens, nodes and forms more.
    """
    token_slots, tokens, token_characters, node_slots, nodes, forms, form_characters = trie
    for name in range(len(bounds) - 1):
        at: Number = bounds[name]
        stop: Number = bounds[name + 1]
        size = words = letters = capitals = 0
        for code in codes[at:stop]:
            entry = characters[code]
            size += not entry & _SPACE
            words += (entry & _WORD) != 0
            letters += (entry & _LETTER) != 0
            capitals += (entry & _CAPITAL) != 0
        if words == 0:
            form_of[name] = -1
            continue
        node: Number = -1
        while True:
            begin, at, digest = _token_at(codes, at, stop, characters)
            if begin == stop:
                break
            token = _find_token(codes, begin, at, digest, characters, token_slots, tokens, token_characters)
            if token < 0:
                token = counts[TOKENS]
                counts[TOKENS] += 1
                tokens[token, TOKEN_BEGIN] = counts[TOKEN_CHARACTERS]
                tokens[token, TOKEN_LENGTH] = at - begin
                tokens[token, TOKEN_NODE] = -1
                for code in codes[begin:at]:
                    token_characters[counts[TOKEN_CHARACTERS]] = characters[code] & _FOLDED
                    counts[TOKEN_CHARACTERS] += 1
                _put(token_slots, digest, token)
            child = tokens[token, TOKEN_NODE] if node < 0 else _find_child(node, token, node_slots, nodes)
            if child < 0:
                child = counts[NODES]
                counts[NODES] += 1
                nodes[child, PARENT] = node
                nodes[child, EDGE] = token
                nodes[child, FOLDED_FORM] = nodes[child, EXACT_FORM] = -1
                nodes[child, CHILDREN] = 0
                if node < 0:
                    tokens[token, TOKEN_NODE] = child
                else:
                    nodes[node, CHILDREN] |= 1 << (token & 31)
                    _put(node_slots, _edge_hash(node, token), child)
            node = child
        exact = size <= SHORT or (letters > 0 and capitals == letters)
        form: Number = nodes[node, FOLDED_FORM]
        if exact:
            form = _find_exact(codes, bounds[name], stop, characters, nodes[node, EXACT_FORM], forms, form_characters)
        if form < 0:
            form = counts[FORMS]
            counts[FORMS] += 1
            forms[form, NEXT] = nodes[node, EXACT_FORM]
            forms[form, FORM_BEGIN] = counts[FORM_CHARACTERS]
            nodes[node, EXACT_FORM if exact else FOLDED_FORM] = form
            if exact:
                for code in codes[bounds[name] : stop]:
                    if not characters[code] & _SPACE:
                        form_characters[counts[FORM_CHARACTERS]] = code
                        counts[FORM_CHARACTERS] += 1
        form_of[name] = form


@_compiled(f"int64({_TEXT}, {_TRIE}, int64[::1], int64[::1], int64[::1], int64[::1], int64[:, ::1])")
def search(
    codes: Codes,
    bounds: Integers,
    characters: Codes,
    trie: Trie,
    offsets: Integers,
    entities: Integers,
    progress: Integers,
    found: Integers,
    rows: Integers,  # (room for matches, 5)
) -> Number:
    """Write matches into rows until these are full or the texts at an end, and say how many.

    Starts, and next time goes on, at progress: (text, place). `found` counts the matches of each text.
    Form f has the candidates entities[offsets[f] : offsets[f + 1]].
    """
    token_slots, tokens, token_characters, node_slots, nodes, forms, form_characters = trie
    written = 0
    text: Number = progress[0]
    at: Number = progress[1]
    while text < len(bounds) - 1:
        stop = bounds[text + 1]
        node: Number = -1  # where the tokens since `start` have led; -1: none of them has begun a name
        start: Number = at
        after_first: Number = at
        longest: Number = at
        folded: Number = -1
        exact: Number = -1
        token_is_read = False
        begin: Number = at
        end: Number = at
        token: Number = -1
        while True:
            if not token_is_read:
                begin, end, token = _read(codes, at, stop, characters, token_slots, tokens, token_characters)
            token_is_read = False
            child: Number = -1
            if token >= 0:
                child = np.int64(tokens[token, TOKEN_NODE]) if node < 0 else _find_child(node, token, node_slots, nodes)
            if child >= 0:  # one token further on the path
                if node < 0:
                    start, after_first, longest = begin, end, -1
                node = child
                at = end
                folded_here = np.int64(nodes[node, FOLDED_FORM])
                exact_here = _find_exact(
                    codes, start, end, characters, np.int64(nodes[node, EXACT_FORM]), forms, form_characters
                )
                if folded_here >= 0 or exact_here >= 0:
                    longest, folded, exact = end, folded_here, exact_here
            elif node < 0:  # no name begins here
                if begin == stop:
                    break
                at = end
            else:  # the path ends before this token; the longest name on it counts
                node = -1
                before = at
                at = after_first
                if longest >= 0:
                    if written == len(rows):
                        progress[0], progress[1] = text, start
                        return written
                    only: Number = -1
                    if folded < 0 or exact < 0:
                        form = max(folded, exact)
                        if offsets[form + 1] - offsets[form] == 1:
                            only = entities[offsets[form]]
                    rows[written, START] = start - bounds[text]
                    rows[written, END] = longest - bounds[text]
                    rows[written, ROW_FOLDED] = folded
                    rows[written, ROW_EXACT] = exact
                    rows[written, ONLY] = only
                    written += 1
                    found[text] += 1
                    at = longest
                token_is_read = at == before
        text += 1
        at = stop
    progress[0], progress[1] = text, at
    return written
