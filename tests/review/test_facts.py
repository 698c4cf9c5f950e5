"""Facts and their documents on the page: filters, skipping, other relations, several reviewers, taking answers away."""

import json
import re
from dataclasses import replace
from html import unescape

import pytest

from fedrel.alignment import kb as knowledge
from fedrel.errors import UserError
from fedrel.feedback import tools
from fedrel.feedback.store import RIGHT, UNKNOWN, WRONG, Store
from fedrel.pages.markdown import rendered
from fedrel.review.ending import improving
from fedrel.review.questions import of_facts
from fedrel.review.queue import Queue, Standing, Wanted
from tests.instances import write
from tests.review.browser.small_platform import Visitor, queue_of, save, sentences, serving, write_data
from tests.review.small_facts import AFTER, BEFORE, SAID, facts, queue_of_facts, write_facts, write_kb


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "verdicts.sqlite") as opened:
        yield opened


@pytest.fixture
def visitor(store):
    with serving(queue_of_facts(), store, order="uncertain") as address:
        yield Visitor(address)


def told(store: Store) -> list[tuple[str, str, str | None]]:
    return [(it.user, it.verdict, it.corrected) for it in store.standing() if not it.decides]


def picks(page) -> list[str]:
    return [unescape(it) for it in re.findall(r'class="pick" name="corrected" value="([^"]*)"', page.text)]


# ---------------------------------------------------------------------------------------- what is asked


def test_sentences_of_facts_are_shown_in_their_documents(visitor):
    page = visitor.get("/?order=confident")
    assert page.sentence == SAID[0][3]
    assert "93% sure" in page.words
    assert f'<span class="context">{BEFORE}</span><blockquote' in page.text
    assert '<span class="context"> Nothing &lt;b&gt;else&lt;/b&gt; is known.' in page.text and AFTER not in page.text
    assert 'in <a href="/?order=confident&amp;document=archive+0.txt">' in page.text
    assert "Other sentences with these two (1)" in page.text


def test_what_types_forbid_is_no_question(tmp_path):
    base = knowledge.load(write_kb(tmp_path / "kb"))
    questions = of_facts(facts(), "m1", relations=["NA", "born_in", "spouse_of"], kb=base)
    asked = {"".join(text for _, text in questions.texts.parts(it.row)) for it in questions.items}
    assert asked == {it[3] for it in SAID[:5]}
    assert questions.impossible == 1, "Kiel was not born in Tom Reed"
    queue = Queue(questions)
    [tom] = [it for it in queue.items if it.relation == "lives_in" and it.confidence > 0.5]
    assert queue.instead(tom) == (["born_in", "founder_of", "works_for"], ["spouse_of"])
    assert {it.relation for it in queue.items if it.new} == {"works_for", "founder_of", "lives_in"}
    assert not tom.new


def test_types_of_a_platforms_data(tmp_path):
    """Every prediction of this model is one of three relations; of these, the knowledge base allows one or none."""
    data = write_data(tmp_path / "data")
    model = save(data, tmp_path / "model")
    free = queue_of(data, model)
    folder = tmp_path / "kb"
    folder.mkdir()
    texts = free.texts
    ends = [texts.entities(it.row) for it in free.items]
    people, places = {head for head, _ in ends}, {tail for _, tail in ends}
    (folder / "entities.tsv").write_text(
        "".join(f"{it}\tperson\t{it}\n" for it in people) + "".join(f"{it}\tplace\t{it}\n" for it in places)
    )
    head, tail = ends[0]
    (folder / "relations.tsv").write_text(
        "born_in\tperson\tplace\n/people/person/place_lived\tplace\tperson\n" + 'works<"at">\tplace\tplace\n'
    )
    (folder / "triples.tsv").write_text(
        f'{head}\tborn_in\t{tail}\n{tail}\t/people/person/place_lived\t{head}\n{tail}\tworks<"at">\t{tail}\n'
    )
    typed = queue_of(data, model, kb=knowledge.load(folder))
    assert {it.relation for it in free.items} != {"born_in"}, "else there is nothing to see"
    assert {it.relation for it in typed.items} == {"born_in"}
    for item in typed.items:
        assert typed.instead(item)[1] == ["/people/person/place_lived", 'works<"at">']


def test_types_that_the_data_tells(tmp_path):
    """Every second sentence joins a person and a place, the others two places; train has each relation once."""
    kinds = [("born_in", "person", "place"), ("/people/person/place_lived", "place", "place")]
    for split in ("train", "dev", "test"):
        made = []
        for n, it in enumerate(sentences(split if split != "train" else "")):
            relation, head, tail = kinds[n % 2]
            made.append(
                replace(
                    it,
                    relation=relation if n < 20 else "NA",
                    head=replace(it.head, id=f"{split}h{n}", type=head),
                    tail=replace(it.tail, id=f"{split}t{n}", type=tail),
                )
            )
        write(tmp_path / "data" / f"{split}.jsonl", made)
    queue = queue_of(tmp_path / "data", save(tmp_path / "data", tmp_path / "model"))
    texts = queue.texts
    assert len(queue.items) > 20
    for item in queue.items:
        assert texts.allows(item.row, item.relation)
        assert len(queue.instead(item)[0]) == 0 and len(queue.instead(item)[1]) == 1
    assert {it.relation for it in queue.items} == {name for name, _, _ in kinds}


def test_a_fact_whose_names_are_not_in_its_sentence_is_refused():
    [fact, *_] = facts()
    broken = fact.support[0].__class__("a.txt", 0, "Ann.", (0, 3), (90, 99), 0.5)
    with pytest.raises(UserError, match=r"lie outside its sentence in a\.txt; extract the facts again"):
        of_facts([fact.__class__(*[*(getattr(fact, it) for it in fact.__slots__[:8]), (broken,)])], "m")


# ---------------------------------------------------------------------------------------- filters


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (Wanted(), range(6)),
        (Wanted(relation="lives_in"), {2, 3}),
        (Wanted(words="LEE lyon"), {0, 3}),
        (Wanted(words="founder"), {4}),  # of the relation
        (Wanted(words="nobody"), ()),
        (Wanted(least=0.6), {0, 2, 5}),
        (Wanted(most=0.5), {3, 4}),
        (Wanted(least=0.5, most=0.6), {1}),
        (Wanted(document="archive 1.txt"), {1, 4}),
        (Wanted(entity="Kiel"), {2, 5}),
        (Wanted(entity="Kiel", relation="born_in"), {5}),
    ],
)
def test_filters(wanted, found):
    queue, standing = queue_of_facts(), Standing([], "anna")
    assert {it.row for it in queue.wanted("uncertain", "anna", standing, wanted)} == set(found)
    assert queue.progress(standing, "anna", "uncertain", wanted).of == len(set(found))
    assert Wanted.of(wanted.fields()) == wanted


def test_a_filter_stays_until_it_is_taken_away(visitor, store):
    page = visitor.get("/?order=uncertain&q=ann+lee&relation=&least=0&most=1")
    assert "0 of 2 judged" in page.words and "“ann lee”" in page.words
    page = visitor.judge(page, RIGHT)
    assert "1 of 2 judged" in page.words
    page = visitor.send("/undo", page.form("/undo"))
    page = visitor.judge(visitor.judge(page, RIGHT), RIGHT)
    assert "Nothing left to judge here" in page.text and "Take a filter away above" in page.text
    [chip] = re.findall(r'<p class="chips">\s*<a href="([^"]*)"', page.text)
    assert "2 of 6 judged" in visitor.get(unescape(chip)).words


@pytest.mark.parametrize(
    "query", ["least=x&most=-1", "least=nan", "q=%00", "relation=%3Cb%3E", "document=../..", "q=" + "a" * 999]
)
def test_filters_with_nonsense_are_harmless(visitor, query):
    assert visitor.get(f"/?{query}").status == 200


# ---------------------------------------------------------------------------------------- answers


def test_skipping_records_nothing_and_the_question_comes_last(visitor, store):
    first = visitor.get()
    second = visitor.send("/skip", first.form("/skip"))
    assert "Skipped, and nothing recorded." in second.text and second.sentence != first.sentence
    assert told(store) == []
    page, seen = visitor.send("/skip", second.form("/skip")), []
    while page.sentence not in (first.sentence, second.sentence):
        seen.append(page.sentence)
        page = visitor.judge(page, RIGHT)
    assert len(set(seen)) == 4 and "skipped before" in page.text
    assert page.sentence == first.sentence, "in the order in which they were skipped"
    assert visitor.send("/skip", page.form("/skip")).sentence == second.sentence
    assert len(told(store)) == 4
    assert visitor.post("/skip", page.form("/skip") | {"form": "x"}).status == 403
    assert visitor.post("/skip", page.form("/skip") | {"prediction": "99"}).status == 303


def test_another_relation(visitor, store):
    page = visitor.get("/?order=confident")
    assert picks(page) == ["died_in", "lives_in", "founder_of", "works_for"]
    assert page.text.index("Unusual between such entities") > page.text.index('value="lives_in"')
    after = visitor.send("/verdict", page.form("/verdict") | {"corrected": "lives_in"})
    assert told(store) == [("anna", WRONG, "lives_in")]
    assert after.sentence != page.sentence
    back = visitor.send("/undo", after.form("/undo"))
    assert back.sentence == page.sentence and told(store) == []
    for nonsense in ("NA", "nonsense", "born_in ", ""):
        assert visitor.post("/verdict", back.form("/verdict") | {"corrected": nonsense}).status == 400
    assert visitor.post("/verdict", back.form("/verdict") | {"corrected": "born_in"}).status == 503
    assert told(store) == []


def given(store: Store, queue: Queue, user: str, *verdicts: str) -> None:
    """Verdicts of a reviewer on the surest questions."""
    for item, verdict in zip(queue.wanted("confident", user, Standing([], user)), verdicts, strict=False):
        store.give(store.show(item.key, item.relation, item.confidence, queue.digest), user, verdict)


def test_what_counts_is_what_the_decision_says(store, tmp_path, fedrel):
    queue = queue_of_facts()
    with serving(queue, store, user="carl") as address:
        carl = Visitor(address)
        given(store, queue, "anna", RIGHT, WRONG, UNKNOWN)
        assert "Reviewers disagree on" not in carl.get().words
        given(store, queue, "bert", WRONG, WRONG, RIGHT)
        assert "Reviewers disagree on 1: decide." in carl.get().words
        page = carl.get("/?order=disputed")
        assert "Reviewers disagree. You decide" in page.words and "0 of 1 decided" in page.words
        assert page.sentence == SAID[0][3]
        assert "anna: right bert: wrong" in page.words
        assert "1 prediction; 1 without a decision" in carl.get("/agreement").words
        decided = page.form("/verdict") | {"corrected": "died_in"}
        page = carl.send("/verdict", decided)
        assert "Nothing left to decide here" in page.text and "1 of 1 decided" in page.words
        assert "1 prediction; 0 without a decision" in carl.get("/agreement").words
        assert {user for user, *_ in told(store)} == {"anna", "bert"}, "it is no verdict of a reviewer"
        page = carl.send("/undo", page.form("/undo"))
        assert page.sentence == SAID[0][3]
        carl.send("/verdict", page.form("/verdict") | {"corrected": "died_in"})
    file = write_facts(tmp_path / "facts.jsonl")
    fedrel("feedback", "judged", store.path, file, tmp_path / "judged.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "judged.jsonl").read_text().splitlines()]
    found = {" ".join(it["token"])[:7]: (it["relation"], it["expressed"]) for it in rows}
    assert found == {"Ann Lee": ("died_in", True), "Since t": ("lives_in", False), "Kiel is": ("born_in", True)}
    assert rows[0]["h"]["pos"] == [0, 2] and rows[0]["t"]["name"] == "Lyon"


def test_agreement_on_the_page_and_at_the_command_line(store, fedrel):
    queue = queue_of_facts()
    with serving(queue, store) as address:
        visitor = Visitor(address)
        assert "nothing can be said of agreement" in visitor.get("/agreement").words
        given(store, queue, "anna", RIGHT, WRONG, RIGHT, RIGHT)
        given(store, queue, "<bert>", RIGHT, WRONG, WRONG, RIGHT)
        words = visitor.get("/agreement").words
    assert "0.53 Krippendorff’s α of 2 reviewers, on 4 predictions" in words  # 1 − 7·2/30
    assert "<bert>,anna475%0.50moderate" in words.replace(" ", "")
    said = json.loads(fedrel("feedback", "agreement", store.path, "--json").out)
    assert said["alpha"] == pytest.approx(1 - 14 / 30) and said["open"] == 1
    assert said["pairs"] == [{"users": ["<bert>", "anna"], "both": 4, "same": 3, "kappa": 0.5}]
    table = fedrel("feedback", "agreement", store.path).out
    assert "Krippendorff's α 0.53 on 4 predictions." in table and "<bert>, anna" in table
    assert "1 disagreements, 1 to decide: fedrel review … --order disputed" in table


# ---------------------------------------------------------------------------------------- beside the questions


def test_guidelines_and_the_command_at_the_end(store, tmp_path):
    command = improving(tmp_path / "my model", tmp_path / "v.sqlite", tmp_path / "clinic")
    with serving(
        queue_of_facts(), store, guidelines=rendered("# Rules\n\n<script>x</script>"), ending=command
    ) as address:
        page = Visitor(address).get()
    assert page.text.count("<h3>Rules</h3>") == 2, "beside the question, and folded on narrow screens"
    assert page.text.count("&lt;script&gt;x&lt;/script&gt;") == 2
    assert f"fedrel improve '{tmp_path}/my model' --verdicts {tmp_path}/v.sqlite --data {tmp_path}/clinic" in page.words


def test_taking_answers_away(visitor, store, tmp_path):
    visitor.judge(visitor.get("/?order=confident"), RIGHT)
    links = [unescape(it) for it in re.findall(r'href="(/export[^"]*)"', visitor.get("/?order=confident&q=lee").text)]
    found = {re.findall(r"form=([\w-]+)", it)[0]: visitor.get(it) for it in links}
    assert [it.status for it in found.values()] == [200] * 4
    assert json.loads(found["jsonl"].text)["verdict"] == RIGHT and "Lyon" not in found["jsonl"].text
    tasks = json.loads(found["label-studio"].text)
    assert [it["data"]["text"] for it in tasks] == [SAID[0][3]], "what is filtered"
    assert [len(it["annotations"]) for it in tasks] == [1]
    assert '<Choice value="died_in"/>' in found["interface"].text
    assert "attachment" in found["argilla"].headers["Content-Disposition"]
    (tmp_path / "a.json").write_text(found["argilla"].text)
    with Store.open(tmp_path / "other.sqlite") as other:
        assert tools.load(other, tmp_path / "a.json", "argilla") == 1
    assert visitor.get("/export?form=xlsx").status == 404


def send_file(visitor, name, content, of, **changes):
    """The form of the page with a file, as a browser sends it."""
    fields = visitor.get().form("/import") | {"of": of} | changes
    parts = [f'form-data; name="{key}"\r\n\r\n{value}' for key, value in fields.items()]
    parts.append(f'form-data; name="file"; filename="{name}"\r\nContent-Type: application/json\r\n\r\n{content}')
    body = "".join(f"--limit\r\nContent-Disposition: {it}\r\n" for it in parts) + "--limit--\r\n"
    return visitor.ask("POST", "/import", body, Content_Type="multipart/form-data; boundary=limit")


@pytest.mark.parametrize("of", ["jsonl", "argilla", "label-studio"])
def test_answers_come_back_from_a_file(visitor, store, tmp_path, of):
    with Store.open(tmp_path / "other.sqlite") as other, serving(queue_of_facts(), other, user="bert") as there:
        colleague = Visitor(there)
        page = colleague.judge(colleague.get("/?order=confident"), RIGHT)
        colleague.judge(page, WRONG)
        file = colleague.get(f"/export?form={of}").text
        shown = [(it.key, it.relation, it.user, it.verdict) for it in other.standing()]
    answer = send_file(visitor, "answers.json", file, of)
    assert answer.status == 303
    page = visitor.get(answer.headers["Location"])
    assert "Imported: 2 rows." in page.words
    assert [(it.key, it.relation, it.user, it.verdict) for it in store.standing()] == shown
    again = send_file(visitor, "answers.json", file, of)
    assert "Nothing new" in visitor.get(again.headers["Location"]).words


@pytest.mark.parametrize(
    ("content", "of", "status", "sentence"),
    [
        ('{"id": 1}\n', "jsonl", 422, 'answers.json:1: "key" is missing. Nothing was imported.'),
        ("[", "argilla", 422, "answers.json: not JSON in UTF-8; export it again. Nothing was imported."),
        ("{}", "xlsx", 400, "not made by this page"),
    ],
)
def test_a_file_that_is_none_of_ours_changes_nothing(visitor, store, content, of, status, sentence):
    answer = send_file(visitor, "answers.json", content, of)
    assert answer.status == status and sentence in answer.words
    assert list(store.history()) == []


def test_a_file_from_elsewhere_is_refused(visitor, store):
    line = '{"id": 1}'
    assert send_file(visitor, "a.jsonl", line, "jsonl", form="0" * 64).status == 403
    assert send_file(visitor, "", line, "jsonl").status == 400, "no file was chosen"
    fields = visitor.get().form("/import")
    assert visitor.post("/import", fields | {"of": "jsonl"}).status == 400
    for body in ("", "--limit", "--limit\r\n\r\n--limit--", "x" * 1_000):
        assert visitor.ask("POST", "/import", body, Content_Type="multipart/form-data; boundary=limit").status == 400
    assert list(store.history()) == []


def test_with_a_token_nothing_is_taken_away_without_it(store):
    with serving(queue_of_facts(), store, token="a long enough token") as address:
        visitor = Visitor(address)
        body = "--limit--\r\n"
        answer = visitor.ask("POST", "/import", body, Content_Type="multipart/form-data; boundary=limit")
        assert answer.status in (400, 403) and list(store.history()) == []
        for path in ("/agreement", "/export?form=jsonl", "/export?form=label-studio"):
            answer = visitor.get(path)
            assert answer.status == 401 and "Lyon" not in answer.text


# ---------------------------------------------------------------------------------------- the command


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ([], "name what to review"),
        (["facts.jsonl", "--data", "x", "--model", "m"], "review either a data set or facts.jsonl"),
        (["--data", "x"], "name the model whose predictions are judged"),
        (["facts.jsonl", "--purpose", "dev"], "about the held-out sentences of a data set"),
        (["facts.jsonl", "--guidelines", "none.md"], "none.md: No such file"),
        (["none.jsonl"], "none.jsonl: No such file"),
    ],
)
def test_what_cannot_be_is_refused(refused, options, sentence):
    assert sentence in refused("review", *options, "--port", 0)


def test_files_for_tools_at_the_command_line(store, tmp_path, fedrel, refused):
    file = write_facts(tmp_path / "facts.jsonl")
    for item in queue_of_facts().items:
        store.give(store.show(item.key, item.relation, item.confidence, "m1"), "anna", RIGHT)
    out = tmp_path / "tasks.json"
    said = fedrel("feedback", "export", store.path, out, "--to", "label-studio", "--data", file).out
    assert said == f"6 questions in {out}; their labelling interface in {tmp_path}/tasks.xml\n"
    assert len(json.loads(out.read_text())) == 6
    assert "6 rows added" in fedrel("feedback", "import", tmp_path / "new.sqlite", out, "--from", "label-studio").out
    assert "name what was judged with --data" in refused("feedback", "export", store.path, out, "--to", "argilla")
