"""SQL migrations and JSON Schemas. A package only so that installations find the files."""
