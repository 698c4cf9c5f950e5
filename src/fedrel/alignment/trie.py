"""The compiled part of the gazetteer: names as paths of tokens in a trie, and the search for them in text.

Tokens are compared case-folded. The node where a name's path ends lists the forms of the names that end there: at most
one folded form, which matches any text that reaches the node, and exact forms, which must also equal the text character
by character.

There are two hash tables, of tokens and of edges (parent node, token). Both use open addressing over a power of two of
64-bit slots: the hash in the upper half, the number + 1 in the lower, 0 if the slot is free. The hash only says where
to look; what it finds is compared.

This is all in one long file because numba's cache does not notice when a helper in another file has changed.

Texts are passed as code points, concatenated; text i is codes[bounds[i] : bounds[i + 1]].
"""

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

from fedrel.alignment.characters import CAPITAL, FOLDED, LETTER, SPACE, WORD
from fedrel.kernels.jit import kept

# Columns of the arrays
TOKEN_BEGIN, TOKEN_LENGTH, TOKEN_NODE = range(3)  # a token: its folded characters; the root-level node for it, or -1
PARENT, EDGE = range(2)  # a node: its parent (-1: none) and the token that leads to it;
FOLDED_FORM, EXACT_FORM = range(2, 4)  # its folded form and its first exact form, or -1;
CHILDREN = 4  # a Bloom filter of the tokens of its edges, by their last five bits: it saves most of the lookups
NEXT, FORM_BEGIN = range(2)  # an exact form: the next one of its node, or -1; where its characters without spaces begin
START, END, ROW_FOLDED, ROW_EXACT, ONLY = range(5)  # a match: its span; forms, or -1; the only candidate, or -1
# Indices of the counts
TOKENS, TOKEN_CHARACTERS, NODES, FORMS, FORM_CHARACTERS = range(5)

SHORT = 3  # names of up to this many characters are matched exactly

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
_NUMBER = np.uint64(0xFFFFFFFF)
_FOLDED, _WORD, _SPACE, _LETTER, _CAPITAL = map(np.uint32, (FOLDED, WORD, SPACE, LETTER, CAPITAL))

Codes: TypeAlias = NDArray[np.uint32]
Slots: TypeAlias = NDArray[np.uint64]
Rows: TypeAlias = NDArray[np.int32]
Integers: TypeAlias = NDArray[np.int64]
Number: TypeAlias = int | np.int64
# Token slots, token rows (tokens, 3), token characters; edge slots, node rows (nodes, 5); form rows (forms, 2), form
# characters
Trie: TypeAlias = tuple[Slots, Rows, Codes, Slots, Rows, Rows, Codes]

# Without numba's reference counting: nothing here allocates an array, and counting references to the arrays passed to
# a helper would take longer than the helper.
_OPTIONS: dict[str, Any] = {"nogil": True, "_nrt": False}
_Function = TypeVar("_Function", bound=Callable[..., Any])


def _inlined(function: _Function) -> _Function:
    return cast(_Function, njit(forceinline=True, **_OPTIONS)(function))


def _compiled(signature: str) -> Callable[[_Function], _Function]:
    """A decorator that compiles at import, or loads the compiled function from the cache."""

    def compile_(function: _Function) -> _Function:
        return cast(_Function, kept(function, signature, **_OPTIONS))

    return compile_


@_inlined
def _token_at(codes: Codes, at: Number, stop: Number, characters: Codes) -> tuple[Number, Number, np.uint64]:
    """Begin, end and hash of the next token; begin is `stop` if there is none."""
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
    """A 32-bit hash that depends on all 64 bits."""
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
    """Begin, end and number of the next token. The number is -1 if no name has the token, or if there is none, in which
    case begin is `stop`.
    """
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
    """The first exact form, from `form` on, that equals codes[begin:end] apart from white space; -1 if none does. The
    folded tokens are equal already, so only the characters need comparing.
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
    """Copies every entry into a larger hash table."""
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
    """Adds names to the trie and writes the form of each to form_of (names,); -1 for a name without a word character,
    which is not added.

    The arrays of the trie must have spare capacity for len(codes) + names more of everything.
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
    rows: Integers,  # (capacity, 5)
) -> Number:
    """Writes matches to `rows` until these are full or all texts are searched; returns how many.

    Starts at progress, (text, position in codes), and leaves there where to resume. `found` counts the matches of each
    text. The candidates of form f are entities[offsets[f] : offsets[f + 1]].
    """
    token_slots, tokens, token_characters, node_slots, nodes, forms, form_characters = trie
    written = 0
    text: Number = progress[0]
    at: Number = progress[1]
    while text < len(bounds) - 1:
        stop = bounds[text + 1]
        node: Number = -1  # the node that the tokens since `start` lead to; -1: not inside a name
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
            if child >= 0:  # one token further down the trie
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
            else:  # no name goes on with this token: the longest one so far is the match
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
