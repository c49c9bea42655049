"""Cards are used by one program at a time, across processes; one that is taken out stays out."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kope import process
from kope.errors import MachineError
from kope.target.ascend.pool import CardPool

HOLD = """
import sys
from pathlib import Path
from kope.target.ascend.pool import CardPool
with CardPool([0], Path(sys.argv[1]), wait_s=0.0).card() as card:
    print("held", card)
"""


def test_a_card_in_use_is_not_given_out_again_not_even_to_another_process(tmp_path: Path) -> None:
    pool = CardPool([0], tmp_path, wait_s=0.0)
    argv = [sys.executable, "-c", HOLD, str(tmp_path)]
    with pool.card() as card:
        assert card == 0
        with (
            pytest.raises(MachineError, match="every card was busy for 0 s"),
            CardPool([0], tmp_path, wait_s=0.0).card(),
        ):
            pass
        other = process.run(argv, timeout_s=60.0)
        assert other.returncode == 1 and "every card was busy" in other.stderr
    assert process.run(argv, timeout_s=60.0).stdout == "held 0\n"


def test_with_several_cards_the_next_free_one_is_given_out(tmp_path: Path) -> None:
    pool = CardPool([3, 1], tmp_path, wait_s=0.0)
    with pool.card() as first, pool.card() as second:
        assert (first, second) == (3, 1)


def test_times_stay_on_the_card_they_were_begun_on(tmp_path: Path) -> None:
    mine, other = CardPool([0, 1], tmp_path, wait_s=0.0), CardPool([0, 1], tmp_path, wait_s=0.0)
    with other.card(), mine.card() as card:
        assert card == 1
    with mine.card(same=True) as card:
        assert card == 1
    with other.card(), other.card(), pytest.raises(MachineError, match="busy"), mine.card(same=True):
        pass
    mine.take_out(1, "it hangs")
    with mine.card(same=True) as card:
        assert card == 0


def test_a_card_that_fails_an_exception_is_free_again(tmp_path: Path) -> None:
    pool = CardPool([0], tmp_path, wait_s=0.0)
    with pytest.raises(RuntimeError), pool.card():
        raise RuntimeError
    with pool.card() as card:
        assert card == 0


def test_a_card_taken_out_is_left_out_by_later_runs_until_its_mark_is_gone(tmp_path: Path) -> None:
    CardPool([0, 1], tmp_path).take_out(0, "a known good kernel failed twice")
    later = CardPool([0, 1], tmp_path)
    assert later.usable() == (1,)
    (number,) = later.taken_out()
    mark, reason = later.taken_out()[number]
    assert (number, reason.endswith("a known good kernel failed twice")) == (0, True)
    later.take_out(1, "the other too")
    with pytest.raises(MachineError, match=f"every card hung twice and was taken out.*delete {mark}"):
        later.usable()
    mark.unlink()
    assert later.usable() == (0,)
