"""A knowledge base under construction, filled by the readers of the file formats."""

from array import array
from pathlib import Path

from fedrel.alignment.problems import Problems, quoted
from fedrel.alignment.string_table import Strings
from fedrel.corpus import NA

MALFORMED = "malformed line"
EMPTY = "empty field"
UNKNOWN_ENTITY = "unknown entity"
DUPLICATE = "duplicate triple"
LISTED_TWICE = "entity listed twice"
NO_RELATION = f'relation "{NA}"'
FURTHER_TYPE = "further type"


class Draft:
    """Entities, relations and types are numbered in order of appearance. Numbers are stored in arrays, since a list of
    ten million takes four times the memory.

    A `place` is a file and a line in one number; `file_and_line` decodes it.
    """

    def __init__(self) -> None:
        self.problems = Problems()
        self.files: list[Path] = []
        self.numbers: dict[str, int] = {}  # of the entities, by id
        self.type_numbers: dict[str, int] = {}
        self.type_of = array("i")  # by entity
        self.names = Strings()
        self.name_owners = array("i")  # entity of each name
        self.name_places = array("q")
        self.relations: dict[str, int] = {}
        self.pairs = array("q")  # head << 32 | tail of each triple
        self.relation_of = array("i")
        self.places = array("q")
        self.constraints: set[tuple[int, int, int]] = set()  # (relation, head type, tail type), those given in a file

    def begin(self, path: Path) -> int:
        """Registers a file; the place of one of its lines is the number returned here plus the line number."""
        self.files.append(path)
        return (len(self.files) - 1) << 32

    def file_and_line(self, place: int) -> tuple[Path, int]:
        """The file and the line of a place."""
        return self.files[place >> 32], place & 0xFFFFFFFF

    def add_entity(self, id_: str, type_: str) -> int:
        """Adds an entity that is not known yet; returns its number."""
        number = self.numbers[id_] = len(self.numbers)
        self.type_of.append(self.type_numbers.setdefault(type_, len(self.type_numbers)))
        return number

    def add_name(self, entity: int, name: str, place: int) -> None:
        """Adds a name of an entity, found at this place."""
        self.names.append(name)
        self.name_owners.append(entity)
        self.name_places.append(place)

    def add_names(self, entity: int, names: str, place: int) -> None:
        """Adds names separated by `|`; an empty one is recorded as a problem."""
        for name in map(str.strip, names.split("|")):
            if name:
                self.add_name(entity, name, place)
            else:
                self.problems(EMPTY, *self.file_and_line(place), "an entity has an empty name")

    def add_triple(self, head: str, relation: str, tail: str, place: int) -> None:
        """Adds a triple of ids, or records a problem: an empty field, the relation "NA", or an unknown entity."""
        if not (head and relation and tail):
            missing = "head" if not head else "relation" if not relation else "tail"
            self.problems(EMPTY, *self.file_and_line(place), f"the {missing} is empty")
        elif relation == NA:
            self.problems(NO_RELATION, *self.file_and_line(place), f'"{NA}" means that there is no relation')
        elif head not in self.numbers or tail not in self.numbers:
            unknown = tail if head in self.numbers else head
            self.problems(UNKNOWN_ENTITY, *self.file_and_line(place), f"{quoted(unknown)} is not among the entities")
        else:
            self.pairs.append(self.numbers[head] << 32 | self.numbers[tail])
            self.relation_of.append(self.relations.setdefault(relation, len(self.relations)))
            self.places.append(place)
