"""Model calls of a session are kept until it ends, and are nobody else's."""

from __future__ import annotations

from pathlib import Path

import pytest

from kope.errors import NotFound
from kope.memory import Store
from kope.session import SessionCalls

RECORD = {"ending": "ok", "content": "中文 \u2028 \U0001f600", "usage": None, "total_s": 0.25, "from": ["a", 1]}


def test_call_is_found_by_its_session_and_key_alone(tmp_path: Path) -> None:
    with Store.open(tmp_path / "kope.db") as store:
        one, other = (SessionCalls(store, store.begin_session(key).id) for key in ("a", "b"))
        assert one.find("k") is None
        one.save("k", RECORD)
        assert (one.find("k"), one.find("x"), other.find("k")) == (RECORD, None, None)
        one.save("k", {"ending": "length"})
        assert one.find("k") == {"ending": "length"}


def test_calls_outlive_the_process_and_end_with_the_session(tmp_path: Path) -> None:
    with Store.open(tmp_path / "kope.db") as store:
        session = store.begin_session("a")
        store.keep_call(session.id, "k", RECORD)
    with Store.open(tmp_path / "kope.db") as store:
        again = store.begin_session("a")
        assert (again.id, again.resumed) == (session.id, True)
        assert store.find_call(again.id, "k") == RECORD
        store.end_session(again.id, "iterations")
        assert store.find_call(again.id, "k") is None


def test_call_of_a_session_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with Store.open(tmp_path / "kope.db") as store, pytest.raises(NotFound, match="there is no session nobody"):
        store.keep_call("nobody", "k", RECORD)
