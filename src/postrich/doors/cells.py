"""CSV as spreadsheets write it: records and their cells, out of lines of text. Pure.

Quoted cells hold delimiters, quotes (doubled) and line ends. The first record tells whether
cells are parted by `,`, `;` or tabs. Python's own reader has one limit for the whole process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

_DELIMITERS = ",;\t"


class NotClosed(Exception):
    """A quote was opened and never closed: where the next record begins, nobody knows."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line


class Records:
    """The records of a file, each with the number of its first line.

    A line that is no text (None) stands as a sentence in place of its cells.
    """

    def __init__(self, lines: Iterable[tuple[int, str | None]], most: int) -> None:
        self._lines = iter(lines)
        self._most = most
        self.delimiter = ""

    def __iter__(self) -> Iterator[tuple[int, list[str] | str]]:
        for number, line in self._lines:
            if line is None:
                yield number, "not UTF-8 text, or too long"
            elif line.strip():
                yield number, self._record(number, line)

    def _record(self, number: int, line: str) -> list[str]:
        self.delimiter = self.delimiter or _delimiter_in(line)
        record = _Record(self.delimiter)
        size = 0
        while not record.feed(line):
            size += len(line)
            _, following = next(self._lines, (0, None))
            if following is None or size > self._most:
                raise NotClosed(number, "a quote is opened here and not closed: nothing more read")
            line = following
        return record.cells


class _Record:
    """One record as it fills up, line by line."""

    def __init__(self, delimiter: str) -> None:
        self.cells: list[str] = []
        self._delimiter = delimiter
        self._cell: list[str] = []
        self._is_quoted = False

    def feed(self, line: str) -> bool:
        """Take a line; whether the record is complete."""
        at = 0
        while True:
            if self._is_quoted:
                at = self._inside(line, at)
                if at < 0:
                    return False
            elif not self._cell and line.startswith('"', at):
                self._is_quoted, at = True, at + 1
            else:
                following = self._outside(line, at)
                if following is None:
                    return True
                at = following

    def _inside(self, line: str, at: int) -> int:
        """On to behind the next quote; -1 where there is none in this line."""
        end = line.find('"', at)
        self._cell.append(line[at:end] if end >= 0 else line[at:])
        if end < 0:
            return -1
        if line.startswith('"', end + 1):
            self._cell.append('"')
            return end + 2
        self._is_quoted = False
        return end + 1

    def _outside(self, line: str, at: int) -> int | None:
        """On to behind the next delimiter; None at the record's end."""
        end = line.find(self._delimiter, at)
        text = line[at:end] if end >= 0 else line[at:].rstrip("\r\n")
        self.cells.append("".join((*self._cell, text)))
        self._cell = []
        return end + 1 if end >= 0 else None


def _delimiter_in(header: str) -> str:
    """What parts the names of the first line."""
    return max(_DELIMITERS, key=header.count)


def is_excel_hint(cells: Sequence[str]) -> bool:
    """Whether that is the line (`sep=;`) by which Excel names the delimiter before all others."""
    return [cell.lower() for cell in cells] == ["sep=", ""]


def line_of_cells(cells: Sequence[str]) -> bytes:
    """One record as a line, quoted where it must be."""
    return ",".join(map(_quoted, cells)).encode() + b"\r\n"


def _quoted(cell: str) -> str:
    if cell != cell.strip() or any(char in cell for char in ',;\t"\r\n'):
        return '"' + cell.replace('"', '""') + '"'
    return cell
