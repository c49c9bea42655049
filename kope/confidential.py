"""What a secret looks like: keys, tokens and passwords, by the forms they are given. The one list of them.

Read by prompts (retrieved text), by exports (which add the patterns of detect-secrets), and by what endpoints say.
What else must not leave with an export, such as paths and names, is redact's business.
"""

from __future__ import annotations

import re

MARK = "[secret]"
"""What stands where a secret was."""

_WORD = r"A-Za-z0-9_-"
FORMS: tuple[re.Pattern[str], ...] = (
    # keys and tokens, by the beginnings their makers give them
    re.compile(rf"(?<![{_WORD}])(?:sk-|rk-|pk-)(?:ant-|proj-|or-v1-|svcacct-|lf-)?[{_WORD}]{{20,}}"),
    re.compile(
        rf"(?<![{_WORD}])(?:hf_|gsk_|xai-|nvapi-|pplx-|r8_|fw_|tgp_v1_|github_pat_|ghp_|gho_|ghu_|ghs_|ghr_|glpat-)[{_WORD}]{{20,}}"
    ),
    re.compile(rf"(?<![{_WORD}])xox[abposr]-[{_WORD}]{{10,}}"),
    re.compile(rf"(?<![{_WORD}])(?:AKIA|ASIA)[0-9A-Z]{{16}}(?![{_WORD}])"),
    re.compile(rf"(?<![{_WORD}])AIza[{_WORD}]{{30,}}"),
    re.compile(rf"(?<![{_WORD}])eyJ[{_WORD}]{{5,}}\.[{_WORD}]{{5,}}(?:\.[{_WORD}]*)?"),
    re.compile(r"\bbearer[ \t]+[A-Za-z0-9._~+/=-]{12,}", re.IGNORECASE),
    re.compile(
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
        r".*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\Z)",
        re.DOTALL,
    ),
    # a value given to what is named like a secret: quoted, or with a digit in it, which an expression rarely is; the
    # digit is not looked for without end, so that no text takes more than a time in proportion to its length
    re.compile(
        r"(?:(?:api|secret|access|account|private|auth|client)[_-]?(?:key|token|secret)|passwd|password|pwd)"
        r"[\"']?[ \t]*[:=][ \t]*(?:\"(?!\[secret\])[^\"\n]{4,}\""
        r"|'(?!\[secret\])[^'\n]{4,}'|(?=[^\s,;()]{0,200}[0-9])[^\s,;()\"'*\[\]]{6,})",
        re.IGNORECASE,
    ),
    re.compile(r"\bsecret[\"']?[ \t]*[:=][ \t]*[\"']?(?=\S{0,200}\d)[\w+/=-]{16,}", re.IGNORECASE),
)


def _scoped(form: re.Pattern[str]) -> str:
    flags = "".join(letter for letter, flag in (("i", re.IGNORECASE), ("s", re.DOTALL)) if form.flags & flag)
    return f"(?{flags}:{form.pattern})"


ANY = re.compile("|".join(map(_scoped, FORMS)))
"""All forms in one."""


def without_secrets(text: str) -> str:
    """Return text with every secret replaced by the mark."""
    return ANY.sub(MARK, text)
