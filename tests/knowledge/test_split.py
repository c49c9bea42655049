"""Documents become passages: by headings, code whole, nothing lost; HTML and PDF as text."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kope.errors import ConfigError
from kope.knowledge import files_below, read_document
from kope.knowledge.html import markdown_of_html
from kope.knowledge.split import HARD_LIMIT, Section, split_markdown
from kope.resources import install

CODE = "```cpp\n# not a heading\n\nint a;\n```"


def test_passages_say_where_they_stand() -> None:
    text = f"intro\n\n# Copies\n\nfirst\n\n## Padding\n\n{CODE}\n\n### Deep\n\nx\n\n# Flags\n\nlast\n"
    assert list(split_markdown(text)) == [
        Section("", "intro"),
        Section("Copies", "first"),
        Section("Copies > Padding", CODE),
        Section("Copies > Padding > Deep", "x"),
        Section("Flags", "last"),
    ]


def test_underlined_headings_are_headings_and_tables_are_not() -> None:
    text = "Title\n=====\n\nPart\n----\n\ntext\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    assert list(split_markdown(text)) == [Section("Title > Part", "text\n\n| a | b |\n|---|---|\n| 1 | 2 |")]


def test_long_section_is_cut_between_paragraphs_and_code_stays_whole() -> None:
    code = "```\n" + "line;\n\n" * 400 + "```"
    pieces = list(split_markdown("# A\n\n" + "word " * 300 + "\n\n" + code + "\n\nafter\n"))
    assert [piece.heading for piece in pieces] == ["A"] * 3
    assert pieces[1].text == code and pieces[2].text == "after"


@given(st.text(alphabet="ab `\n|~", max_size=400))
def test_no_letter_is_lost(text: str) -> None:
    got = "".join(section.text for section in split_markdown(text))
    assert (got.count("a"), got.count("b")) == (text.count("a"), text.count("b"))


@given(st.text(max_size=200).map(lambda part: part * 60))
def test_no_passage_is_over_the_hard_limit_by_more_than_a_block(text: str) -> None:
    assert all(len(section.text) <= 2 * HARD_LIMIT for section in split_markdown(text))


def test_html_is_read_as_headings_paragraphs_and_code() -> None:
    html = """<html><head><style>p{}</style><script>evil()</script></head><body><nav>menu</nav>
    <h2>DataCopy <code>Pad</code></h2><p>Any &lt;number&gt;<br>of bytes</p>
    <pre>int a;\n  int b;</pre><ul><li>one<li>two</ul><table><tr><th>k</th><td>v</td></tr></table></body></html>"""
    text = markdown_of_html(html)
    assert "## DataCopy Pad" in text and "Any <number>\nof bytes" in text
    assert "```\nint a;\n  int b;\n```" in text and "- one\n- two" in text and "|k |v |" in text
    assert "evil" not in text and "menu" not in text and "p{}" not in text


def test_folder_is_searched_and_other_files_are_left_out(tmp_path: Path) -> None:
    for name in ("a.md", "sub/b.HTML", "sub/c.py", ".git/d.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("# T\n\ntext\n")
    assert [path.name for path in files_below(tmp_path)] == ["a.md", "b.HTML"]
    assert files_below(tmp_path / "a.md") == [tmp_path / "a.md"]
    for place, said in ((tmp_path / "sub" / "c.py", "no known kind"), (tmp_path / "none", "does not exist")):
        with pytest.raises(ConfigError, match=said):
            files_below(place)


@pytest.mark.parametrize(
    ("data", "text"), [("é".encode(), "é"), ("对齐".encode("gb18030"), "对齐"), (b"\xef\xbb\xbfa", "a")]
)
def test_text_is_read_in_the_encodings_that_occur(tmp_path: Path, data: bytes, text: str) -> None:
    (tmp_path / "a.txt").write_bytes(data)
    assert read_document(tmp_path / "a.txt", "a").sections == (Section("", text),)


def test_pdf_without_its_library_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pypdf", None)
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.4")
    with pytest.raises(ConfigError, match=re.escape(f"PDF files need pypdf: {install('docs')}")):
        read_document(tmp_path / "a.pdf", "a")


def _pdf(pages: list[str]) -> bytes:
    """A PDF of one line of text a page, written by hand."""
    kids = " ".join(f"{4 + 2 * k} 0 R" for k in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for k, text in enumerate(pages):
        stream = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET"
        page = f"<< /Type /Page /Parent 2 0 R /Contents {5 + 2 * k} 0 R /Resources << /Font << /F1 3 0 R >> >> >>"
        objects += [page, f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream"]
    out, places = "%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n"
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    count = len(objects) + 1
    trailer = f"trailer << /Size {count} /Root 1 0 R >>\nstartxref\n{len(out)}\n%%EOF\n"
    return f"{out}xref\n0 {count}\n0000000000 65535 f \n{table}{trailer}".encode()


@pytest.mark.extra("pypdf")
def test_pdf_is_read_page_by_page(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(_pdf(["Strides count blocks", "Second page"]))
    assert read_document(tmp_path / "a.pdf", "a").sections == (
        Section("page 1", "Strides count blocks"),
        Section("page 2", "Second page"),
    )


@pytest.mark.extra("pypdf")
@pytest.mark.parametrize("data", [b"", b"%PDF-1.4\nnothing", b"\0" * 100])
def test_broken_pdf_is_refused_in_one_line(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.pdf").write_bytes(data)
    with pytest.raises(ConfigError, match="cannot be read as PDF"):
        read_document(tmp_path / "a.pdf", "a")
