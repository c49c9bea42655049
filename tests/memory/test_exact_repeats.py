"""What an experiment needs to be repeated to the letter: session ids that are given, experiences read back by id."""

from __future__ import annotations

from pathlib import Path

import pytest

from kope.errors import NotFound, StoreError
from kope.memory import Store


def test_session_takes_the_id_it_is_given_once(tmp_path: Path) -> None:
    with Store.open(tmp_path / "kope.db") as store:
        assert store.begin_session("key", resume=False, session_id="first").id == "first"
        with pytest.raises(StoreError):
            store.begin_session("key", resume=False, session_id="first")
        assert [session.id for session in store.sessions()] == ["first"]


def test_unknown_experience_is_not_found(tmp_path: Path) -> None:
    with Store.open(tmp_path / "kope.db") as store, pytest.raises(NotFound, match="kope recall"):
        store.experience("nothing")
