"""Stands in for npu-smi: the table of `info` in the form of its chip, and the board's page."""

from __future__ import annotations

import sys

import standin

LINE = "+---------------------------+---------------+----------------------------------------------------+"


def main(arguments: list[str]) -> int:
    """Print what is asked for."""
    config = standin.config()
    standin.obey("npu-smi")
    if arguments == ["info"]:
        print(table(config["cards"], config["table_name"], phy_ids=config["phy_ids"]))
        return 0
    if arguments[:3] == ["info", "-t", "board"]:
        chip, _, npu = config["soc"].partition("_")
        print(f"        NPU ID                         : 0\n        Chip Name                      : {chip}")
        print(f"        NPU Name                       : {npu or 'NA'}")
        return 0
    standin.refuse("npu-smi", f"invalid parameter {' '.join(arguments)}")


def table(cards: list[str], name: str, *, phy_ids: bool) -> str:
    """One NPU per health word; with phy_ids every NPU has two chips."""
    lines = [
        LINE,
        "| npu-smi 24.1.1                   Version: 24.1.1                                               |",
        LINE,
        "| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|",
        f"| Chip  {'Phy-ID' if phy_ids else '':<20}| Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)     |",
        LINE.replace("-", "="),
    ]
    for npu, health in enumerate(cards):
        for chip in range(2 if phy_ids else 1):
            power = "88.2" if chip == 0 else "-"
            place = f"{chip}     {2 * npu + chip}" if phy_ids else f"{chip}"
            lines.append(f"| {npu:<5} {name:<19} | {health:<13} | {power:<11} 30                0    / 0             |")
            lines.append(f"| {place:<25} | 0000:C{npu}:00.0  | 0           0    / 0          26838/ 32768         |")
        lines.append(LINE)
    lines += [
        "| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |",
        LINE,
    ]
    lines += [
        "| 0       0                 | 4711          | python                   | 120                     |",
        LINE,
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
