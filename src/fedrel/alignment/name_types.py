"""What a name in an English sentence is of: a person, a place, an organisation, a work, an award, or unknown."""

from __future__ import annotations

from fedrel.alignment.known_names import (
    ANY,
    AWARD,
    EVENT,
    ORGANISATION,
    PERSON,
    PLACE,
    WORK,
    Word,
    is_near,
    known_names,
    without_article,
)


class TypedSentence:
    """A sentence and its words. Places are numbers of words; names are words[first:end]."""

    def __init__(self, text: str, words: list[Word]) -> None:
        self.text, self.words, self.known = text, words, known_names()

    def whole(self, first: int, end: int) -> str:
        """These words as they are written, without the article."""
        return without_article(self.text[self.words[first].start : self.words[end - 1].end])

    def is_work(self, first: int, end: int) -> bool:
        """Whether the words around a name are those around the title of a work."""
        words, cues, passed = self.words, self.known.cues, list[str]()
        for at in range(first - 1, max(-1, first - 5), -1):
            word = words[at]
            lower = word.text.lower()
            if lower in (cues["works"] if "in" not in passed else cues["acting"]):
                return True
            if (lower not in cues["skipped"] and lower != "in") or "." in word.gap:
                break
            passed.append(lower)
        after = [word.text.lower() for word in words[end : end + 7]]
        if after and after[0] in ("is", "was", "were", "are"):
            kinds = cues["works"] - cues["made"] - cues["acting"] - {"called", "author", "director", "play", "single"}
            return bool(cues["made"].intersection(after[:4]) or kinds.intersection(after[2:]))
        return False

    def type_of(self, first: int, end: int) -> str:
        """What the name is of."""
        looks = self.looks(first, end)
        around = self._around(first, end)
        if looks in (AWARD, EVENT):
            return looks
        types = self.known.types.get(self.whole(first, end), ())
        if len(types) > 1 or (types and around == WORK):
            return around if around in (*types, WORK) else types[0]
        if looks != ANY:
            return WORK if around == WORK and looks in (PERSON, ANY) and end - first != 2 else looks
        return around

    def looks(self, first: int, end: int) -> str:
        """The type that the words of the name betray."""
        words, known = self.words, self.known
        if listed := known.types.get(self.whole(first, end)):
            return listed[0]
        names = [word.text for word in words[first:end]]
        of = names.index("of") if "of" in names else len(names)
        person = len(names) > 1 and names[0] in known.given
        for word in (*reversed(names[person:of]), *names[of:]):
            type_ = known.betraying.get(word)
            if type_ and (len(names) > 1 or type_ == AWARD):
                return type_
        if first and words[first - 1].text in known.titles and is_near(words[first - 1]):
            return PERSON
        if names[0] in known.given and (len(names) > 1 or names[0] not in known.types):
            return PERSON
        if len(names) <= 4 and names[-1] in known.surnames and names[-1] not in known.types:
            return PERSON
        initials = [name for name in names[:-1] if len(name) == 1 and name.isupper()]
        if initials and len(names[-1]) > 1:
            return PERSON
        if len(names) == 1 and len(names[0]) in (2, 3, 4, 5) and names[0].isupper():
            return ORGANISATION
        if any(name in ("van", "von", "bin", "ibn") for name in names[1:-1]):
            return PERSON
        return ANY

    def _around(self, first: int, end: int) -> str:
        """The type that the words around the name betray."""
        words, cues = self.words, self.known.cues
        if self.is_work(first, end):
            return WORK
        before = [word.text.lower() for word in words[max(0, first - 6) : first]]
        after = [word.text.lower() for word in words[end : end + 2]]
        near = first and words[first - 1].gap.isspace()
        last = before[-1] if before and near else ""
        skipped = [word for word in before if word not in ("the", "a", "an")] if near else []
        if last in cues["in"] or (skipped and skipped[-1] in cues["in"] and before[-1] == "the"):
            return WORK if cues["acting"] & set(before) else PLACE
        if skipped and skipped[-1] in cues["houses"]:
            return ORGANISATION
        if last in cues["jobs"] or last in cues["kin"]:
            return PERSON
        if last in cues["settlements"] or (
            last == "of" and len(before) > 1 and before[-2] in cues["settlements"] - {"capital"}
        ):
            return PLACE
        comma = words[end - 1].gap.strip() == ","
        if comma and after[:1] == ["who"]:
            return PERSON
        if len(after) > 1 and after[0] in ("is", "was") and after[1] == "born":
            return PERSON
        return ANY
