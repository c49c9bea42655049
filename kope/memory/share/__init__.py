"""Experience between databases: what travels, how it leaves a file, how it is taken in, and whom it is believed from.

How one database is kept is the package above's business.
"""

from __future__ import annotations

from kope.memory.share.files import claims_of, export_file, import_file, merge_files, snapshot_file, trust_origin
from kope.memory.share.leave import Choice, Form, Left
from kope.memory.share.look import Taken
from kope.memory.share.origins import Source
from kope.memory.share.redact import Redactor, names_here
from kope.memory.share.signature import Signatures, Signer
from kope.memory.share.unproven import Claim

__all__ = [
    "Choice",
    "Claim",
    "Form",
    "Left",
    "Redactor",
    "Signatures",
    "Signer",
    "Source",
    "Taken",
    "claims_of",
    "export_file",
    "import_file",
    "merge_files",
    "names_here",
    "snapshot_file",
    "trust_origin",
]
