"""Knowledge bases in every form; whatever a file holds, it is loaded with its problems counted, or refused."""

import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedrel.alignment import kb as kbs
from fedrel.alignment.kb import load
from fedrel.alignment.problems import quoted
from fedrel.corpus.world import World
from fedrel.errors import UserError

ENTITIES = "Q1\tPER\tAnn Lee|A. Lee\nQ2\tPLACE\tBonn\nQ3\tPLACE\tRhine\n"
TRIPLES = "Q1\tborn\tQ2\nQ2\tnear\tQ3\nQ1\tlives\tQ2\n"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDFS = "http://www.w3.org/2000/01/rdf-schema#"
SKOS = "http://www.w3.org/2004/02/skos/core#"
OWL = "http://www.w3.org/2002/07/owl#"
NT = f"""# people
<http://x.org/Q1> <{RDFS}label> "Ann Lee"@en .
<http://x.org/Q1> <{SKOS}altLabel> "A. Lee"^^<http://www.w3.org/2001/XMLSchema#string> .
<http://x.org/Q1> <{RDF}type> <http://x.org/t#PER> .

<http://x.org/Q2>\t<{SKOS}prefLabel>\t"Bonn"\t. # a comment
<http://x.org/Q2><{RDF}type><http://x.org/t#PLACE>.
<http://x.org/Q3> <{RDFS}label> "Rhine" .
<http://x.org/Q3> <{RDF}type> <http://x.org/t#PLACE> .
<http://x.org/Q1> <http://x.org/r/born> <http://x.org/Q2> .
<http://x.org/Q2> <http://x.org/r/near> <http://x.org/Q3> .
<http://x.org/Q1> <http://x.org/r/lives> <http://x.org/Q2> .
"""
CSV = """head,relation,tail,head_type,tail_type,head_name,tail_name
Q1,born,Q2,PER,PLACE,Ann Lee|A. Lee,Bonn
Q2,near,Q3,PLACE,PLACE,Bonn,Rhine
Q1,lives,Q2,PER,PLACE,Ann Lee|A. Lee,Bonn
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("kb")


def write(path, content):
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def tsv(folder, entities=ENTITIES, triples=TRIPLES, relations=None):
    write(folder / "entities.tsv", entities)
    write(folder / "triples.tsv", triples)
    (folder / "relations.tsv").unlink(missing_ok=True)
    if relations is not None:
        write(folder / "relations.tsv", relations)
    return load(folder)


def refusal(path):
    with pytest.raises(UserError) as caught:
        load(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def facts(kb):
    return {
        (head, kb.relations[relation], tail)
        for h, head in enumerate(kb.ids)
        for t, tail in enumerate(kb.ids)
        for relation in kb.relations_between(h, t)
    }


FORMS = {"kb": None, "kb.nt": NT, "kb.csv": CSV, "nt": NT}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_says_the_same(tmp_path, form):
    path = tmp_path / form
    if form == "kb":
        kb = tsv(path)
    else:
        write(path / "all.nt" if form == "nt" else path, FORMS[form])
        kb = load(path)
    prefix = "http://x.org/" if FORMS[form] == NT else ""
    assert list(kb.ids) == [f"{prefix}{id_}" for id_ in ("Q1", "Q2", "Q3")]
    assert dict(kb.numbers) == {id_: number for number, id_ in enumerate(kb.ids)}
    assert list(kb.types) == ["PER", "PLACE", "PLACE"]
    assert set(kb.names()) == {("Ann Lee", 0), ("A. Lee", 0), ("Bonn", 1), ("Rhine", 2)}
    assert kb.relations == ["born", "near", "lives"]
    assert kb.triples == 3
    assert kb.relations_between(0, 1) == [0, 2]
    assert kb.relations_between(1, 0) == kb.relations_between(2, 2) == kb.relations_between(2, 1) == []
    assert kb.allows(0, 0, 2)
    assert not kb.allows(0, 2, 0)
    assert not kb.allows(1, 0, 1)
    assert kb.compatible(0, 1) and kb.compatible(1, 2) and kb.compatible(1, 1)
    assert not kb.compatible(1, 0) and not kb.compatible(0, 0)
    assert kb.problems.total == 0


def test_the_built_in_world_is_read_back(tmp_path):
    world = World()
    entities, triples = list(world.entities()), list(world.triples())
    kb = tsv(
        tmp_path,
        "".join(f"{e.id}\t{e.type}\t{'|'.join(e.names)}\n" for e in entities),
        "".join("\t".join(triple) + "\n" for triple in triples),
    )
    assert list(kb.ids) == [e.id for e in entities]
    assert list(kb.types) == [e.type for e in entities]
    assert list(kb.names()) == [(name, number) for number, e in enumerate(entities) for name in e.names]
    assert set(kb.problems.counts) <= {"ambiguous name"}
    for head, relation, tail in triples:
        h, t, r = kb.numbers[head], kb.numbers[tail], kb.relations.index(relation)
        assert r in kb.relations_between(h, t)
        assert kb.allows(r, h, t)


def test_ids_and_types_are_sequences_and_numbers_a_mapping(folder):
    kb = tsv(folder)
    assert (kb.ids[-1], kb.ids[1:], kb.types[:2], len(kb.types)) == ("Q3", ["Q2", "Q3"], ["PER", "PLACE"], 3)
    assert kb.numbers.get("Q9") is None
    assert "Q9" not in kb.numbers and "\ud800" not in kb.numbers and "Q2" in kb.numbers
    with pytest.raises(IndexError):
        kb.ids[3]
    with pytest.raises(KeyError):
        kb.numbers["Q9"]


def test_headers_byte_order_marks_spaces_blank_lines_and_windows_line_ends_do_no_harm(folder):
    plain = tsv(folder)
    kb = tsv(
        folder,
        "\ufeffid\ttype\tnames\r\n\r\n" + ENTITIES.replace("\n", "\r\n").replace("\t", " \t "),
        "\ufeffHead\tRelation\tTail\r\n" + TRIPLES.replace("\n", " \r\n  \r\n").replace("\t", "  \t"),
        "relation\thead type\ttail type\n",
    )
    assert (list(kb.ids), list(kb.types), list(kb.names())) == (list(plain.ids), list(plain.types), list(plain.names()))
    assert facts(kb) == facts(plain)
    assert kb.problems.total == 0


@pytest.mark.parametrize(
    ("kind", "entities", "triples", "says"),
    [
        ("unknown entity", "", "Q1\tborn\tQ8\n", 'triples.tsv:4: "Q8" is not among the entities'),
        ("unknown entity", "", "Q9\tborn\tQ8\n", 'triples.tsv:4: "Q9" is not among the entities'),
        ("duplicate triple", "", "Q1\tborn\t Q2\n", "triples.tsv:4: this triple is already listed"),
        ("empty field", "", "Q1\t \tQ2\n", "triples.tsv:4: the relation is empty"),
        ("empty field", "", "\tborn\tQ2\n", "triples.tsv:4: the head is empty"),
        ("empty field", "", "Q1\tborn\t\n", "triples.tsv:4: the tail is empty"),
        ('relation "NA"', "", "Q1\tNA\tQ2\n", 'triples.tsv:4: "NA" means that there is no relation'),
        ("malformed line", "", "Q1\tborn\n", "triples.tsv:4: 2 columns where 3 are needed"),
        ("malformed line", "", "Q1\tborn\tQ2\tx\n", "triples.tsv:4: 4 columns where 3 are needed"),
        ("malformed line", "Q4\tPER\n", "", "entities.tsv:4: 2 columns where 3 are needed"),
        ("empty field", "\tPER\tEve\n", "", "entities.tsv:4: the id is empty"),
        ("empty field", "Q4\t\tEve\n", "", 'entities.tsv:4: "Q4" has no type'),
        ("empty field", "Q4\tPER\t\n", "", "entities.tsv:4: an entity has an empty name"),
        ("empty field", "Q4\tPER\tEve| |Eva\n", "", "entities.tsv:4: an entity has an empty name"),
        ("entity listed twice", "Q1\tX\tAnnie\n", "", 'entities.tsv:4: "Q1" is already listed; its first type is used'),
        ("ambiguous name", "Q4\tPER\tBonn\n", "", 'entities.tsv:4: "Bonn" is also a name of "Q2"'),
    ],
)
def test_a_problem_is_counted_and_named(folder, kind, entities, triples, says):
    kb = tsv(folder, ENTITIES + entities, TRIPLES + triples)
    assert kb.problems.counts == {kind: 1}
    assert kb.problems.examples == {kind: [f"{folder}/{says}"]}
    assert kb.triples == 3


def test_of_each_kind_the_first_five_are_named_and_all_are_counted(folder):
    triples = [f"Q1\tborn\tX{number}\n" for number in range(8)] + TRIPLES.splitlines(True) * 4
    random.Random(1).shuffle(triples)
    kb = tsv(folder, triples="".join(triples))
    assert kb.problems.counts == {"unknown entity": 8, "duplicate triple": 9}
    for kind, examples in kb.problems.examples.items():
        numbers = [int(example.removeprefix(f"{folder}/triples.tsv:").partition(":")[0]) for example in examples]
        assert len(numbers) == 5
        assert numbers == sorted(numbers)
        for number in numbers:
            line = triples[number - 1]
            assert "X" in line if kind == "unknown entity" else line in triples[: number - 1]


def test_an_entity_on_several_lines_keeps_its_type_and_gets_all_names(folder):
    kb = tsv(folder, ENTITIES + "Q1\tX\tAnnie\n")
    assert kb.types[0] == "PER"
    assert ("Annie", 0) in set(kb.names())


def test_names_may_be_shared_by_many(folder):
    entities = "".join(f"E{number}\tT\tname{number % 10}\n" for number in range(30))
    kb = tsv(folder, entities, "E1\tr\tE2\n")
    assert kb.problems.counts == {"ambiguous name": 10}
    assert kb.problems.examples["ambiguous name"][0] == f'{folder}/entities.tsv:11: "name0" is also a name of "E0"'
    assert len(list(kb.names())) == 30


def test_rare_combinations_of_types_are_taken_for_mistakes(folder):
    people = "".join(f"P{number}\tPER\tp{number}\n" for number in range(200))
    entities = people + "C\tPLACE\tc\nD\tDATE\td\nE\tORG\te\n"
    triples = "".join(f"P{number}\tborn\tC\n" for number in range(197)) + "P0\tborn\tD\nP0\tborn\tE\nP1\tborn\tE\n"
    kb = tsv(folder, entities, triples)
    person, place, date, organisation = (kb.numbers[id_] for id_ in ("P0", "C", "D", "E"))
    assert kb.allows(0, person, place)
    assert not kb.allows(0, person, date)  # 1 of 200
    assert kb.allows(0, person, organisation)  # 2 of 200
    assert not kb.compatible(person, date)


def test_a_relation_of_rare_combinations_only_allows_the_most_frequent(folder):
    entities = "".join(f"E{number}\tT{number}\te{number}\n" for number in range(150))
    triples = "".join(f"E{number}\tr\tE{number + 1}\n" for number in range(149)) + "E0\tr\tE0\n"
    kb = tsv(folder, entities, triples)
    assert kb.allows(0, 0, 0) and kb.allows(0, 3, 4)
    assert not kb.allows(0, 4, 3)


def test_relations_tsv_decides_for_the_relations_that_it_names(folder):
    kb = tsv(folder, relations="born\tPER\tPER\nborn\tPLACE\tPER\nwed\tPER\tPER\nnear\tPLACE\tX\nnear\tPLACE\n")
    person, place = 0, 1
    assert kb.allows(0, person, person) and kb.allows(0, place, person) and not kb.allows(0, person, place)
    assert kb.allows(2, person, place) and kb.allows(1, place, place)  # inferred
    assert kb.compatible(place, person)
    assert kb.problems.examples == {
        "unknown relation": [f'{folder}/relations.tsv:3: no triple has the relation "wed"'],
        "unknown type": [f'{folder}/relations.tsv:4: no entity is of type "X"'],
        "malformed line": [f"{folder}/relations.tsv:5: 2 columns where 3 are needed"],
    }


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("entities.tsv", "Q1\tPER\tAnn\nQ2 PER Bob\n", ":2: no tab in this line; separate id, type and names by tabs"),
        ("triples.tsv", "Q1,born,Q2\n", ":1: no tab in this line; separate head, relation and tail by tabs"),
        ("relations.tsv", "born\n", ":1: no tab in this line; separate relation, head_type and tail_type by tabs"),
        ("entities.tsv", b"Q1\tPER\tAnn\n\xff\n", ":2: not UTF-8 text; convert the file to UTF-8"),
        ("triples.tsv", TRIPLES.encode("utf-16"), ":1: not UTF-8 text; convert the file to UTF-8"),
        ("entities.tsv", "", ": no entities; each line needs id, type and names, separated by tabs"),
        ("entities.tsv", "id\ttype\tnames\n", ": no entities; each line needs id, type and names, separated by tabs"),
        ("triples.tsv", "\n", ": no triples; each line needs head, relation and tail, separated by tabs"),
        ("entities.tsv", None, ": no such file; a knowledge base has entities.tsv and triples.tsv"),
        ("triples.tsv", None, ": no such file; a knowledge base has entities.tsv and triples.tsv"),
    ],
)
def test_a_broken_table_is_refused(tmp_path, name, content, says):
    tsv(tmp_path)
    if content is None:
        (tmp_path / name).unlink()
    else:
        write(tmp_path / name, content)
    assert refusal(tmp_path) == f"{tmp_path / name}{says}"


def test_what_is_no_knowledge_base_is_refused(tmp_path):
    assert refusal(tmp_path / "none") == f"{tmp_path}/none: no such file or folder"
    assert refusal(tmp_path) == f"{tmp_path}: not a knowledge base; expected entities.tsv and triples.tsv, or .nt files"
    tsv(tmp_path)
    assert refusal(tmp_path / "triples.tsv").endswith(
        ": give the folder with entities.tsv and triples.tsv, not one of its files"
    )
    path = write(tmp_path / "kb.ttl", NT)
    assert refusal(path) == f"{path}: not a knowledge base; expected a folder, a .nt file or a .csv file"


def nt(path, *lines):
    return load(write(path / "kb.nt", NT + "".join(f"{line}\n" for line in lines)))


def e(name):
    return f"<http://x.org/{name}>"


@pytest.mark.parametrize(
    ("kind", "line", "says"),
    [
        ("blank node", f'_:b1 <{RDFS}label> "x" .', "a statement about a blank node is ignored"),
        ("blank node", f"{e('Q1')} {e('r')} _:b1 .", "a statement about a blank node is ignored"),
        ("blank node", f"{e('Q1')} {e('r')} _:b1.", "a statement about a blank node is ignored"),
        ("value, not an entity", f'{e("Q1")} {e("age")} "41" .', '"http://x.org/age" has a value, not an entity'),
        ("value, not an entity", f'{e("Q1")} <{RDF}type> "PER" .', f'"{RDF}type" has a value, not an entity'),
        ("empty field", f'{e("Q1")} <{RDFS}label> " "@en .', "the label is empty"),
        ("duplicate triple", f"{e('Q1')} {e('r/born')} {e('Q2')} .", "this triple is already listed"),
        ("duplicate triple", f"{e('Q1')} <{RDF}type> {e('t#PER')} .", "this type is already listed"),
        ("further type", f"{e('Q1')} <{RDF}type> <{OWL}Thing> .", 'an entity with several types; "PER" is used'),
        (
            "label or type of a type or relation",
            f'{e("t#PER")} <{RDFS}label> "person" .',
            '"person" is a type or relation',
        ),
        (
            "label or type of a type or relation",
            f"{e('r/born')} <{RDF}type> <{OWL}ObjectProperty> .",
            "the subject is a type or relation",
        ),
        (
            "unknown entity",
            f"{e('Q1')} {e('r/born')} {e('Q9')} .",
            '"http://x.org/Q9" is not an entity: it has neither a label nor a type, or is itself a type or relation',
        ),
        *(
            ("malformed line", line, "not an N-Triples statement: <subject> <predicate> <object> .")
            for line in (
                "x",
                f"{e('Q1')} {e('r')} {e('Q2')}",
                f"{e('Q1')} {e('r')} .",
                f"<Q1> {e('r')} {e('Q2')} .",
                f"{e('Q1')} {e('r')} {e('Q2')} . x",
                f'{e("Q1")} <{RDFS}label> "x .',
                rf'{e("Q1")} <{RDFS}label> "\x" .',
                rf'{e("Q1")} <{RDFS}label> "\ud800" .',
                rf'{e("Q1")} <{RDFS}label> "\U00110000" .',
                rf'{e("Q1")} <{RDFS}label> "\u12" .',
                f'"x" {e("r")} {e("Q2")} .',
                f"{e('Q1')} _:r {e('Q2')} .",
            )
        ),
    ],
)
def test_a_problem_in_n_triples_is_counted_and_named(folder, kind, line, says):
    kb = nt(folder, line)
    assert kb.problems.counts == {kind: 1}
    assert kb.problems.examples == {kind: [f"{folder}/kb.nt:13: {says}"]}
    assert kb.triples == 3
    assert list(kb.types) == ["PER", "PLACE", "PLACE"]
    assert len(list(kb.names())) == 4


def test_escapes_in_n_triples_are_read(folder):
    kb = nt(folder, rf'<http://x.org/\u00e9> <{RDFS}label> "\u00c9\U0001F600 \"q\"\\n\'s\t"@fr-CA .')
    assert kb.ids[3] == "http://x.org/é"
    assert ('É😀 "q"\\n\'s', 3) in set(kb.names())
    assert kb.types[3] == ""


def test_a_general_type_gives_way_wherever_it_stands(folder):
    kb = nt(
        folder,
        *(f"{e('Q4')} <{RDF}type> <{type_}> ." for type_ in (OWL + "Thing", OWL + "NamedIndividual", "urn:t:PER4")),
        f"{e('Q5')} <{RDF}type> <{OWL}Thing> .",
    )
    assert list(kb.types[3:]) == ["PER4", "Thing"]
    assert kb.problems.counts == {"further type": 2}


def test_relations_have_their_whole_iri_where_the_last_part_is_not_clear(folder):
    kb = nt(
        folder,
        f"{e('Q1')} <http://y.org#born> {e('Q3')} .",
        f"{e('Q1')} <http://y.org/lived/> {e('Q3')} .",
        f"{e('Q1')} <urn:y:NA> {e('Q3')} .",
        f"{e('Q1')} <urn:y:knew> {e('Q3')} .",
        f"{e('Q1')} <urn:y:met> {e('Q9')} .",
    )
    assert kb.relations == [
        "http://x.org/r/born",
        "near",
        "lives",
        "http://y.org#born",
        "http://y.org/lived/",
        "urn:y:NA",
        "knew",
    ]
    assert kb.relations_between(0, 2) == [3, 4, 5, 6]


def test_a_folder_of_n_triples_is_read_as_one_and_problems_name_the_file(tmp_path):
    lines = NT.splitlines(keepends=True)
    write(tmp_path / "a.nt", "".join(lines[:6]))
    write(tmp_path / "b.nt", "".join(lines[6:]) + lines[-1])
    write(tmp_path / "relations.tsv", "near\tPER\tPER\n")
    kb = load(tmp_path)
    assert kb.triples == 3
    assert kb.allows(1, 0, 0) and not kb.allows(1, 1, 2)
    assert kb.problems.examples == {"duplicate triple": [f"{tmp_path}/b.nt:7: this triple is already listed"]}


def test_n_triples_without_an_entity_are_refused(tmp_path):
    for content in ("", "# nothing\n", "\n", f"{e('a')} {e('b')} {e('c')} .\n", "<html>\n"):
        path = write(tmp_path / "kb.nt", content)
        assert refusal(path).startswith(f"{path}: no entities; lines such as")
    assert refusal(write(tmp_path / "kb.nt", b"#\n\xff\n")).startswith(f"{tmp_path}/kb.nt:2: not UTF-8 text")


def csv_kb(path, content):
    return load(write(path / "kb.csv", content))


def test_a_csv_without_names_or_types_takes_the_ids_as_names(folder):
    kb = csv_kb(folder, '\ufeffTail,Relation,Head,extra\r\nBonn,born,"Lee, Ann|x",1\r\n\r\nBonn,"lives\nin",Eve,2\r\n')
    assert list(kb.ids) == ["Lee, Ann|x", "Bonn", "Eve"]
    assert list(kb.names()) == [("Lee, Ann|x", 0), ("Bonn", 1), ("Eve", 2)]
    assert list(kb.types) == ["", "", ""]
    assert facts(kb) == {("Lee, Ann|x", "born", "Bonn"), ("Eve", "lives\nin", "Bonn")}
    assert kb.compatible(1, 2)
    assert kb.problems.total == 0


@pytest.mark.parametrize(
    ("kind", "row", "says"),
    [
        ("malformed line", "Q1,born", "2 columns where the header has 7"),
        ("empty field", "Q1,,Q2,PER,PLACE,Ann,Bonn", "the relation is empty"),
        ("empty field", "Q1,born,,PER,PLACE,Ann,Bonn", "the tail is empty"),
        ("empty field", "Q1,wed,Q2,PER,PLACE,,Bonn", "an entity has an empty name"),
        ('relation "NA"', "Q8,NA,Q9,PER,PLACE,Ann,Bonn", '"NA" means that there is no relation'),
        ("duplicate triple", "Q1,born,Q2,PER,PLACE,Ann Lee|A. Lee,Bonn", "this triple is already listed"),
        ("ambiguous name", "Q4,wed,Q2,PER,PLACE,Rhine,Bonn", '"Rhine" is also a name of "Q3"'),
        (
            "further type",
            "Q1,wed,Q2,X,PLACE,Ann Lee|A. Lee,Bonn",
            '"Q1" has another type above; its first type is used',
        ),
    ],
)
def test_a_problem_in_a_csv_is_counted_and_named(folder, kind, row, says):
    kb = csv_kb(folder, CSV + row + "\n")
    assert kb.problems.counts == {kind: 1}
    assert kb.problems.examples == {kind: [f"{folder}/kb.csv:5: {says}"]}
    assert set(kb.ids) <= {"Q1", "Q2", "Q3", "Q4"}
    assert kb.types[0] == "PER"


def test_a_type_may_come_later_in_a_csv(folder):
    kb = csv_kb(folder, "head,relation,tail,head_type\na,r,b,\na,r,c,PER\na,r,d,\n")
    assert list(kb.types) == ["PER", "", "", ""]
    assert kb.problems.total == 0


HUGE = "x" * 200_000


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", ':1: no column "head"; the header needs head, relation and tail, with commas'),
        ("head;relation;tail\n", ':1: no column "head"; the header needs head, relation and tail, with commas'),
        ("head,relation\n", ':1: no column "tail"; the header needs head, relation and tail, with commas'),
        ("head,head,relation,tail\n", ':1: two columns "head"; the header needs head, relation and tail, with commas'),
        ("head,relation,tail\n", ": no triples; each row needs head, relation and tail, separated by commas"),
        ('head,relation,tail\na,"r,b\n', ":2: not CSV (unexpected end of data); fix the quotes or line ends"),
        ('head,relation,tail\na,"r"x,b\n', """:2: not CSV (',' expected after '"'); fix the quotes or line ends"""),
        (
            f"head,relation,tail\na,{HUGE},b\n",
            ":2: not CSV (field larger than field limit (131072)); fix the quotes or line ends",
        ),
        (b"head,relation,tail\na,r,\xe9\n", ":2: not UTF-8 text; convert the file to UTF-8"),
    ],
)
def test_a_broken_csv_is_refused(tmp_path, content, says):
    path = write(tmp_path / "kb.csv", content)
    assert refusal(path) == f"{path}{says}"


def _cut(content, draw):
    return content[: draw.randrange(len(content) + 1)]


def _shuffled(content, draw):
    lines = content.splitlines(keepends=True)
    draw.shuffle(lines)
    return b"".join(lines)


def _bytes_inside(content, draw):
    at = draw.randrange(len(content) + 1)
    return content[:at] + draw.randbytes(draw.randrange(1, 6)) + content[at:]


def _without_a_column(content, draw):
    separator = draw.choice([b"\t", b",", b" "])
    return b"\n".join(line.rpartition(separator)[0] for line in content.split(b"\n"))


def _a_line_twice(content, draw):
    lines = content.splitlines(keepends=True)
    return content + draw.choice(lines) if lines else content


def _a_character_replaced(content, draw):
    at = draw.randrange(len(content) + 1)
    return (
        content[:at]
        + draw.choice([b"\t", b"\n", b'"', b"|", b",", b"\\", b"<", b" ", b"\r", b"\0"])
        + content[at + 1 :]
    )


def _a_huge_line(content, draw):
    return content + b"x\ty\t" * 1_000 + HUGE.encode() + b"\n" + content


CHANGES = [
    _cut,
    _shuffled,
    _bytes_inside,
    _without_a_column,
    _a_line_twice,
    _a_character_replaced,
    _a_huge_line,
    lambda content, draw: content.replace(b"\n", b"\r\n"),
    lambda content, draw: content.replace(b"\n", b"\r"),
    lambda content, draw: b"\xef\xbb\xbf" + content,
    lambda content, draw: content.decode("latin-1").encode("utf-16"),
    lambda content, draw: "Ä\té\tö\n".encode("latin-1") + content,
    lambda content, draw: b"",
]
CONTENTS = {
    "entities.tsv": ENTITIES,
    "triples.tsv": TRIPLES,
    "relations.tsv": "born\tPER\tPLACE\n",
    "kb.nt": NT,
    "kb.csv": CSV,
}
NOT_LINES = ("ambiguous name", "unknown relation", "unknown type")  # kinds of problems that cost no triple


@given(
    st.sampled_from(sorted(CONTENTS)),
    st.lists(st.sampled_from(CHANGES), min_size=1, max_size=3),
    st.integers(0, 2**32),
)
@settings(max_examples=600)
def test_whatever_befalls_a_file_it_is_loaded_or_refused_by_name(folder, name, changes, seed):
    draw = random.Random(seed)
    content = CONTENTS[name].encode()
    for change in changes:
        content = change(content, draw)
    path = folder / name
    try:
        if name.endswith(".tsv"):
            kb = tsv(
                folder,
                **{n.removesuffix(".tsv"): CONTENTS[n] for n in CONTENTS if n.endswith(".tsv")}
                | {name.removesuffix(".tsv"): content},
            )
        else:
            kb = load(write(path, content))
    except UserError as error:
        assert str(error).startswith(f"{path}:")
        assert "\n" not in str(error)
    else:
        check(kb)
        if name in ("triples.tsv", "kb.nt"):
            assert accounted(kb, name) == lines_of(content, name)


@given(st.sampled_from(sorted(CONTENTS)), st.binary(max_size=100))
@example("kb.csv", b"head,relation,tail\na,b,c\r\r\n")
@example("kb.nt", b"<a:b> <c:d> <e:f> .\x85")
def test_arbitrary_bytes_are_loaded_or_refused(folder, name, content):
    try:
        if name.endswith(".tsv"):
            check(tsv(folder, **{name.removesuffix(".tsv"): content}))
        else:
            check(load(write(folder / name, content)))
    except UserError as error:
        assert str(error).startswith(f"{folder / name}:")


def check(kb):
    assert len(kb.ids) == len(kb.types) == len(set(kb.ids)) == len(kb.numbers)
    assert all(kb.numbers[id_] == number for number, id_ in enumerate(kb.ids))
    assert all(name.strip() and 0 <= owner < len(kb.ids) for name, owner in kb.names())
    assert len(facts(kb)) == kb.triples
    assert all(kb.relations)
    assert {relation for _, relation, _ in facts(kb)} == set(kb.relations)
    for examples in kb.problems.examples.values():
        assert 1 <= len(examples) <= 5
        assert all("\n" not in example for example in examples)
    assert sorted(kb.problems.counts) == sorted(kb.problems.examples)


def lines_of(content, name):
    lines = [line for line in content.decode("utf-8-sig").split("\n") if line.strip()]
    if name == "kb.nt":
        return sum(not line.lstrip().startswith("#") for line in lines)
    return len(lines)


def accounted(kb, name):
    """Lines of which something was kept, and those that were counted as problems."""
    kept = kb.triples
    if name == "kb.nt":
        kept += len(list(kb.names())) + sum(map(bool, kb.types))
    return kept + sum(count for kind, count in kb.problems.counts.items() if kind not in NOT_LINES)


_field = st.sampled_from(["Q1", "Q2", "Q3", "Q4", "", " ", "NA", "born", "near"])
_row = st.lists(_field, min_size=2, max_size=4).map("\t".join)


@given(st.lists(_row, min_size=1, max_size=30))
def test_every_line_of_triples_is_a_triple_or_a_problem(folder, rows):
    rows = [row for row in rows if row.strip()] or ["Q1\tborn\tQ2"]
    kb = tsv(folder, triples="\n".join(rows))
    fields = [tuple(field.strip() for field in row.split("\t")) for row in rows]
    good = {
        (head, relation, tail)
        for head, relation, tail in (row for row in fields if len(row) == 3)
        if {head, tail} <= {"Q1", "Q2", "Q3"} and relation not in ("", "NA")
    }
    assert facts(kb) == good
    assert accounted(kb, "triples.tsv") == len(rows)


def test_the_same_file_gives_the_same_knowledge_base(folder):
    one, other = tsv(folder), tsv(folder)
    assert (list(one.ids), one.relations, facts(one), one.problems) == (
        list(other.ids),
        other.relations,
        facts(other),
        other.problems,
    )


def test_too_many_types_are_refused(folder, monkeypatch):
    monkeypatch.setattr(kbs, "MOST_COMBINATIONS", 11)
    with pytest.raises(UserError, match=r"entities\.tsv: 2 types with 3 relations are more than 64 bits"):
        tsv(folder)


def test_what_is_quoted_from_a_file_is_short_and_on_one_line():
    assert quoted('a "b"\nc') == r'"a \"b\"\nc"'
    assert quoted("x" * 100) == '"' + "x" * 60 + '…"'


# ------------------------------------------------------------------------------------------- what it says of facts


def test_the_name_of_an_entity_is_the_first_that_its_files_give(folder):
    kb = tsv(folder)
    assert [kb.name(number) for number in range(3)] == ["Ann Lee", "Bonn", "Rhine"]
    triples = write(folder / "kb.csv", "head,relation,tail\nQ1,born,Q2\n")
    assert [load(triples).name(number) for number in range(2)] == ["Q1", "Q2"]
    alternative = f'<http://x.org/Q1> <{SKOS}altLabel> "A. Lee" .\n'
    later = NT.replace("# people\n", f"# people\n{alternative}")
    assert load(write(folder / "kb.nt", later)).name(0) == "Ann Lee"


def test_the_objects_of_a_subject(folder):
    kb = tsv(folder)
    found = {(name, head): kb.objects(number, head) for number, name in enumerate(kb.relations) for head in range(3)}
    assert {key: objects for key, objects in found.items() if objects} == {
        ("born", 0): [1],
        ("lives", 0): [1],
        ("near", 1): [2],
    }


@pytest.mark.parametrize(("subjects", "with_two", "functional"), [(20, 1, True), (20, 2, False), (19, 0, False)])
def test_a_functional_relation_has_one_object_for_nearly_every_subject(folder, subjects, with_two, functional):
    entities = "".join(f"P{n}\tPER\tname {n}\n" for n in range(subjects + 2))
    triples = "".join(f"P{n}\tborn\tP{subjects}\n" for n in range(subjects))
    triples += "".join(f"P{n}\tborn\tP{subjects + 1}\n" for n in range(with_two))
    assert tsv(folder, entities, triples).functional == ({0} if functional else set())
