import pytest

from ottla.cli.support.output import count, print_table, write_bytes


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr("ottla.cli.support.output.is_terminal", lambda stream: True)


def test_in_a_pipe_a_row_is_a_line_whatever_its_length(capsys):
    print_table(["topic", "n"], [["x" * 300, "1"], ["y", "22"]], right=["n"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [["topic", "n"], ["x" * 300, "1"], ["y", "22"]]
    assert len(lines[1]) == len(lines[2])  # numbers end in the same column


def test_on_a_terminal_long_cells_are_wrapped_and_nothing_is_lost(capsys, terminal):
    print_table(["topic", "n"], [["x" * 100, "1"]], right=["n"])
    out = capsys.readouterr().out
    assert out.count("x") == 100
    assert max(map(len, out.splitlines())) <= 40


def test_a_table_without_rows_has_its_headings(capsys):
    print_table(["topic", "n"], [])
    assert capsys.readouterr().out == "topic  n\n"


@pytest.mark.parametrize(("number", "text"), [(0, "0 records"), (1, "1 record"), (1204, "1,204 records")])
def test_numbers_come_with_the_right_noun(number, text):
    assert count(number, "record") == text


def test_data_is_written_in_full_by_a_stream_that_takes_only_pieces(monkeypatch):
    taken = bytearray()

    class Stingy:
        def write(self, data):
            taken.extend(data[:3])
            return min(3, len(data))

        def flush(self):
            pass

    monkeypatch.setattr("sys.stdout", type("Stream", (), {"buffer": Stingy()}))
    write_bytes(b"0123456789")
    assert taken == b"0123456789"
