"""BioC XML: one document for each <document>, whatever its passages and sentences.

    <collection>… <document><id>1234</id> <passage><offset>0</offset><text>Aspirin eases pain.</text>
    <annotation id="T1"><infon key="type">Drug</infon><location offset="0" length="7"/><text>Aspirin</text></annotation>
    <relation><infon key="type">Eases</infon><node refid="T1" role="Arg1"/><node refid="T2" role="Arg2"/></relation> …

Passages are put at their offsets and the gaps between them filled with line ends, so that every offset counts
characters of the whole. An annotation in pieces becomes the span from its first piece to its last. Relations of two
annotations are read; others are left out and counted.

The packages bioc and lxml are imported when a file is read, since a machine that only trains may lack them.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedrel.corpus.checks import EMPTY, each_file, head_and_tail, sentences_at, stretch
from fedrel.corpus.columns import shortened
from fedrel.corpus.format import Format, Sample
from fedrel.corpus.types import Annotation, Document, Skipped
from fedrel.errors import UserError

if TYPE_CHECKING:
    import bioc

LONGEST = 50_000_000  # characters of a document; an offset beyond is a mistake, not a gap to be filled
_RELATION = ("type", "relation type", "relation_type", "relation")
_IDENTIFIER = ("identifier", "concept id", "concept_id")
_DATABASES = (
    *("mesh", "ncbi gene", "ncbigene", "ncbi homologene", "ncbi taxonomy", "omim", "umls", "cui", "chebi"),
    *("uniprot", "dbsnp", "cellosaurus", "hpo", "go"),
)
_UNLINKED = ("", "-", "-1", "none", "null")
_INSIDE = {
    "collection": {"source", "date", "key", "infon", "document"},
    "document": {"id", "infon", "passage", "annotation", "relation"},
    "passage": {"infon", "offset", "text", "sentence", "annotation", "relation"},
    "sentence": {"infon", "offset", "text", "annotation", "relation"},
    "annotation": {"infon", "location", "text"},
    "relation": {"infon", "node"},
}


def read(path: Path, skip: Skipped) -> Iterator[Document]:
    """The documents of one file, each parsed when it is asked for. One without text is skipped."""
    from lxml import etree

    try:
        with path.open("rb") as file:
            for count, element in enumerate(_elements(file, path), 1):
                line = element.sourceline or 0
                where = f"{path}:{line}" if 0 < line < 65_535 else str(path)  # the parser counts no further
                document = _document(element, f"{path.name}#{count}", where, skip)
                if document.text.strip():
                    yield document
                else:
                    skip(where, EMPTY)
    except etree.XMLSyntaxError as error:
        reason = shortened(error.msg or "empty", 200)
        raise UserError(f"{path}:{error.lineno or 1}: not XML ({reason}); is the file damaged or cut off?") from None
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None


def _elements(file: io.BufferedReader, path: Path) -> Iterator[Any]:
    """Every <document>, freed after use.

    The library's own streaming reader keeps all of the file, and its parser cannot be told what to refuse; so each
    document is cut out here and handed to it alone. What makes this safe with files from strangers:
    - resolve_entities=False puts no entity into the text, be it a file on this machine or a billion laughs;
    - load_dtd=False and no_network=True, the defaults, fetch nothing that a DOCTYPE names;
    - huge_tree=False, the default, has the parser give up on entities that grow inside of attributes;
    - a file that declares an entity at all is refused below, so none goes missing from a text unseen.
    """
    from lxml import etree

    events = etree.iterparse(
        file, events=("start", "end"), resolve_entities=False, remove_comments=True, remove_pis=True
    )
    root = next(events)[1]
    declared = root.getroottree().docinfo.internalDTD
    if declared is not None and declared.entities():
        raise UserError(f"{path}: declares an entity of its own (<!ENTITY …>); write its text in its place")
    if root.tag != "collection":
        raise UserError(f"{path}:{root.sourceline}: not BioC, which begins with <collection>")
    for event, element in events:
        if event == "end" and element.getparent() is root:
            if element.tag == "document":
                yield element
            elif element.tag not in _INSIDE["collection"]:
                name = shortened(str(element.tag))
                raise UserError(f"{path}:{element.sourceline}: <{name}> has no place in <collection>; remove it")
            element.clear()
            while element.getprevious() is not None:
                del root[0]


def _document(element: Any, name: str, where: str, skip: Skipped) -> Document:
    import bioc
    from bioc import biocxml
    from lxml import etree

    _check(element, where)
    xml = b"<collection>" + etree.tostring(element, encoding="utf-8", with_tail=False) + b"</collection>"
    try:
        with biocxml.iterparse(io.BytesIO(xml)) as documents:
            found = next(documents)
    except (TypeError, ValueError):
        raise UserError(f"{where}: an offset or length is missing or no whole number") from None
    name = (found.id or "").strip() or name
    place = f"{where}: document {shortened(name)}"  # a whole collection may be in one line
    text, sentences = _text(found, place)
    annotations, keys = _annotations([it.annotation for it in bioc.annotations(found)], text, place, skip)
    joins = [it.relation for it in bioc.relations(found)]
    for it in joins:
        keys.setdefault(it.id or "", None)  # a relation may join relations, too
    return Document(name, text, annotations, tuple(_relations(joins, keys, place, skip)), where, sentences)


def _check(document: Any, where: str) -> None:
    """Refuses what the library would ignore: elements that it does not know, and all but the last of two of a kind."""
    for element in document.iter():
        names = [child.tag for child in element]
        for child in element:
            if child.tag not in _INSIDE.get(element.tag, ()):
                name = f"<{child.tag}>" if isinstance(child.tag, str) else child.text  # of an entity, &name;
                raise UserError(f"{where}: {shortened(name)} has no place in <{element.tag}> of BioC; remove it")
        for name in ("id", "offset", "text"):
            if names.count(name) > 1:
                raise UserError(f"{where}: two <{name}> in one <{element.tag}>; remove one")
        if "offset" in _INSIDE.get(element.tag, ()) and "offset" not in names:
            raise UserError(f"{where}: no <offset> in a <{element.tag}>; add it")


def _text(document: bioc.BioCDocument, where: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    """The passages as one text, and the spans of its sentences, none of which runs over two passages."""
    pieces: list[tuple[int, str, bool]] = []
    for passage in document.passages:
        if passage.text and not passage.text.isspace():
            pieces.append((passage.offset, passage.text, False))
        else:
            pieces += [(sentence.offset, sentence.text, True) for sentence in passage.sentences if sentence.text]
    text: list[str] = []
    length = 0
    sentences: list[tuple[int, int]] = []
    for offset, words, is_sentence in sorted(pieces, key=lambda piece: piece[0]):
        if not length <= offset <= LONGEST:
            raise UserError(
                f"{where}: a passage has the offset {shortened(str(offset))} where the one before it ends at {length}; "
                "offsets must count characters from the start of the document"
            )
        text += ["\n" * (offset - length), words]
        length = offset + len(words)
        if not is_sentence:
            sentences += sentences_at(offset, words)
        elif words.strip():
            start = offset + len(words) - len(words.lstrip())
            sentences.append((start, start + len(words.strip())))
    return "".join(text), tuple(sentences)


def _annotations(
    given: Iterable[bioc.BioCAnnotation], text: str, where: str, skip: Skipped
) -> tuple[tuple[Annotation, ...], dict[str, str | None]]:
    """The annotations of a document, and their keys by the id that relations use: None for an id that has no place in
    the text, or that two annotations share.
    """
    found: list[Annotation] = []
    taken: set[str] = set()
    keys: dict[str, str | None] = {}
    for count, it in enumerate(given, 1):
        name = it.id or f"T{count}"
        if not it.locations:
            skip(where, "the annotation has no place in the text")
            keys[name] = None
            continue
        pieces = [(place.offset, place.offset + place.length) for place in it.locations]
        span = stretch(text, pieces, it.text or None, f"{where}, annotation {shortened(name)}")
        # Some files number the annotations of each passage anew. Only a relation that names such an id is ambiguous.
        key = name
        while key in taken:
            key += f"/{count}"
        taken.add(key)
        keys[name] = None if name in keys else key
        found.append(Annotation(key, *span, _infon(it.infons, ("type",))[1], _identity(it.infons)))
    return tuple(found), keys


def _relations(
    given: Iterable[bioc.BioCRelation], keys: Mapping[str, str | None], where: str, skip: Skipped
) -> Iterator[tuple[str, str, str]]:
    for it in given:
        relation = _infon(it.infons, _RELATION)[1]
        if len(it.nodes) != 2:
            skip(where, f"the relation has {len(it.nodes)} nodes, not two")
            continue
        if not relation:
            skip(where, "the relation has no type")
            continue
        ends = head_and_tail(*((node.role or "", node.refid or "") for node in it.nodes))
        for name in ends:
            if name not in keys:
                raise UserError(f'{where}: a relation names the annotation "{shortened(name)}", which is not there')
        head, tail = (keys[name] for name in ends)
        if head and tail:
            yield head, relation, tail
        else:
            skip(where, "the relation joins something other than two annotations with ids of their own")


def _infon(infons: Mapping[str | None, str | None], names: tuple[str, ...]) -> tuple[str, str]:
    """Key and value of the first of these names that an infon has, else two empty strings."""
    given = {(key or "").strip().casefold(): (key or "", (value or "").strip()) for key, value in infons.items()}
    return next((given[name] for name in names if name in given and given[name][1]), ("", ""))


def _identity(infons: Mapping[str | None, str | None]) -> str:
    """The identifier; or the database that an infon is named after with what it says: MESH:D001241."""
    for names, named_after in ((_IDENTIFIER, False), (_DATABASES, True)):
        key, value = _infon(infons, names)
        if value.casefold() not in _UNLINKED:
            return f"{key}:{value}" if named_after and ":" not in value else value
    return ""


def _by_content(sample: Sample) -> str | None:
    if sample.lines[0].lstrip().startswith("<") and "<collection" in "".join(sample.lines):
        return "XML with a <collection>"
    return None


FORMAT = Format(
    what="BioC XML",
    documents=each_file(read, ".xml"),
    gold=True,
    by_content=_by_content,
    extensions=(".xml",),
    infixes=(".bioc",),
)
