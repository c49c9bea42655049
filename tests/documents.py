"""Holds what commands print with --json against the schemas in schema/."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import referencing

from kope.resources import folder


def schemas() -> dict[str, Any]:
    """Return every JSON Schema by name."""
    return {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(folder("schema").glob("*.json"))}


def parsed(text: str, name: str) -> Any:
    """Return what a command printed, once schema `name` accepts it."""
    document = json.loads(text)
    known = schemas()
    resources = [(schema["$id"], referencing.Resource.from_contents(schema)) for schema in known.values()]
    registry: referencing.Registry[Any] = referencing.Registry().with_resources(resources)
    jsonschema.Draft202012Validator(known[name], registry=registry).validate(document)
    return document
