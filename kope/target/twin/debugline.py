"""Finds the source line of an instruction in an executable's DWARF line table (versions 4 and 5).

Small and read-only: it serves reports of crashes, where no binutils need be installed. Wrong or missing debug data
gives no line, never an error.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath

_SHF_COMPRESSED = 0x800
_SECTIONS = (".debug_line", ".debug_line_str", ".debug_str")


def line_of(executable: Path, address: int, source: str) -> int:
    """Return the line of `source` (a file name) at an address of the unloaded executable, 0 when there is none."""
    return place_of(executable, address, (source,))[1]


def place_of(executable: Path, address: int, sources: Collection[str]) -> tuple[str, int]:
    """Return which of `sources` (file names) and which of its lines is at an address, ("", 0) when none is."""
    try:
        sections = _sections(executable.read_bytes())
        data = sections.get(".debug_line", b"")
        for unit in _units(data):
            found = _Program(data, unit, sections).find(address, sources)
            if found[1]:
                return found
    except (OSError, ValueError, IndexError, KeyError, struct.error, zlib.error):
        pass
    return "", 0


def _sections(data: bytes) -> dict[str, bytes]:
    if data[:6] != b"\x7fELF\x02\x01":
        return {}
    offset = struct.unpack_from("<Q", data, 0x28)[0]
    entry_size, count, names_at = struct.unpack_from("<HHH", data, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, offset + index * entry_size) for index in range(count)]
    names = headers[names_at][4]
    found = {}
    for header in headers:
        name = _text(data, names + header[0])
        if name in _SECTIONS:
            content = data[header[4] : header[4] + header[5]]
            found[name] = zlib.decompress(content[24:]) if header[2] & _SHF_COMPRESSED else content
    return found


def _text(data: bytes, offset: int) -> str:
    return data[offset : data.index(b"\0", offset)].decode("utf-8", "replace")


def _units(data: bytes) -> Iterator[tuple[int, int]]:
    """Start and end of each unit's contents, 32-bit DWARF only."""
    position = 0
    while position + 4 <= len(data):
        (length,) = struct.unpack_from("<I", data, position)
        if length >= 0xFFFFFFF0:
            return
        yield position + 4, position + 4 + length
        position += 4 + length


@dataclass(slots=True)
class _Row:
    address: int
    file: int
    line: int


class _Program:
    """One unit: its header, and the state machine that unrolls its rows."""

    def __init__(self, data: bytes, unit: tuple[int, int], sections: Mapping[str, bytes]) -> None:
        self._data = data
        self._at, self._end = unit
        self._sections = sections
        self._version = self._fixed(2)
        if self._version not in (4, 5):
            raise ValueError("unknown version of the line table")
        if self._version == 5:
            self._at += 2  # address and segment selector sizes
        self._begin = self._fixed(4)
        self._begin += self._at
        self._step = self._fixed(1)
        self._at += 2  # operations per instruction, default of is_stmt
        self._line_base = struct.unpack_from("<b", data, self._at)[0]
        self._at += 1
        self._line_range = self._fixed(1)
        self._opcode_base = self._fixed(1)
        self._operands = [self._fixed(1) for _ in range(self._opcode_base - 1)]
        self._files = self._read_files()

    def find(self, address: int, sources: Collection[str]) -> tuple[str, int]:
        """Return file and line of the row that covers the address, ("", 0) when this unit has none of `sources`."""
        if not set(sources) & set(self._files):
            return "", 0
        self._at = self._begin
        before: _Row | None = None
        for row in self._rows():
            covered = before and row and before.address <= address < row.address
            if before and covered and self._files[before.file] in sources:
                return self._files[before.file], before.line
            before = row
        return "", 0

    def _rows(self) -> Iterator[_Row | None]:
        """Rows of all sequences, None after each."""
        row = _Row(0, 1, 1)
        while self._at < self._end:
            code = self._fixed(1)
            if code >= self._opcode_base:
                code -= self._opcode_base
                row.address += code // self._line_range * self._step
                row.line += self._line_base + code % self._line_range
                yield _Row(row.address, row.file, row.line)
            elif code == 0:
                size = self._unsigned()
                after = self._at + size
                kind = self._fixed(1)
                if kind == 1:  # end of sequence
                    yield _Row(row.address, row.file, row.line)
                    yield None
                    row = _Row(0, 1, 1)
                elif kind == 2:  # set address
                    row.address = self._fixed(8)
                self._at = after
            elif self._standard(code, row):
                yield _Row(row.address, row.file, row.line)

    def _standard(self, code: int, row: _Row) -> bool:
        """Carry out a standard operation; return whether it makes a row."""
        if code == 2:
            row.address += self._unsigned() * self._step
        elif code == 3:
            row.line += self._signed()
        elif code == 4:
            row.file = self._unsigned()
        elif code == 8:
            row.address += (255 - self._opcode_base) // self._line_range * self._step
        elif code == 9:
            row.address += self._fixed(2)
        elif code != 1:
            for _ in range(self._operands[code - 1]):
                self._unsigned()
        return code == 1

    def _read_files(self) -> list[str]:
        """Base names by file number."""
        if self._version == 5:
            self._entries()  # folders
            return self._entries()
        while self._string():
            pass
        names = [""]
        while name := self._string():
            names.append(PurePath(name).name)
            for _ in range(3):
                self._unsigned()
        return names

    def _entries(self) -> list[str]:
        formats = [(self._unsigned(), self._unsigned()) for _ in range(self._fixed(1))]
        names = []
        for _ in range(self._unsigned()):
            name = ""
            for content, form in formats:
                value = self._form(form)
                if content == 1 and isinstance(value, str):
                    name = PurePath(value).name
            names.append(name)
        return names

    def _form(self, form: int) -> str | int:
        if form == 0x08:
            return self._string()
        if form in (0x1F, 0x0E):  # in .debug_line_str, .debug_str
            return _text(self._sections[".debug_line_str" if form == 0x1F else ".debug_str"], self._fixed(4))
        if form == 0x0F:
            return self._unsigned()
        if form == 0x1E:  # 16 bytes of checksum
            self._at += 16
            return 0
        return self._fixed({0x0B: 1, 0x05: 2, 0x06: 4, 0x07: 8}[form])

    def _fixed(self, size: int) -> int:
        value = int.from_bytes(self._data[self._at : self._at + size], "little")
        self._at += size
        return value

    def _string(self) -> str:
        text = _text(self._data, self._at)
        self._at = self._data.index(b"\0", self._at) + 1
        return text

    def _unsigned(self) -> int:
        value, shift = 0, 0
        while True:
            byte = self._fixed(1)
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def _signed(self) -> int:
        start = self._at
        value = self._unsigned()
        bits = 7 * (self._at - start)
        return value - (1 << bits) if value >> (bits - 1) else value
