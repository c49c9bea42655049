"""Token counts: an estimate with a stated margin that corrects itself, and a model's own tokenizer."""

from __future__ import annotations

import functools
import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kope.context import Budget, assemble
from kope.context.count import BYTES_PER_TOKEN, MARGIN, Estimate, Exact, counter_for, estimate_tokens, usage_of
from kope.errors import ConfigError
from kope.model import Passage
from tests.context import samples

ROOT = Path(__file__).parents[2]


@given(st.text(max_size=300), st.text(max_size=300))
def test_estimate_never_shrinks_when_text_is_added(a: str, b: str) -> None:
    assert estimate_tokens(a) <= estimate_tokens(a + b) <= estimate_tokens(a) + estimate_tokens(b)


def test_estimate_goes_by_the_endpoints_figures_once_there_are_enough() -> None:
    assert Estimate(((100, 50),)).bytes_per_token == BYTES_PER_TOKEN
    corrected = Estimate().corrected([(3_000, 1_000), (6_000, 2_000)])
    assert corrected.bytes_per_token == 3.0
    assert corrected.count("x" * 3_000) == round(1_000 * MARGIN)
    assert corrected.about == "estimated, 3.00 bytes per token + 10%"


@pytest.mark.parametrize("usage", [(10_000, 20_000), (10_000, 700)])
def test_figures_that_cannot_be_are_not_believed(usage: tuple[int, int]) -> None:
    assert Estimate((usage,)).bytes_per_token == BYTES_PER_TOKEN


def test_figures_are_read_from_the_records_of_calls() -> None:
    calls = (
        {"prompt_bytes": 900, "usage": {"prompt_tokens": 300}},
        {"prompt_bytes": 900, "usage": None},
        {"usage": {"prompt_tokens": 5}},
        {"prompt_bytes": 900, "usage": {"prompt_tokens": "many"}},
        {"argv": ["llm"]},
    )
    made = samples.attempt(1, samples.verified())
    assert usage_of([replace(made, proposal=replace(made.proposal, calls=calls))]) == [(900, 300)]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A byte-level BPE like those of large models, trained on some of this repository's own texts."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=8_000, initial_alphabet=alphabet, show_progress=False)
    made.train_from_iterator(real_texts()[::6], trainer)
    file = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    made.save(str(file))
    return file


@functools.cache
def real_texts() -> tuple[str, ...]:
    """Return texts of the kinds that prompts hold: kernels, sources, documents, English and Chinese, well mixed."""
    found = []
    for pattern in ("guide/*.md", "docs/*.md", "kope/**/*.py", "kope/**/*.cpp", "kope/**/*.h", "tests/**/*.py"):
        for path in sorted(ROOT.glob(pattern)):
            text = path.read_text("utf-8")
            found += [text[at : at + 2_000] for at in range(0, len(text), 2_000) if len(text) - at > 400]
    random.Random(1).shuffle(found)
    return tuple(found)


def test_tokenizer_on_disk_counts_exactly(tokenizer: Path) -> None:
    from tokenizers import Tokenizer

    counter = counter_for(tokenizer)
    text = "DataCopyPad(y[at], x, copy); // 对齐"
    assert counter.count(text) == len(Tokenizer.from_file(str(tokenizer)).encode(text).ids)
    assert counter.corrected([(10_000, 5_000)]) == counter == Exact(tokenizer)
    assert counter.about == "counted by tokenizer.json"


def test_budget_is_not_overrun_beyond_the_margin_on_500_real_texts(tokenizer: Path) -> None:
    """The tokenizer stands for an endpoint: it says what a few prompts cost, then 500 texts are put into others."""
    exact = Exact(tokenizer)
    first, rest = real_texts()[:80], real_texts()[80:580]
    assert len(rest) == 500
    usage = [(len(text.encode()), exact.count(text)) for text in ("\n".join(first[at::8]) for at in range(8))]
    corrected = Estimate().corrected(usage)
    prompts = ["\n".join(rest[at::50]) for at in range(50)]
    ratios = [exact.count(text) / corrected.count(text) for text in prompts]
    assert min(ratios) > 0.5 and max(ratios) <= MARGIN
    assert Estimate().bytes_per_token != corrected.bytes_per_token


def test_prompts_filled_with_500_real_texts_keep_their_budget_within_the_margin(tokenizer: Path) -> None:
    """Prompts whose documentation is real texts, as many as fit, as the tokenizer counts them."""
    exact = Exact(tokenizer)
    first, rest = real_texts()[:80], real_texts()[80:580]
    usage = [(len(text.encode()), exact.count(text)) for text in ("\n".join(first[at::8]) for at in range(8))]
    counter = Estimate().corrected(usage)
    shares = []
    for at in range(0, 500, 5):
        found = [Passage(f"p{place}", "docs", "a part", text) for place, text in enumerate(rest[at : at + 5])]
        budget = Budget(window=5_000 + 4 * at, generation=1_000, warm=2_000, cold=20_000)
        sources = replace(samples.SOURCES, counter=counter, passages=lambda _question, _limit, found=found: found)
        made = assemble(samples.refine_state(), samples.BRIEFING, budget, sources)
        assert made.tokens == counter.count(made.text) <= budget.prompt
        shares.append(exact.count(made.text) / budget.prompt)
    assert 0.8 < max(shares) <= MARGIN
    assert sum(share <= 1.0 for share in shares) >= 98
    assert sum(share > 0.6 for share in shares) > 80


def test_unusable_tokenizer_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"the tokenizer .*t\.json cannot be read .*set `tokenizer` to"):
        counter_for(tmp_path / "t.json")
