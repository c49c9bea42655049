"""What a person or a program reads of a run: documents (JSON) and the terminal's table, lines and diff.

Everything here is made from attempts; nothing is judged or stored.
"""

from __future__ import annotations
