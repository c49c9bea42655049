"""Any sentence-transformers model as an embedder, by name or folder. Needs the extra `embed`; loads at the first text.

Vectors of two models never meet, so the name holds a digest of the model's own files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kope import resources
from kope.errors import ConfigError, ToolMissing

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_WEIGHTS = ("*.safetensors", "*.bin", "*.onnx")
_SETUP = ("config.json", "modules.json", "sentence_bert_config.json", "tokenizer.json", "**/config.json")


class SentenceTransformer:
    """model.Embedder over a sentence-transformers model. model: a folder, or a name of the model hub that is on this
    machine already or can be fetched.

    Raises ToolMissing without the library, ConfigError for a model that cannot be had.
    """

    def __init__(self, model: str) -> None:
        self._model_name = model
        self._folder = _folder_of(model)
        self.name = f"{Path(model).name}:{_digest(self._folder)}"
        self.dim = _dimension(self._folder)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a float32 array of shape (len(texts), dim), rows of unit length."""
        import numpy as np

        vectors = self._model.encode(
            [text or " " for text in texts],
            batch_size=16,
            normalize_embeddings=True,
            convert_to_numpy=True,
            show_progress_bar=False,
        )
        return np.asarray(vectors, np.float32).reshape(len(texts), -1)

    @cached_property
    def _model(self) -> Any:
        from sentence_transformers import SentenceTransformer as Library
        from transformers.utils import logging

        quiet: Callable[[], None] = logging.disable_progress_bar
        quiet()  # it would be drawn into the command's own output
        try:
            return Library(str(self._folder), device="cpu", trust_remote_code=False)
        except (OSError, ValueError, KeyError, RuntimeError) as unusable:
            raise ConfigError(
                f"{self._model_name} is no sentence-transformers model ({_first_line(unusable)}); name another"
            ) from unusable


def _folder_of(model: str) -> Path:
    """Return where a model's files are, fetched when they are not there yet."""
    path = Path(model).expanduser()
    if path.is_dir():
        return path
    try:
        from huggingface_hub import snapshot_download
    except ImportError as missing:
        need = f"the embedder {model} needs sentence-transformers"
        raise ToolMissing(f"{need}: {resources.install('embed')}") from missing
    try:
        return Path(snapshot_download(model, local_files_only=True))
    except (OSError, ValueError):
        pass
    try:
        return Path(snapshot_download(model, ignore_patterns=["*.onnx", "*.h5", "*.msgpack", "*.ot", "openvino/*"]))
    except (OSError, ValueError) as gone:
        raise ConfigError(
            f"the embedder {model} is no folder and cannot be fetched ({_first_line(gone)}); name its folder"
        ) from gone


def _dimension(folder: Path) -> int:
    """Return the dimensions of a model's vectors: of its last dense layer, else its pooling, else its hidden size."""
    for pattern, key in (
        ("*_Dense/config.json", "out_features"),
        ("*_Pooling/config.json", "word_embedding_dimension"),
    ):
        for file in sorted(folder.glob(pattern), reverse=True):
            return int(json.loads(file.read_text("utf-8"))[key])
    return int(json.loads((folder / "config.json").read_text("utf-8"))["hidden_size"])


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]


def _digest(folder: Path) -> str:
    """Return 12 hex digits over everything that decides a vector: weights, tokenizer, pooling."""
    files = sorted({file for pattern in (*_WEIGHTS, *_SETUP) for file in folder.glob(pattern) if file.is_file()})
    if not any(file.suffix in (".safetensors", ".bin", ".onnx") for file in files):
        raise ConfigError(f"{folder} holds no model weights; name the folder of a sentence-transformers model")
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.relative_to(folder)}\0".encode())
        with file.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()[:12]
