"""Render Jinja2 templates from templates/. The only importer of jinja2; what a template reads is its caller's contract.

A template is named by its path without the ending: "prompts/draft". Undefined names are errors, nothing is escaped, and
values are never rendered as templates themselves.
"""

from __future__ import annotations

import functools
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
from jinja2 import meta

from kope.errors import TemplateError
from kope.resources import folder

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

ENDING = ".j2"


def render(name: str, context: DataclassInstance | None = None, *, own: Path | None = None, **values: Any) -> str:
    """Return the text of a template, given the fields of a dataclass, or names directly.

    own: a user's folder; a template there replaces the shipped one of the same name, and may include shipped ones.
    Raises TemplateError for a missing template, a syntax error in it, or a name it reads that is not given.
    """
    if context is not None:
        values = {field.name: getattr(context, field.name) for field in fields(context)} | values
    try:
        return _environment(own).get_template(_file(name)).render(values)
    except jinja2.TemplateNotFound as error:
        raise TemplateError(f"no template {error.name!r} in templates/; install KOPE again") from error
    except jinja2.TemplateError as error:
        raise TemplateError(f"template {name!r}: {error}; fix the template or install KOPE again") from error


def names_read(name: str, *, own: Path | None = None) -> frozenset[str]:
    """Return the names a template and everything it includes read from outside.

    Raises TemplateError for a missing template, a syntax error, and an include whose name is computed, which hides what
    is read.
    """
    environment = _environment(own)
    read: set[str] = set()
    waiting, seen = [_file(name)], set()
    while waiting:
        current = waiting.pop()
        if current in seen:
            continue
        seen.add(current)
        tree = _parsed(environment, current)
        read |= meta.find_undeclared_variables(tree)
        for included in meta.find_referenced_templates(tree):
            if included is None:
                raise TemplateError(f"template {current!r} includes a computed name; name the file")
            waiting.append(included)
    return frozenset(read)


def _parsed(environment: jinja2.Environment, name: str) -> jinja2.nodes.Template:
    try:
        return environment.parse(_source(environment, name))
    except jinja2.TemplateSyntaxError as error:
        raise TemplateError(f"template {name!r}: {error}; fix the template or install KOPE again") from error


def _source(environment: jinja2.Environment, name: str) -> str:
    assert environment.loader is not None
    try:
        return environment.loader.get_source(environment, name)[0]
    except jinja2.TemplateNotFound as error:
        raise TemplateError(f"no template {error.name!r} in templates/; install KOPE again") from error


def _file(name: str) -> str:
    return name if name.endswith(ENDING) else name + ENDING


@functools.cache
def _environment(own: Path | None) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([*([own] if own else []), folder("templates")]),
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # kernels and prompts, not HTML
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["us"] = lambda value: f"{value:.2f} us"
    environment.filters["speedup"] = lambda value: f"{value:.2f}x"
    return environment
