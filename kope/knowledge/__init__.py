"""Documentation as passages: a user's own files, and the Ascend C guide that comes with KOPE.

Keeping and finding passages is memory's business.
"""

from __future__ import annotations

from kope.knowledge.document import Document, files_below, guide, read_document

__all__ = ["Document", "files_below", "guide", "read_document"]
