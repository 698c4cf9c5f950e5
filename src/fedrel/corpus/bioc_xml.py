"""BioC XML: one document for each <document>, whatever its passages and sentences.

    <collection>… <document><id>1234</id> <passage><offset>0</offset><text>Aspirin eases pain.</text>
    <annotation id="T1"><infon key="type">Drug</infon><location offset="0" length="7"/><text>Aspirin</text></annotation>
    <relation><infon key="type">Eases</infon><node refid="T1" role="Arg1"/><node refid="T2" role="Arg2"/></relation> …

What is made of passages, annotations and relations, `fedrel.corpus.bioc` says. BC5CDR comes so, with 1,038, 1,012 and
1,066 relations of concepts in train, dev and test; so do BioRED and PubTator's collections.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedrel.corpus import bioc
from fedrel.corpus.bioc import Join, Mark, Passage, Source
from fedrel.corpus.checks import EMPTY, each_file
from fedrel.corpus.columns import shortened
from fedrel.corpus.format import Format, Sample
from fedrel.corpus.types import Document, Skipped
from fedrel.corpus.xml_elements import children, line_of
from fedrel.errors import UserError

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
    count = 0
    for _, element in children(path, "collection", "BioC"):
        where = line_of(path, element)
        if element.tag not in _INSIDE["collection"]:
            name = shortened(str(element.tag))
            raise UserError(f"{path}:{element.sourceline}: <{name}> has no place in <collection>; remove it")
        if element.tag != "document":
            continue
        count += 1
        name = (element.findtext("id") or "").strip() or f"{path.name}#{count}"
        place = f"{where}: document {shortened(name)}"  # a whole collection may be in one line
        try:
            _check(element, place)
            document = bioc.document(_source(element, name), place, place, skip)
        except UserError as error:
            skip.bad(error, place)
            continue
        if document.text.strip():
            yield document
        else:
            skip(place, EMPTY)


def _check(document: Any, where: str) -> None:
    """Refuses elements that BioC does not have, and two of a kind where only one of them could be read."""
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


def _source(document: Any, name: str) -> Source:
    found = Source(name)
    _collect(document, found)
    for passage in document.iterfind("passage"):
        sentences = passage.findall("sentence")
        given = [(it.findtext("offset"), it.findtext("text") or "") for it in sentences]
        found.passages.append(Passage(passage.findtext("offset"), passage.findtext("text") or "", given))
        for element in (passage, *sentences):
            _collect(element, found)
    return found


def _collect(element: Any, found: Source) -> None:
    """The annotations and relations that stand directly in an element."""
    for it in element.iterfind("annotation"):
        locations = [(place.get("offset"), place.get("length")) for place in it.iterfind("location")]
        found.marks.append(Mark(it.get("id", ""), _infons(it), it.findtext("text") or "", locations))
    for it in element.iterfind("relation"):
        nodes = [(node.get("role", ""), node.get("refid", "")) for node in it.iterfind("node")]
        found.joins.append(Join(it.get("id", ""), _infons(it), nodes))


def _infons(element: Any) -> dict[str, object]:
    return {it.get("key", ""): it.text or "" for it in element.iterfind("infon")}


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
