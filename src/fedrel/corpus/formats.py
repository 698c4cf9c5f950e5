"""Every format of files by name: fedrel's own, and those of installed packages (entry points, group fedrel.formats)."""

from __future__ import annotations

from fedrel.corpus import (
    bere,
    biobert,
    bioc_json,
    bioc_xml,
    bionlp,
    brat,
    chemprot,
    classification,
    ddi,
    doccano,
    docred,
    dygie,
    fewrel,
    i2b2,
    jsonl_documents,
    label_studio,
    nyt10,
    opennre,
    pgr,
    plain_text,
    pubtator,
    semeval,
    spert,
    tables,
    tacred,
    triples,
)
from fedrel.corpus.format import Format
from fedrel.errors import UserError, suggest
from fedrel.util.plugins import Registry

# Of two formats that recognise a file, detection takes the one that comes first here.
FORMATS: Registry[Format] = Registry(
    "fedrel.formats",
    {
        "tacred": tacred.FORMAT,
        "bere": bere.FORMAT,
        "fewrel": fewrel.FORMAT,
        "semeval": semeval.FORMAT,
        "spert": spert.FORMAT,
        "dygie": dygie.FORMAT,
        "docred": docred.FORMAT,
        "triples": triples.FORMAT,
        "opennre": opennre.FORMAT,
        "pgr": pgr.FORMAT,
        "nyt10": nyt10.FORMAT,
        "biobert": biobert.FORMAT,
        "chemprot": chemprot.FORMAT,
        "brat": brat.FORMAT,
        "bionlp": bionlp.FORMAT,
        "bioc": bioc_xml.FORMAT,
        "bioc-json": bioc_json.FORMAT,
        "ddi": ddi.FORMAT,
        "pubtator": pubtator.FORMAT,
        "i2b2": i2b2.FORMAT,
        "doccano": doccano.FORMAT,
        "label-studio": label_studio.FORMAT,
        "jsonl": jsonl_documents.FORMAT,
        "classification": classification.FORMAT,
        "table": tables.FORMAT,
        "text": plain_text.FORMAT,
    },
    lambda part: None if isinstance(part, Format) else "is no fedrel.corpus.Format",
)


def labelled_formats() -> list[str]:
    """The names of the formats that can be trained on."""
    return [name for name, form in FORMATS.items() if form.labelled]


def labelled_format(name: str) -> Format:
    """A format that can be trained on, by its name in `data.source`; UserError if there is none of that name."""
    if name not in FORMATS or not FORMATS[name].labelled:
        raise UserError(f'data.source = "{name}" is no format of labelled data{suggest(name, labelled_formats())}')
    return FORMATS[name]
