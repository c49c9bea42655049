"""How fast the memory is: recall, record, open and size, and the same work side by side with other embedded stores.

    scripts/bench store [--nodes 100000] [--peers chromadb,lancedb,agentrecall] [--peer-items 10000] [--folder DIR]

Vectors are given, since making them is the embedder's cost, and reported apart. Peers need the extra `bench`; each
adds the same texts and vectors one by one, durably, and answers the same questions with the records, in a process of
its own.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median, quantiles

from filled import HERE, Quick, attempt, filled, hash_of, sentence, task_number

from kope.memory import RecallQuery, Store

QUESTIONS = 60
RECORDED = 200


def spread(samples_s: Sequence[float]) -> str:
    """Return median and 95th percentile in milliseconds."""
    return f"p50 {median(samples_s) * 1e3:8.2f} ms   p95 {quantiles(samples_s, n=20)[-1] * 1e3:8.2f} ms"


def each(work: Callable[[int], object], count: int) -> list[float]:
    """Return the seconds that each of several pieces of work took."""
    samples = []
    for number in range(count):
        began = time.perf_counter()
        work(number)
        samples.append(time.perf_counter() - began)
    return samples


def question(number: int) -> RecallQuery:
    """Return a state's question: words, code, structure, a bottleneck."""
    rng = random.Random(f"question {number}")
    task = task_number(rng.randrange(200))
    return RecallQuery(
        text=f"{task.text} {sentence(rng)}",
        code=f"ub-overflow: {sentence(rng)}" if number % 2 else "",
        task_name=task.name,
        task_digest=task.digest,
        tags=task.tags,
        traits=task.tags,
        bottleneck="mte2",
        hardware=HERE.hardware,
        moves=False,
    )


def recall(path: Path) -> None:
    """Time opening, the first answer and warm answers."""
    began = time.perf_counter()
    with Store.open(path, embedder=Quick()) as store:
        opened = time.perf_counter() - began
        for number in range(QUESTIONS, QUESTIONS + 10):
            store.recall(question(number))
        first = time.perf_counter() - began - opened
        print(f"open {opened * 1e3:.1f} ms; first 10 answers, the graph read {first * 1e3:.0f} ms")
        asked = [question(number) for number in range(QUESTIONS)]
        for query in asked:
            store._embedded(query.text)
        print("recall, all fused, 8 records   ", spread(each(lambda number: store.recall(asked[number]), QUESTIONS)))
        alone = [store._embedded(query.text) for query in asked]
        nodes = store._image.vectors["nodes"]
        near = each(lambda number: nodes.nearest(alone[number], Quick.name, None, 100), QUESTIONS)
        print("vectors of experiences alone   ", spread(near))
        moves = [replace(query, moves=True, limit=0) for query in asked]
        store.recall(moves[0])
        print("evidence on moves              ", spread(each(lambda number: store.recall(moves[number]), 20)))


def record(path: Path) -> None:
    """Time recording attempts into a copy of the database."""
    import shutil

    copy = path.with_name("recorded.db")
    shutil.copy(path, copy)
    with Store.open(copy, embedder=Quick()) as store:
        session_id = store.begin_session("record", session_id="record").id
        rng = random.Random(1)
        task = task_number(3)
        parents = [each for each in store.attempts(task_name=task.name) if each.speedup]
        made = [
            attempt(session_id, number, task, rng.choice(parents), 1.1 * (number % 3), rng)
            for number in range(RECORDED)
        ]
        began = time.process_time()
        print("record one attempt, on disk    ", spread(each(lambda number: store.record(made[number]), RECORDED)))
        print(f"  of it processor time, mean   {(time.process_time() - began) / RECORDED * 1e3:12.2f} ms")
    copy.unlink()


def size(path: Path, count: int) -> None:
    """Print bytes a node takes, without and with code."""
    with Store.open(path) as store:
        code = store.stats().sizes["code"]
    whole = path.stat().st_size
    lean, full = (whole - code) / count / 1e3, whole / count / 1e3
    print(f"file {whole / 1e6:.0f} MB: {lean:.2f} kB a node without code, {full:.2f} with")


# --- other stores ---------------------------------------------------------------------------------------------------


def items(count: int) -> list[tuple[str, str, list[float]]]:
    """Return the same id, text and vector for every store."""
    rng = random.Random(5)
    texts = [f"{sentence(rng)} {sentence(rng)}" for _ in range(count)]
    vectors = Quick().embed(texts)
    return [(f"item-{n}", text, vectors[n].tolist()) for n, text in enumerate(texts)]


def peer(name: str, folder: Path, count: int, added: int) -> dict[str, float | str]:
    """Fill a store, add items one by one, search it; returns the figures."""
    import peers

    given = items(count)
    opened = time.perf_counter()
    store = peers.STORES[name](folder)
    open_s = time.perf_counter() - opened
    began = time.perf_counter()
    store.add_many(given[:-added])
    bulk_s = time.perf_counter() - began
    one = each(lambda number: store.add(*given[len(given) - added + number]), added)
    asked = [given[hash_of(str(n)) % len(given)] for n in range(QUESTIONS)]
    store.search(*asked[0][1:])
    found = each(lambda number: store.search(*asked[number][1:]), QUESTIONS)
    hits = sum(asked[n][0] in store.search(*asked[n][1:]) for n in range(20))
    files = [file for file in folder.rglob("*") if file.is_file()]
    return {
        "open_ms": open_s * 1e3, "bulk_s": bulk_s, "add": spread(one), "search": spread(found), "hits_of_20": hits,
        "files": len(files), "size_mb": sum(file.stat().st_size for file in files) / 1e6,
    }  # fmt: skip


def compare(names: Sequence[str], folder: Path, count: int, added: int) -> None:
    """Measure each store in a process of its own, in turn."""
    import shutil

    for name in names:
        place = folder / name
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        argv = [sys.executable, __file__, "--peer", name, "--folder", str(place), "--peer-items", str(count)]
        done = subprocess.run([*argv, "--added", str(added)], capture_output=True, text=True, timeout=1800)
        if done.returncode:
            print(f"{name:<12} not measured: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
            continue
        found = json.loads(done.stdout.splitlines()[-1])
        print(
            f"{name:<12} open {found['open_ms']:7.1f} ms; add {found['add']}; search {found['search']}; "
            f"found itself {found['hits_of_20']}/20; {found['files']} files, {found['size_mb']:.1f} MB"
        )


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="scripts/bench store", description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--peers", default="kope,agentrecall,chromadb,lancedb", help="comma-separated; empty: none")
    parser.add_argument("--peer-items", type=int, default=10_000)
    parser.add_argument("--added", type=int, default=300, help="items added one by one, timed")
    parser.add_argument("--peer", default="", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, default=Path(".bench/store"))
    return parser.parse_args()


def main() -> None:
    """Print the figures of KOPE's memory, then those of each store on the same items."""
    asked = arguments()
    if asked.peer:
        print(json.dumps(peer(asked.peer, asked.folder, asked.peer_items, asked.added)))
        return
    if asked.nodes:
        path = filled(asked.folder / f"{asked.nodes}.db", asked.nodes)
        print(f"{asked.nodes} experiences")
        recall(path)
        record(path)
        size(path, asked.nodes)
    names = [name for name in asked.peers.split(",") if name]
    if names:
        print(f"{asked.peer_items} items, 384 dimensions; the last {asked.added} added one by one, durably")
        compare(names, asked.folder / "peers", asked.peer_items, asked.added)


if __name__ == "__main__":
    main()
