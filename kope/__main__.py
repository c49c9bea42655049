"""`python -m kope` is `kope`."""

from __future__ import annotations

from kope.cli import main

if __name__ == "__main__":
    main()
