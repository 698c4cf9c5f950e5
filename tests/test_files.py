"""Files that grow while somebody reads them."""

from fedrel.files import Tail


def test_what_was_there_is_not_new_and_every_whole_line_comes_once(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"old\n")
    new = Tail(path)
    assert list(new.lines()) == []
    with path.open("ab") as file:
        file.write(b"one\ntwo\nthr")
    assert list(new.lines()) == [b"one\n", b"two\n"]
    assert list(new.lines()) == []
    with path.open("ab") as file:
        file.write(b"ee\n")
    assert list(new.lines()) == [b"three\n"]


def test_a_reader_that_stops_in_the_middle_goes_on_after_the_line_it_had(tmp_path):
    path = tmp_path / "log"
    new = Tail(path)
    path.write_bytes(b"one\ntwo\n")
    assert next(new.lines()) == b"one\n"
    assert list(new.lines()) == [b"two\n"]


def test_a_file_that_is_not_there_yet_is_read_from_its_beginning(tmp_path):
    new = Tail(tmp_path / "log")
    assert list(new.lines()) == []
    (tmp_path / "log").write_bytes(b"one\n")
    assert list(new.lines()) == [b"one\n"]
