"""Templates: names that are missing are errors, a user's folder comes first, what is read can be listed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from kope import resources
from kope.errors import ConfigError, TemplateError
from kope.render import names_read, render


@dataclass(frozen=True)
class Words:
    first: str
    rest: tuple[str, ...]


@pytest.fixture
def own(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "list.j2").write_text("{# Words #}\n{{ first }}:\n{% for word in rest %}\n  - {{ word }}\n{% endfor %}\n")
    (folder / "outer.j2").write_text("{% include 'list.j2' %}{{ last }}\n")
    (folder / "hidden.j2").write_text("{% include which %}\n")
    (folder / "broken.j2").write_text("{% for %}\n")
    return folder


def test_blocks_leave_no_blank_lines_and_nothing_is_escaped(own: Path) -> None:
    assert render("list", Words("a<b", ("x & y", "{{ z }}")), own=own) == "a<b:\n  - x & y\n  - {{ z }}\n"


def test_a_missing_name_is_an_error_that_names_it(own: Path) -> None:
    with pytest.raises(TemplateError, match="template 'outer': 'last' is undefined"):
        render("outer", Words("a", ()), own=own)


def test_what_a_template_reads_includes_what_it_includes(own: Path) -> None:
    assert names_read("outer", own=own) == {"first", "rest", "last"}


def test_a_computed_include_hides_names_and_is_refused(own: Path) -> None:
    with pytest.raises(TemplateError, match="includes a computed name"):
        names_read("hidden", own=own)


def test_a_broken_template_says_so(own: Path) -> None:
    with pytest.raises(TemplateError, match="template 'broken'"):
        render("broken", own=own)


@pytest.mark.parametrize("ask", [render, names_read])
def test_a_missing_template_names_itself(ask: object) -> None:
    with pytest.raises(TemplateError, match=r"no template 'no/such.j2' in templates/"):
        ask("no/such")  # type: ignore[operator]


def test_a_users_template_replaces_the_shipped_one_and_may_include_others(tmp_path: Path) -> None:
    shipped = sorted(path.name for path in (resources.folder("templates") / "prompts").glob("_*.j2"))
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "draft.j2").write_text(
        f"mine {{% if false %}}{{% include 'prompts/{shipped[0]}' %}}{{% endif %}}"
    )
    assert render("prompts/draft", own=tmp_path) == "mine "


def test_every_shipped_template_parses() -> None:
    root = resources.folder("templates")
    names = [str(path.relative_to(root)) for path in root.rglob("*.j2")]
    assert len(names) > 5
    for name in names:
        names_read(name)


def test_shipped_folders_are_found() -> None:
    assert list(resources.folder("schema").glob("0001_*.sql"))
    assert (resources.shipped_tasks() / "rms_norm" / "task.toml").is_file()


def test_a_broken_installation_says_what_to_do() -> None:
    with pytest.raises(ConfigError, match="install KOPE again"):
        resources.folder("no-such-folder")
