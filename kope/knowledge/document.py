"""A documentation file read into passages: Markdown, HTML, plain text, PDF.

How a text is cut is split.py's business; where passages are kept, memory's.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kope.errors import ConfigError
from kope.knowledge.html import markdown_of_html
from kope.knowledge.split import Section, split_markdown
from kope.resources import folder, install

SIZE_LIMIT_BYTES = 32 << 20
GUIDE = "Ascend C guide"


@dataclass(frozen=True, slots=True)
class Document:
    """A file as it is indexed. name: how it is listed and replaced. digest: sha256 of its bytes."""

    name: str
    digest: str
    size_bytes: int
    sections: tuple[Section, ...]


def files_below(place: Path) -> list[Path]:
    """Return the documentation files in a folder, or the file itself; hidden folders are left out.

    Raises ConfigError when there is nothing of a kind that can be read.
    """
    if not place.exists():
        raise ConfigError(f"{place} does not exist; give a file or folder with documentation")
    if place.is_file():
        if place.suffix.lower() not in READERS:
            raise ConfigError(f"{place}: no known kind of document; known are {_kinds()}")
        return [place]
    found = [
        path
        for path in sorted(place.rglob("*"))
        if path.suffix.lower() in READERS and path.is_file() and not _hidden(path.relative_to(place))
    ]
    if not found:
        raise ConfigError(f"{place} holds no documents; known are {_kinds()}")
    return found


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _kinds() -> str:
    return ", ".join(sorted(READERS))


def read_document(path: Path, name: str) -> Document:
    """Read a file. Raises ConfigError when it cannot be read, is too large, or a library for its kind is missing."""
    try:
        size_bytes = path.stat().st_size
        if size_bytes > SIZE_LIMIT_BYTES:
            raise ConfigError(f"{path} has {size_bytes} bytes, the limit is {SIZE_LIMIT_BYTES}; split it")
        data = path.read_bytes()
        if path.suffix.lower() != ".pdf" and b"\0" in data[:65_536]:
            raise ConfigError(f"{path} is not text; give Markdown, HTML, text or PDF")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; make it readable or leave it out") from error
    markdown = READERS[path.suffix.lower()](path, data)
    return Document(name, hashlib.sha256(data).hexdigest(), size_bytes, tuple(split_markdown(markdown)))


def _text(path: Path, data: bytes) -> str:
    for encoding in ("utf-8-sig", "gb18030"):
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            continue
    return data.decode("utf-8", "replace")


def _html(path: Path, data: bytes) -> str:
    return markdown_of_html(_text(path, data))


def _pdf(path: Path, data: bytes) -> str:
    """Return the text of a PDF, a heading per page."""
    try:
        from pypdf import PdfReader
        from pypdf.errors import PyPdfError
    except ImportError:
        raise ConfigError(f"PDF files need pypdf: {install('docs')}") from None
    try:
        pages = [page.extract_text() for page in PdfReader(path).pages]
    except (PyPdfError, ValueError, KeyError, TypeError, RecursionError) as broken:
        raise ConfigError(f"{path} cannot be read as PDF ({type(broken).__name__}); convert it to text") from broken
    return "\n\n".join(f"# page {number}\n\n{_no_headings(text)}" for number, text in enumerate(pages, 1))


def _no_headings(text: str) -> str:
    return "\n".join(line.lstrip("#") if line.startswith("#") else line for line in text.split("\n"))


READERS: dict[str, Callable[[Path, bytes], str]] = {
    ".md": _text,
    ".markdown": _text,
    ".rst": _text,
    ".txt": _text,
    ".html": _html,
    ".htm": _html,
    ".pdf": _pdf,
}
"""File ending -> what makes Markdown of it."""


@functools.cache
def guide() -> tuple[Document, ...]:
    """Return the shipped Ascend C guide, a document per file."""
    return tuple(_guide_files())


def _guide_files() -> Iterator[Document]:
    for path in sorted(folder("guide").glob("*.md")):
        yield read_document(path, f"{GUIDE}/{path.stem}")
