"""How fast the memory is: recall, record, open and size, and the same work side by side with other embedded stores.

    scripts/bench store [--nodes 100000] [--vectors 1000000] [--peers chromadb,lancedb,agentrecall] [--folder DIR]

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
from numpy.typing import NDArray

from kope.memory import RecallQuery, Store, index

QUESTIONS = 60
RECORDED = 200


def each(work: Callable[[int], object], count: int) -> str:
    """Do several pieces of work; return median and 95th percentile of each in ms, and the processor's mean."""
    samples, busy = [], time.process_time()
    for number in range(count):
        began = time.perf_counter()
        work(number)
        samples.append(time.perf_counter() - began)
    busy = (time.process_time() - busy) / count
    high = quantiles(samples, n=20)[-1]
    return f"p50 {median(samples) * 1e3:8.2f} ms   p95 {high * 1e3:8.2f} ms   processor {busy * 1e3:7.2f} ms"


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
        print(f"open {opened * 1e3:.1f} ms; first 10 answers {first * 1e3:.0f} ms")
        asked = [question(number) for number in range(QUESTIONS)]
        for query in asked:
            store._embedded(query.text)
        print("recall, all fused, 8 records   ", each(lambda number: store.recall(asked[number]), QUESTIONS))
        print("the same once more             ", each(lambda number: store.recall(asked[number]), QUESTIONS))
        alone = [store._embedded(query.text) for query in asked]
        nodes = store._image.vectors["nodes"]
        near = each(lambda number: nodes.nearest(alone[number], Quick.name, None, 100), QUESTIONS)
        print("vectors of experiences alone   ", near)
        moves = [replace(query, moves=True, limit=0) for query in asked]
        store.recall(moves[0])
        print("evidence on moves              ", each(lambda number: store.recall(moves[number]), 20))


_BARE = """
    INSERT INTO nodes (id, origin_id, kind, task_name, move, traits, stage, works, label, step_ratio, downstream,
                       confidence, hardware, bottleneck, created_at, revision, embedder, embedding)
    SELECT ?1, id, 'fact', '', '', '[]', 'profile', 1, '', 1.0, 1.0, 1.0, '', '', '', 1, ?2, ?3 FROM origins
"""


def vectors(path: Path, count: int) -> None:
    """Time the vector part alone over so many bare experiences around 1,000 centres; print this process's memory."""
    import resource

    import numpy as np

    rng = np.random.default_rng(7)
    centres = rng.standard_normal((1_000, 384), np.float32)

    def drawn(amount: int) -> NDArray[np.float32]:
        made = centres[rng.integers(0, len(centres), amount)] + rng.standard_normal((amount, 384), np.float32)
        return made / np.linalg.norm(made, axis=1, keepdims=True)

    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = path.with_suffix(".part")
        scratch.unlink(missing_ok=True)
        with Store.open(scratch) as store:
            for start in range(0, count, 50_000):
                rows = enumerate(drawn(min(50_000, count - start)).astype("<f2"), start)
                with store._database.write() as connection:
                    connection.executemany(_BARE, ((f"n{n}", Quick.name, row.tobytes()) for n, row in rows))
                    index.extend(connection)
        scratch.rename(path)
    asked = drawn(QUESTIONS + 1)
    with Store.open(path) as store:
        found = store._image.vectors["nodes"]
        began = time.perf_counter()
        found.nearest(asked[-1], Quick.name, None, 100)
        print(f"{count} vectors: first answer {(time.perf_counter() - began) * 1e3:.0f} ms")
        print(
            "then                           ", each(lambda n: found.nearest(asked[n], Quick.name, None, 100), QUESTIONS)
        )
    print(f"resident at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:.0f} MB")


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
        print("record one attempt, on disk    ", each(lambda number: store.record(made[number]), RECORDED))
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
        "open_ms": open_s * 1e3, "bulk_s": bulk_s, "add": one, "search": found, "hits_of_20": hits,
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
    parser.add_argument("--vectors", type=int, default=0, help="time the vector part alone over so many")
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
    if asked.vectors:
        vectors(asked.folder / f"vectors-{asked.vectors}.db", asked.vectors)
    names = [name for name in asked.peers.split(",") if name]
    if names:
        print(f"{asked.peer_items} items, 384 dimensions; the last {asked.added} added one by one, durably")
        compare(names, asked.folder / "peers", asked.peer_items, asked.added)


if __name__ == "__main__":
    main()
