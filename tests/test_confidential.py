"""A secret is one wherever it turns up: in a prompt, in an export, in what an endpoint says."""

from __future__ import annotations

import pytest

from kope import confidential
from kope.memory.share import Redactor
from kope.propose import secret

SAMPLES = (
    "sk-ant-api03-" + "Zx9" * 12,
    "ghu_" + "a1B2" * 9,
    "xoxb-" + "1234567890-abcdef",
    "AKIA" + "ABCDEFGHIJKLMNOP",
    "AIza" + "Sy0123456789" * 3,
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
    "Bearer abcdefghijklmnop",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
    'api_key = "hunter2222"',
    "secret: 0123456789abcdef",
)


def test_there_is_a_sample_of_every_form() -> None:
    assert [sum(1 for form in confidential.FORMS if form.search(sample)) for sample in SAMPLES] == [1] * len(SAMPLES)
    assert len(confidential.FORMS) == len(SAMPLES)


@pytest.mark.parametrize("sample", SAMPLES)
def test_every_form_is_taken_out_everywhere(sample: str) -> None:
    text = f"before {sample} after"
    assert confidential.without_secrets(text) == f"before {confidential.MARK} after"
    assert Redactor().replace(text) == f"before {confidential.MARK} after"
    assert secret.Redactor("").text(text) == f"before {secret.HIDDEN} after"


@pytest.mark.parametrize(
    "text",
    [
        "uint32_t secretSize = tokenNum * passwordLen;",
        "auto keyIdx = blockIdx; accessKey(1); AKIAN = 3;",
        "the secret: overlap the copies",
    ],
)
def test_code_and_prose_stay(text: str) -> None:
    assert confidential.without_secrets(text) == text
