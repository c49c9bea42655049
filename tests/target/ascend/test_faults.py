"""Device errors: every code and phrase of the tables has its kind and says whose fault it is."""

from __future__ import annotations

import pytest

from kope.target.ascend import vendor
from kope.target.ascend.faults import Fault, classify, codes

CODES = {
    107001: ("no-device", "environment"),
    107002: ("host-error", "environment"),
    207001: ("device-memory", "environment"),
    507000: ("runtime-error", "unknown"),
    507001: ("runtime-error", "unknown"),
    507008: ("no-device", "environment"),
    507010: ("device-lost", "hardware"),
    507011: ("runtime-error", "unknown"),
    507012: ("device-lost", "hardware"),
    507013: ("device-lost", "hardware"),
    507014: ("device-timeout", "hang"),
    507015: ("device-exception", "kernel"),
    507016: ("trap", "kernel"),
    507017: ("device-timeout", "hang"),
    507018: ("device-exception", "kernel"),
    507033: ("no-device", "environment"),
    507034: ("device-timeout", "hang"),
    507035: ("device-exception", "kernel"),
    507036: ("trap", "kernel"),
    507042: ("gm-oob", "kernel"),
    507043: ("gm-oob", "kernel"),
    507044: ("gm-oob", "kernel"),
    507045: ("gm-oob", "kernel"),
    507046: ("device-timeout", "hang"),
    507047: ("device-timeout", "hang"),
    507048: ("device-timeout", "hang"),
    507049: ("device-exception", "kernel"),
    507050: ("trap", "kernel"),
    507053: ("hardware-fault", "hardware"),
    507054: ("hardware-fault", "hardware"),
    507055: ("hardware-fault", "hardware"),
    507056: ("hardware-fault", "hardware"),
    507057: ("hardware-fault", "hardware"),
    507899: ("driver-error", "environment"),
}
PHRASES = [
    ("VEC instruction error: the ub address out of bounds", "ub-oob"),
    ("MTE: the address to read/write UB is out of bounds", "ub-oob"),
    ("the address for MTE to write UB is out of bounds", "ub-oob"),
    ("the address for MTE to read UB is out of bounds", "ub-oob"),
    ("the access address of the UB is out of range", "ub-oob"),
    ("the UB address of the VEC instruction is not aligned", "align"),
    ("VEC accesses unaligned UUB addresses", "align"),
    ("The DDR address of the MTE instruction is out of range", "gm-oob"),
    ("MTE accesses an invalid GM address", "gm-oob"),
    ("the scalar instruction accesses an invalid GM address", "gm-oob"),
    ("the address exceeds 48 bits", "gm-oob"),
    ("the operation address of L0A exceeds the range", "l0-oob"),
    ("the operation address of L0C exceeds the range", "l0-oob"),
    ("load2d: the source is not aligned with anything", "l0-oob"),
    ("load3d instruction illegal", "l0-oob"),
    ("the address for FIXP to read L0C is out of bounds", "l0-oob"),
    ("the address for FIXP to write L1 is out of bounds", "l0-oob"),
    ("the instruction parameter is invalid", "argument-range"),
    ("the burst length of the move is incorrect", "argument-range"),
    ("illegal burst num", "argument-range"),
    ("MASK instruction is all 0", "argument-range"),
    ("the configuration of the register is illegal", "argument-range"),
    ("the instruction is abnormal", "argument-range"),
    ("the code is not defined in ISA", "argument-range"),
    ("there is a read/write conflict in the UB", "missing-sync"),
    ("the address confilicts with another instruction", "missing-sync"),
    ("division by 0", "numeric-trap"),
    ("Division by zero", "numeric-trap"),
    ("the input is inf or nan", "numeric-trap"),
    ("the input of ln is a negative number", "numeric-trap"),
    ("the input of square root is a negative number", "numeric-trap"),
    ("the flag counter for inter-core communication exceeds the maximum value 15", "flag-overflow"),
    ("HSET counter overflow", "flag-overflow"),
    ("the address of instruction is illegal when the AIcore reads instructions", "stack-overflow"),
    ("the depth of nested function call is too large", "stack-overflow"),
]


def text(words: str) -> str:
    return (
        "EZ9999: Inner Error!\nEZ9999[PID: 1] (EZ9999): The error from device(chipId:2, dieId:1), there is an exception"
        f" of aivec error, core id is 36, error code = 0x40.\nThe extend info: errcode:(0x40, 0, 0) errorStr: {words}."
        " fixp_error0 info: 0. blk:3, sublk:1, subErrType:4.\nKernel task happen error, retCode=0x31, [vector core"
        " exception].\nfault kernel_name=exp_kernel, other"
    )


def test_the_table_holds_every_code() -> None:
    assert {code: entry[:2] for code, entry in vendor.ACL_CODES.items()} == CODES


@pytest.mark.parametrize("code", CODES)
def test_a_code_alone_says_whose_fault_it_is(code: int) -> None:
    found = classify(code, "")
    assert (found.kind, found.blame) == CODES[code]
    assert f"the runtime returned {code}" in found.message
    assert found.diagnostic("c1").remedy != ""


@pytest.mark.parametrize(("words", "kind"), PHRASES)
def test_a_phrase_of_the_runtime_names_the_kind_and_the_place(words: str, kind: str) -> None:
    assert classify(507035, text(words)) == Fault(
        kind, "kernel", f"{words} in kernel exp_kernel, block 3, sub-block 1 (the runtime returned 507035)"
    )


@pytest.mark.parametrize("words", ["L2 ECC error", "RAS alarm on HBM", "parity error of the buffer"])
def test_broken_hardware_is_never_the_kernels_fault(words: str) -> None:
    assert (classify(507015, text(words)).kind, classify(507015, text(words)).blame) == ("hardware-fault", "hardware")


@pytest.mark.parametrize(
    ("code", "kind"), [(0x25, "device-timeout"), (0x26, "device-exception"), (0x30, "device-timeout")]
)
def test_the_schedulers_code_is_read_where_there_is_no_phrase(code: int, kind: str) -> None:
    assert classify(507011, f"Kernel task happen error, retCode=0x{code:x}, [x].").kind == kind


def test_a_phrase_for_timeouts_is_a_hang() -> None:
    assert classify(507011, "errorStr: timeout or trap error.").blame == "hang"


def test_the_newest_form_of_an_error_is_read() -> None:
    said = (
        "An error occurs on the device(chipId:0). errcode:(95) errorStr: The DDR address of the MTE instruction is out"
    )
    assert classify(507015, said + " of range. subErrType: 0x4.").kind == "gm-oob"


def test_text_left_over_from_a_kernel_does_not_turn_a_lost_card_into_its_fault() -> None:
    assert classify(507054, text("VEC instruction error: the ub address out of bounds")).blame == "hardware"
    assert classify(107001, text("division by 0")).blame == "environment"
    assert classify(507034, text("division by 0")).blame == "hang"


def test_a_code_nobody_knows_blames_nobody() -> None:
    assert classify(599999, "") == Fault(
        "runtime-error", "unknown", "the runtime returned 599999, a code that is not known"
    )


def test_codes_are_found_in_text() -> None:
    assert codes("aclrtSynchronizeStream failed: 507035 (x), earlier 107001; 1507035 is none") == (507035, 107001)
