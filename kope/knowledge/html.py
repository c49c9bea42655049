"""HTML documentation as Markdown: headings, paragraphs, lists, code, tables; no scripts, styles, navigation."""

from __future__ import annotations

import re
from html.parser import HTMLParser

_SILENT = frozenset({"script", "style", "nav", "header", "footer", "noscript", "svg", "template", "button", "form"})
_BLOCKS = frozenset(
    {"p", "div", "section", "article", "table", "ul", "ol", "dl", "dt", "dd", "blockquote", "br", "main"}
)
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}


def markdown_of_html(html: str) -> str:
    """Return the readable text of a page; broken HTML gives what can be read of it."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return re.sub(r"\n{3,}", "\n\n", "".join(reader.parts)).strip() + "\n"


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._silent = 0
        self._code = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _SILENT:
            self._silent += 1
        elif tag == "pre":
            self._code += 1
            self._put("\n\n```\n")
        elif tag in _HEADINGS:
            self._put(f"\n\n{_HEADINGS[tag]} ")
        elif tag == "li":
            self._put("\n- ")
        elif tag == "tr":
            self._put("\n|")
        elif tag in _BLOCKS:
            self._put("\n\n" if tag != "br" else "\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in _SILENT:
            self._silent = max(0, self._silent - 1)
        elif tag == "pre" and self._code:
            self._code -= 1
            self._put("\n```\n\n")
        elif tag in ("td", "th"):
            self._put(" |")
        elif tag in _HEADINGS or tag in _BLOCKS:
            self._put("\n\n")

    def handle_data(self, data: str) -> None:
        if self._code:
            self._put(data)
        elif data.strip():
            self._put(re.sub(r"\s+", " ", data))

    def _put(self, text: str) -> None:
        if not self._silent:
            self.parts.append(text)
