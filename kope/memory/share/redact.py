"""What must not leave with an export, found in a text and replaced: secrets, home paths, names of people and machines.

Secrets by the forms KOPE knows everywhere and, beside them, the patterns of detect-secrets; its guesses by entropy and
by the words around are not used: kernels are full of hashes, and of variables called `token`.
Which texts are looked at is export's business.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kope import confidential

# Parts are bounded, so that no text takes more than a time in proportion to its length: it may be a stranger's.
_HOMES = (
    r"(?<![\w.])(?:/[\w.-]+)*?/(?:home|Users)/[^/\s\"'`:;,)\]}<>|]+(?:/[^\s\"'`:;,)\]}<>|]*)?",
    r"(?<![\w.])/root(?:/[^\s\"'`:;,)\]}<>|]*)?(?![\w-])",
    r"(?i)\b[a-z]:\\+users\\+[^\\\s\"'`:;,)\]}<>|]+(?:\\+[^\\\s\"'`:;,)\]}<>|]+)*",
    r"(?<![\w/])~[a-z_][\w-]*/[^\s\"'`:;,)\]}<>|]+",
)
_TLD = (
    "com|org|net|edu|gov|io|ai|dev|cn|de|uk|fr|jp|ru|in|eu|ch|nl|se|kr|us|"
    "local|internal|intra|lan|corp|home|localdomain"
)
_NAMES = (
    rf"\b[A-Za-z0-9._%+-]{{1,64}}@(?:[A-Za-z0-9-]{{1,63}}\.){{1,8}}(?:{_TLD})\b(?![.(\[])",
    r"\b[a-z_][\w.-]{0,64}@[A-Za-z0-9][\w.-]{0,253}(?=:[~/])",
    # hosts of an internal network: three labels, or a hyphen, which no member of a C++ object has
    r"(?i)\b(?:(?:[a-z0-9][a-z0-9-]{0,62}\.){2,8}|[a-z0-9]{1,62}-[a-z0-9-]{0,62}\.)"
    r"(?:local|internal|intra|lan|corp|localdomain|home\.arpa)\b",
)
_PUBLIC = (
    r"(?:www\.)?(?:apache\.org|github\.com|gitee\.com|gitcode\.com|hiascend\.com|huggingface\.co|arxiv\.org|pypi\.org|"
    r"wikipedia\.org|python\.org|pytorch\.org|numpy\.org|llvm\.org)"
)
_OCTET = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
_ADDRESSES = (
    rf"\b(?:https?|wss?|grpc|tcp|ssh|ftp)://(?!{_PUBLIC}[/\s\"'),])[^\s\"'`<>)\]}}]+",
    rf"(?<![\w.])(?!127\.|0\.0\.0\.0){_OCTET}\.{_OCTET}\.{_OCTET}\.{_OCTET}(?::\d{{1,5}})?(?![\w.])",
    r"(?i)(?<![\w:.])(?:[0-9a-f]{1,4}:){4,7}[0-9a-f]{1,4}(?![\w:])",
    r"(?i)(?<![\w:])(?:fe80|f[cd][0-9a-f]{2})::?(?:[0-9a-f]{1,4}:?){1,7}(?![\w:])",
    r"\b[a-z]{2}[a-z0-9]{0,61}(?:-[a-z0-9]{1,62}){1,8}:\d{4,5}\b",
)
_GATES = {
    confidential.FORMS[1].pattern: r"[_-][A-Za-z0-9_-]{20}",
    confidential.FORMS[8].pattern: r"(?:key|token|secret|passwd|password|pwd)[\"']?[ \t]*[:=]",
    _HOMES[3]: r"~[a-z_]",
    _NAMES[0]: r"@[A-Za-z0-9]",
    _NAMES[1]: r"@[A-Za-z0-9]",
    _NAMES[2]: r"\.(?:local|internal|intra|lan|corp|home)",
    _ADDRESSES[1]: r"\.\d{1,3}\.\d{1,3}\.",
    _ADDRESSES[2]: r":[0-9a-f]{1,4}:[0-9a-f]{1,4}:",
    _ADDRESSES[3]: r":(?<=(?:fe80|f[cd]..):)",
    _ADDRESSES[4]: r"-[a-z0-9]+:\d{4}",
    # of detect-secrets
    r"\d{8,10}:[0-9A-Za-z_-]{35}": r":[0-9A-Za-z_-]{35}",
    r"[MNO][a-zA-Z\d_-]{23,25}\.[a-zA-Z\d_-]{6}\.[a-zA-Z\d_-]{27}": r"\.[a-zA-Z\d_-]{6}\.",
}
"""Pattern -> a cheaper one that is in every match (of lower-case text, where the pattern ignores case): one that begins
with a rare character is looked for twenty times as fast as one that begins with a class of common ones."""
_OWN_RULES = frozenset(
    {"ip_public", "private_key", "jwt", "npm", "cloudant", "ibm_cloud_iam", "ibm_cos_hmac", "softlayer"}
)
_COMMON = frozenset(
    {
        "root", "user", "users", "admin", "ubuntu", "debian", "centos", "runner", "build", "builder", "test", "tests",
        "work", "home", "local", "localhost", "host", "nobody", "jenkins", "docker", "vscode", "default", "server",
        "node", "main", "kope", "linux", "master", "worker",
    }
)  # fmt: skip
"""Names of accounts and machines that name nobody, and that any text may hold as words."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that must not leave. kind: secret, home, name or address. text: what was found."""

    kind: str
    text: str

    @property
    def masked(self) -> str:
        """What may be shown of it: the beginning, which names its kind, and its length."""
        shown = 3 if self.kind == "secret" else 6
        return f"{self.text[:shown]}... ({len(self.text)} characters)" if len(self.text) > shown else "..."


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern, and how to see in passing that a text cannot match: none of the literals is in it.

    gate: instead of literals a cheaper pattern that is in every match.
    """

    kind: str
    pattern: re.Pattern[str]
    literals: tuple[str, ...]
    gate: re.Pattern[str] | None = None

    @classmethod
    def of(cls, kind: str, pattern: re.Pattern[str]) -> Rule:
        """Return the rule of a pattern."""
        gate = _GATES.get(pattern.pattern)
        return cls(kind, pattern, () if gate else literals_of(pattern), re.compile(gate) if gate else None)

    def may_match(self, text: str, lower: str) -> bool:
        """Whether it is worth looking. lower: the same text in lower case."""
        within = lower if self.pattern.flags & re.IGNORECASE else text
        if self.gate is not None:
            return self.gate.search(within) is not None
        return not self.literals or any(literal in within for literal in self.literals)


class Redactor:
    """Finds and replaces. names: of this machine and its people, and of endpoints in the settings; whole words."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        words = sorted({name for name in names if len(name) > 2 and name.lower() not in _COMMON}, key=len, reverse=True)
        self.rules = list(_rules())
        if words:
            own = re.compile(rf"(?i)(?<![A-Za-z0-9])(?:{'|'.join(map(re.escape, words))})(?![A-Za-z0-9])")
            self.rules.append(Rule.of("name", own))

    def find(self, text: str) -> Iterator[Finding]:
        """Yield what must not leave, kind by kind."""
        for rule in self._worth_looking(text):
            for match in rule.pattern.finditer(text):
                if match.group():
                    yield Finding(rule.kind, match.group())

    def is_clean(self, text: str) -> bool:
        """Whether there is nothing to find."""
        return not any(rule.pattern.search(text) for rule in self._worth_looking(text))

    def replace(self, text: str) -> str:
        """Return the text with every finding replaced by its kind in brackets; until nothing is found any more."""
        for _ in range(4):
            before = text
            for rule in self._worth_looking(text):
                text = rule.pattern.sub(f"[{rule.kind}]", text)
            if text == before:
                break
        return text

    def _worth_looking(self, text: str) -> list[Rule]:
        lower = text.lower()
        return [rule for rule in self.rules if rule.may_match(text, lower)]


@cache
def _rules() -> tuple[Rule, ...]:
    """Return the rules in the order they are applied: an address whole, before what is secret in it."""
    rules = [Rule.of("secret", form) for form in confidential.FORMS]
    for kind, patterns in (("address", _ADDRESSES), ("home", _HOMES), ("name", _NAMES)):
        rules += [Rule.of(kind, re.compile(pattern)) for pattern in patterns]
    return (*rules, *(Rule.of("secret", pattern) for pattern in detector_patterns()))


def literals_of(pattern: re.Pattern[str]) -> tuple[str, ...]:
    """Return texts of which every match has one, () when the pattern names none; lower-case when it ignores case.

    Read from the tree that `re` itself makes of a pattern.
    """
    import importlib

    tree = importlib.import_module("re._parser").parse(pattern.pattern, pattern.flags)
    found = _required(tree)
    return tuple(sorted({each.lower() for each in found} if pattern.flags & re.IGNORECASE else found))


def _required(items: Any) -> frozenset[str]:
    """Return the most telling set of literals in a sequence: the one whose shortest member is longest."""
    found: list[frozenset[str]] = []
    run = ""
    for operation, value in items:
        name = str(operation)
        if name == "LITERAL":
            run += chr(value)
            continue
        found.append(frozenset({run}))
        run = ""
        if name == "SUBPATTERN":
            found.append(_required(value[-1]))
        elif name in ("MAX_REPEAT", "MIN_REPEAT") and value[0] > 0:
            found.append(_required(value[2]))
        elif name == "BRANCH":
            branches = [_required(branch) for branch in value[1]]
            found.append(frozenset().union(*branches) if all(branches) else frozenset())
    found.append(frozenset({run}))
    telling = [each for each in found if each and min(map(len, each)) > 1]
    return max(telling, key=lambda each: (min(map(len, each)), -len(each)), default=frozenset())


def names_here(addresses: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the names that would tell whose machine this is: account, home folder, host; hosts of the addresses."""
    import pwd

    found = [os.uname().nodename, *os.uname().nodename.split(".")[:1], Path.home().name]
    try:
        entry = pwd.getpwuid(os.getuid())
        found += [entry.pw_name, *entry.pw_gecos.split(",")[:1]]
    except KeyError:  # an account without an entry, as in some containers
        pass
    for address in addresses:
        host = urlsplit(address if "//" in address else f"//{address}").hostname
        found += [host] if host else []
    return tuple(dict.fromkeys(name for name in found if name))


@cache
def detector_patterns() -> tuple[re.Pattern[str], ...]:
    """Return the patterns of detect-secrets: of every detector that has some and for which there is no rule here."""
    import importlib
    import pkgutil

    from detect_secrets import plugins
    from detect_secrets.plugins.base import RegexBasedDetector

    found: dict[str, re.Pattern[str]] = {}
    for module in pkgutil.iter_modules(plugins.__path__):
        loaded = importlib.import_module(f"{plugins.__name__}.{module.name}")
        for value in vars(loaded).values():
            is_detector = isinstance(value, type) and issubclass(value, RegexBasedDetector)
            if is_detector and value is not RegexBasedDetector and module.name not in _OWN_RULES:
                for pattern in value.denylist:
                    found[pattern.pattern] = pattern
    return tuple(found.values())
