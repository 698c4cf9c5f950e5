"""Sentences as pieces with markers: whatever happens to be cut, both entities stay where they are looked for."""

from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrel.config import Extractor
from fedrel.data.store import Split
from fedrel.encoding.pieces import ANY_TYPE, MARKERS, PieceEncoding, PieceShard
from fedrel.encoding.pretrained import weights_folder
from fedrel.errors import UserError
from tests.algorithms.tiny import tiny_bert

PLAIN = ["a", "the", "in", "aspirin", "x" * 12, "Ünïcode", "漢字", "it's"]
WORDS = [*PLAIN, "e\u0301", "", "\u200b", "\ud800", "[E1]", "[SEP]"]


@cache
def encoding(max_length=64, *, blind=False, pairs=True) -> PieceEncoding:
    if pairs and (max_length, blind) != (64, False):  # one tokenizer for all is quicker
        return PieceEncoding(encoding().tokenizer, max_length=max_length, blind=blind, pairs=True)
    settings_ = Extractor(kind="bert", weights=str(tiny_bert()), max_length=max_length, blind=blind)
    return PieceEncoding.of(settings_, pairs=pairs)


def split_of(sentences, spans, types=None) -> tuple[Split, list[str]]:
    """These sentences (lists of words) as a split, and its words."""
    named = [name for both in types or () for name in both if name]
    words = list(dict.fromkeys([word for sentence in sentences for word in sentence] + named))
    number = {word: place for place, word in enumerate(words)}
    count = len(sentences)
    split = Split(
        tokens=np.array([number[word] for sentence in sentences for word in sentence], dtype=np.int32),
        offsets=np.r_[0, np.cumsum([len(sentence) for sentence in sentences])].astype(np.int64),
        spans=np.array(spans, dtype=np.int32).reshape(-1, 4),
        labels=np.zeros(count, np.int32),
        pairs=np.arange(count, dtype=np.int32),
        sources=np.zeros(count, np.int32),
        expressed=np.full(count, -1, np.int8),
        pair_entities=np.zeros((count, 2), np.int32),
        types=types and np.array([[number[name] if name else -1 for name in both] for both in types], np.int32),
    )
    return split, words


def ids_of(shard) -> list[int]:
    """The tokenizer's numbers of all pieces."""
    ids: list[int] = shard.vocabulary[shard.tokens.numpy()].tolist()
    return ids


def packed(encoding_: PieceEncoding, sentences, spans, types=None) -> PieceShard:
    split, words = split_of(sentences, spans, types)
    rows = np.arange(len(sentences))
    return encoding_.pack(split, rows, np.arange(len(sentences) + 1), encoding_.numbers(words))


def one(encoding_: PieceEncoding, sentence, span, types=None) -> tuple[list[str], list[int]]:
    """The pieces of a sentence, and where head and tail are."""
    shard = packed(encoding_, [sentence], [span], None if types is None else [types])
    return encoding_.tokenizer.convert_ids_to_tokens(ids_of(shard)), shard.spans[0].tolist()


@st.composite
def sentences(draw, longest=40) -> tuple[list[str], tuple[int, int, int, int]]:
    """Words, with two entities anywhere: apart, side by side, at the ends, inside each other, or the same."""
    words = draw(st.lists(st.sampled_from(PLAIN) | st.sampled_from(WORDS), min_size=1, max_size=longest))

    def span() -> tuple[int, int]:
        start = draw(st.integers(0, len(words) - 1))
        return start, draw(st.integers(start + 1, len(words)))

    return words, (*span(), *span())


# ---------------------------------------------------------------------------------------------- any sentence at all


@settings(max_examples=400)
@given(sentences(), st.integers(16, 64), st.booleans())
def test_markers_and_entities_stay_in_every_sentence(sentence, max_length, blind):
    words, span = sentence
    pieces, place = one(encoding(max_length, blind=blind), words, span, ("drug", "") if blind else None)
    assert len(pieces) <= max_length
    assert (pieces[0], pieces[-1]) == ("[CLS]", "[SEP]")
    at = [pieces.index(marker) for marker in MARKERS]
    assert [pieces.count(marker) for marker in MARKERS] == [1, 1, 1, 1]
    assert place == [at[0] + 1, at[1], at[2] + 1, at[3]]  # exactly between the markers
    for begin, end in (place[:2], place[2:]):
        assert any(piece not in MARKERS for piece in pieces[begin:end]), "nothing is left of an entity"


@settings(max_examples=400)
@given(sentences(), st.booleans())
def test_markers_stand_like_brackets_unless_entities_overlap_halfway(sentence, blind):
    words, span = sentence
    pieces, _ = one(encoding(64, blind=blind), words, span)
    order = [piece for piece in pieces if piece in MARKERS]
    assert order.index("[E1]") < order.index("[/E1]")
    assert order.index("[E2]") < order.index("[/E2]")
    (a, b), (c, d) = sorted((span[:2], span[2:]))
    halfway = a < c < b < d
    inner_closes_first = {"[E1]": "[/E1]", "[E2]": "[/E2]"}
    if order[1] in inner_closes_first:
        assert (order[2] == inner_closes_first[order[1]]) is not halfway
    else:
        assert b <= c


@settings(max_examples=200)
@given(sentences())
def test_nothing_is_lost_where_it_fits(sentence):
    words, span = sentence
    roomy = encoding(8_000)
    pieces, _ = one(roomy, words, span)
    alone = [roomy.tokenizer.convert_ids_to_tokens(roomy._pieces[number]) for number in roomy.numbers(words)]
    assert [piece for piece in pieces[1:-1] if piece not in MARKERS] == [piece for word in alone for piece in word]
    room = len(pieces)
    if 16 <= room <= 64:
        assert one(encoding(room), words, span) == one(roomy, words, span)


@settings(max_examples=300)
@given(sentences(), st.integers(16, 40))
def test_what_is_cut_is_farthest_from_the_entities(sentence, max_length):
    words, span = sentence
    whole, at = one(encoding(8_000), words, span)
    cut, place = one(encoding(max_length), words, span)
    first, last = min(at[0], at[2]) - 1, max(at[1], at[3]) + 1  # the entities, all between them, and the markers
    kept_first, kept_last = min(place[0], place[2]) - 1, max(place[1], place[3]) + 1
    before, after = kept_first - 1, len(cut) - 1 - kept_last
    lost_before, lost_after = first - 1 - before, len(whole) - 1 - last - after
    assert cut[1:kept_first] == whole[first - before : first], "words before went from their far end"
    assert cut[kept_last:-1] == whole[last : last + after], "words behind went from their far end"
    if lost_before and lost_after:
        assert abs(before - after) <= 1
    if lost_before and not lost_after:
        assert before >= after - 1
    if lost_after and not lost_before:
        assert after >= before - 1
    if cut[kept_first:kept_last] != whole[first:last]:
        assert before == after == 0, "something between the entities went before something outside"
    if len(whole) > max_length:
        assert len(cut) == max_length, "more was cut than needed"


def test_words_between_go_from_their_middle_and_entities_last():
    words = ["a", *"bcdefghijklmnop", "q"]
    pieces, _ = one(encoding(16), words, (0, 1, 16, 17))
    assert pieces == ["[CLS]", "[E1]", "a", "[/E1]", *"bcde", *"mnop", "[E2]", "q", "[/E2]", "[SEP]"]
    pieces, place = one(encoding(16), ["x" * 30, "y" * 3], (0, 1, 1, 2))
    assert pieces[place[2] : place[3]] == ["y", "##y", "##y"]  # a short one is left whole
    assert pieces[place[0] : place[1]] == ["x", *["##x"] * 6]


@pytest.mark.parametrize(
    ("span", "expected"),
    [
        ((0, 1, 2, 3), "[E1] a [/E1] b [E2] c [/E2]"),
        ((2, 3, 0, 1), "[E2] a [/E2] b [E1] c [/E1]"),
        ((0, 1, 1, 3), "[E1] a [/E1] [E2] b c [/E2]"),  # side by side
        ((0, 3, 1, 2), "[E1] a [E2] b [/E2] c [/E1]"),  # inside
        ((1, 2, 0, 3), "[E2] a [E1] b [/E1] c [/E2]"),
        ((0, 1, 0, 3), "[E2] [E1] a [/E1] b c [/E2]"),  # inside, at its beginning
        ((0, 3, 0, 1), "[E1] [E2] a [/E2] b c [/E1]"),
        ((1, 3, 0, 3), "[E2] a [E1] b c [/E1] [/E2]"),  # inside, at its end
        ((0, 3, 1, 3), "[E1] a [E2] b c [/E2] [/E1]"),
        ((0, 3, 0, 3), "[E1] [E2] a b c [/E2] [/E1]"),  # the same words
        ((0, 2, 1, 3), "[E1] a [E2] b [/E1] c [/E2]"),  # halfway
    ],
)
def test_where_markers_stand(span, expected):
    assert one(encoding(), ["a", "b", "c"], span)[0] == ["[CLS]", *expected.split(), "[SEP]"]


# ---------------------------------------------------------------------------------------------- blinding


@pytest.mark.parametrize(
    ("span", "types", "expected"),
    [
        ((0, 1, 2, 3), ("in", "of"), "[E1] in [/E1] b [E2] of [/E2]"),
        ((0, 1, 2, 3), ("in", ""), "[E1] in [/E1] b [E2] ENTITY [/E2]"),
        ((0, 1, 2, 3), None, "[E1] ENTITY [/E1] b [E2] ENTITY [/E2]"),
        ((0, 3, 1, 2), ("in", "of"), "[E1] in [E2] of [/E2] [/E1]"),
        ((0, 1, 0, 3), ("in", "of"), "[E2] of [E1] in [/E1] [/E2]"),
        ((0, 2, 1, 3), ("in", "of"), "[E1] in [E2] of [/E1] [/E2]"),
    ],
)
def test_blinded_mentions_give_way_to_their_types(span, types, expected):
    blind = encoding(blind=True)
    entity = " ".join(blind.tokenizer.tokenize(ANY_TYPE))
    pieces, _ = one(blind, ["a", "b", "c"], span, types)
    assert pieces == ["[CLS]", *expected.replace("ENTITY", entity).split(), "[SEP]"]


def test_without_blinding_types_do_not_matter():
    assert one(encoding(), ["a", "b", "c"], (0, 1, 2, 3), ("in", "of")) == one(
        encoding(), ["a", "b", "c"], (0, 1, 2, 3)
    )


# ---------------------------------------------------------------------------------------------- words


def test_a_word_that_is_cut_to_nothing_still_holds_a_place():
    pieces, _ = one(encoding(), ["\u200b", "b", ""], (0, 1, 2, 3))
    assert pieces == ["[CLS]", "[E1]", "[UNK]", "[/E1]", "b", "[E2]", "[UNK]", "[/E2]", "[SEP]"]


def test_text_that_looks_like_a_marker_is_text():
    pieces, place = one(encoding(), ["[E1]", "[SEP]", "[PAD]", "c"], (3, 4, 0, 1))
    assert [pieces.count(it) for it in ("[E1]", "[SEP]", "[PAD]")] == [1, 1, 0]
    assert pieces[place[2] : place[3]] == ["[", "e", "##1", "]"]


def test_half_a_surrogate_pair_does_not_stop_a_run():
    assert one(encoding(), ["\ud83d", "b", "c"], (0, 1, 2, 3))[0][2] == "?"


@settings(max_examples=200)
@given(st.lists(st.text("abcXYZéß漢0189-.,'", min_size=1, max_size=8), min_size=2, max_size=12), st.data())
def test_plain_words_have_the_ids_of_the_whole_marked_text(words, data):
    """As if the tokenizer had read `a [E1] b [/E1] …` in one go."""
    a, b, c, d = sorted(data.draw(st.lists(st.integers(0, len(words)), min_size=4, max_size=4)))
    if a == b or c == d:
        return
    text = [*words[:a], "[E1]", *words[a:b], "[/E1]", *words[b:c], "[E2]", *words[c:d], "[/E2]", *words[d:]]
    for encoding_ in (encoding(8_000), minilm()):
        shard = packed(encoding_, [words], [(a, b, c, d)])
        whole = encoding_.tokenizer(" ".join(text), add_special_tokens=False)["input_ids"]
        assert ids_of(shard) == [encoding_.tokenizer.cls_token_id, *whole, encoding_.tokenizer.sep_token_id]


@cache
def minilm() -> PieceEncoding:
    return PieceEncoding.of(Extractor(kind="bert", max_length=512), pairs=True)


def test_plain_texts_have_no_markers_and_lose_their_end():
    encoding_ = encoding(16, pairs=False)
    pieces, place = one(encoding_, list("abcdefghijklmnopqrstuvwxyz"), (0, 0, 0, 0))
    assert pieces == ["[CLS]", *"abcdefghijklmn", "[SEP]"]
    assert place == [0, 0, 0, 0]
    assert not set(MARKERS) & set(encoding_.tokenizer.get_vocab())


# ---------------------------------------------------------------------------------------------- batches


@given(st.lists(sentences(longest=25), min_size=1, max_size=6), st.integers(16, 61))
@settings(max_examples=100)
def test_a_batch_is_padded_to_its_longest_and_no_more_than_eight_pieces_beyond(some, max_length):
    shard = packed(encoding(max_length), [words for words, _ in some], [span for _, span in some])
    chosen = torch.arange(len(some)).flip(0)
    batch = shard.sentences(chosen)
    longest = int(batch.lengths.max())
    assert longest <= batch.ids.shape[1] <= min(-(-longest // 8) * 8, max_length)
    for row, sentence in enumerate(chosen.tolist()):
        own = shard.tokens[shard.starts[sentence] : shard.starts[sentence + 1]].tolist()
        assert batch.ids[row].tolist() == own + [0] * (batch.ids.shape[1] - len(own))
        assert batch.spans[row].tolist() == shard.spans[sentence].tolist()


@given(st.lists(sentences(longest=25), min_size=1, max_size=6))
@settings(max_examples=20)
def test_a_batch_on_a_device_is_made_there_without_looking_at_a_number_of_it(some):
    """A device without memory has none to look at: asking it for one, as would make a GPU wait, fails."""
    here = packed(encoding(61), [words for words, _ in some], [span for _, span in some])
    there = here.at(torch.device("meta"))
    chosen = torch.arange(len(some)).flip(0)
    expected, batch = here.sentences(chosen), there.sentences(chosen)
    for name in ("sentences", "bag", "labels", "ids", "spans"):
        assert getattr(batch, name).device.type == "meta"
        assert getattr(batch, name).shape == getattr(expected, name).shape
        assert getattr(batch, name).dtype == getattr(expected, name).dtype
    assert batch.lengths.tolist() == expected.lengths.tolist()
    assert there.at(torch.device("cpu")).sentences(chosen).ids.tolist() == expected.ids.tolist()
    assert there.copies is here.copies, "copied once"


def test_a_shard_without_sentences_is_a_shard():
    split, words = split_of([["a", "b"]], [(0, 1, 1, 2)])
    shard = encoding().pack(split, np.zeros(0, np.int64), np.zeros(1, np.int64), encoding().numbers(words))
    assert (len(shard), shard.bags, list(shard.chunks()), shard.spans.shape) == (0, 0, [], (0, 4))


# ---------------------------------------------------------------------------------------------- there and back


def test_a_saved_encoding_reads_text_the_same_way(tmp_path):
    before = encoding()
    names = before.save(tmp_path)
    assert sorted(names) == sorted(f"encoder/{path.name}" for path in (tmp_path / "encoder").iterdir())
    settings_ = Extractor(kind="bert", weights="gone", max_length=64)
    after = PieceEncoding.load(tmp_path, settings_, pairs=True)
    assert len(after) == len(before)
    assert one(after, WORDS, (3, 5, 7, 8)) == one(before, WORDS, (3, 5, 7, 8))
    assert not any(str(tiny_bert()) in path.read_text() for path in (tmp_path / "encoder").iterdir())


def nowhere(*_, **__):
    raise ConnectionError("no network")


@pytest.mark.parametrize("name", ["nobody/no-such-model", "no-such-folder/at/all", "/no/such/folder", "a b", ""])
def test_weights_that_are_nowhere_are_refused_at_once(name, monkeypatch):
    monkeypatch.setattr("huggingface_hub.HfApi.model_info", nowhere)
    with pytest.raises(UserError, match="no such folder") as caught:
        weights_folder(name)
    assert f'extractor.weights = "{name}"' in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_name_that_the_hub_does_not_have_is_refused(monkeypatch):
    from huggingface_hub.errors import RepositoryNotFoundError

    def unknown(*_, **__):
        raise RepositoryNotFoundError.__new__(RepositoryNotFoundError)  # without the answer that it would hold

    monkeypatch.setattr("huggingface_hub.HfApi.model_info", unknown)
    monkeypatch.setattr("huggingface_hub.snapshot_download", unknown)
    with pytest.raises(UserError, match="no model of this name on the hub"):
        weights_folder("nobody/no-such-model")
