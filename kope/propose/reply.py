"""Turn what a model answered into one source file, or into the reason why that cannot be done.

Understands whole files, several files and edits. Whether the source compiles or is right is the evaluator's business;
asking again is the proposer's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from kope.propose.blocks import Block, normalized, split_blocks, split_reasoning
from kope.propose.edits import Edit, EditProblem, apply_edits, find_diff, find_edits

THOUGHT_LIMIT = 600
UNBALANCED = "its braces do not balance: the code is not whole"
UNCHANGED = "the reply changes nothing in the source it was given"
SOURCE_LIMIT_BYTES = 1 << 20
_ENTRY = re.compile(r"\bkope_entry\s*\([^)]*\)\s*(?:noexcept\s*)?\{")
_DEVICE = re.compile(r"\b__aicore__\b")
_UNCODE = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.DOTALL)
_ELISION = re.compile(
    r"^\s*(?://|/\*)\s*(?:\.{3}|…).{0,80}\b(?:rest|unchanged|same|existing|previous|omitted|remaining|before)\b",
    re.MULTILINE,
)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"(?:[\w./-]*/)?(?P<name>[\w.-]+)"[^\n]*$', re.MULTILINE)
_CODE_START = re.compile(r"^\s*(?:#\s*(?:include|define|pragma|if)|//|/\*|(?:extern|namespace|using|template)\b)")
_CODE_END = re.compile(r"(?:[};]|\*/|#\s*endif\b.*)\s*(?://.*)?$")
_MOVE = re.compile(r"^\W*move\W*?:\W*(?P<name>[a-z][a-z0-9]*(?:-[a-z0-9]+)*)\b[^\n]*$", re.IGNORECASE | re.MULTILINE)
_OURS = frozenset({"kernel_operator.h", "kope_candidate.h"})


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """A reply read.

    source: the whole file to try, None when there is none; `problem` then says why, in words that the model can act on.
    form: "file", "files", "edits" or "". move: the name the reply gave its change, "" when none. thought: its prose.
    marks: what was unusual and accepted ("from reasoning", "fence left open", "last of 2 kernels").
    cut: the code was cut off by the length limit, so that asking again with more room can help.
    """

    source: str | None
    form: str = ""
    move: str = ""
    thought: str = ""
    marks: tuple[str, ...] = ()
    problem: str = ""
    cut: bool = False


def parse_reply(
    text: str, *, shown: str | None, prompt: str = "", reasoning: str = "", cut: bool = False
) -> ParsedReply:
    """Read a reply.

    shown: the source that the prompt showed and edits apply to. prompt: what was asked; code repeated from it is not an
    answer. reasoning: what the endpoint delivered apart from the content. cut: it stopped at the length limit.
    """
    inner, content = split_reasoning(normalized(text))
    if content.strip():
        return _read(_unwrapped(content), shown, prompt, cut)
    thinking = "\n".join(part for part in (normalized(reasoning), inner) if part.strip())
    if not thinking.strip():
        return ParsedReply(None, problem="the reply is empty", cut=cut)
    found = _read(thinking, shown, prompt, cut)
    if found.source is None:
        rest = " and was cut by the length limit" if cut else "; give the answer after it"
        return ParsedReply(None, problem=f"the reply holds reasoning only{rest}", cut=cut)
    return replace(found, thought="", marks=("from reasoning", *found.marks))


def _unwrapped(content: str) -> str:
    """Return the longest string in a text that is one JSON object, else the text itself."""
    if not content.lstrip().startswith("{"):
        return content
    try:
        value = json.loads(content)
    except ValueError:
        return content
    return normalized(max(_strings(value), key=len, default=content))


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _strings(item)


def _read(content: str, shown: str | None, prompt: str, cut: bool) -> ParsedReply:
    fenced, prose = split_blocks(content)
    blocks = tuple(replace(block, text=_unwrapped(block.text)) for block in fenced)
    found = _file(blocks, content, shown, prompt, cut)
    if found.source is None:
        found = _edited(content, blocks, shown, cut) or found
    if found.source is not None:
        found = _checked(found, shown)
    named = _MOVE.search(prose)
    return replace(found, move=named["name"].lower() if named else "", thought=_thought(prose, content))


def _thought(prose: str, content: str) -> str:
    if find_edits(content) or _is_kernel(prose):
        prose = re.split(r"^\s*(?:<{5,}|#\s*include)", prose, maxsplit=1, flags=re.MULTILINE)[0]
    flat = " ".join(_MOVE.sub("", prose).split())
    return flat if len(flat) <= THOUGHT_LIMIT else f"{flat[:THOUGHT_LIMIT].rstrip()} ..."


# --- whole files ----------------------------------------------------------------------------------------------------


def _file(blocks: Sequence[Block], content: str, shown: str | None, prompt: str, cut: bool) -> ParsedReply:
    asked = _squeezed(prompt)
    fresh = _distinct([block for block in blocks if not _echoed(block.text, asked) and not find_edits(block.text)])
    kernels = [block for block in fresh if _is_kernel(block.text)]
    if kernels:
        return _chosen(kernels, fresh, cut)
    joined = _joined(fresh, cut)
    if joined:
        return joined
    if not blocks and not find_edits(content):
        bare = _bare(content, asked, cut)
        if bare:
            return bare
    problem = _why_none(blocks, fresh, content, asked, shown)
    return ParsedReply(None, problem=problem, cut=cut and _may_be_cut(blocks, content))


def _distinct(blocks: Sequence[Block]) -> list[Block]:
    """Drop repetitions, and open blocks that are the beginning of another: a model in a loop."""
    kept: list[Block] = []
    for block in blocks:
        squeezed = _squeezed(block.text)
        if not squeezed or any(_squeezed(other.text) == squeezed for other in kept):
            continue
        if not block.closed and any(_squeezed(other.text).startswith(squeezed) for other in kept):
            continue
        kept.append(block)
    return kept


def _chosen(kernels: Sequence[Block], fresh: Sequence[Block], cut: bool) -> ParsedReply:
    closed = [block for block in kernels if block.closed]
    block = (closed or kernels)[-1]
    marks = [f"last of {len(kernels)} kernels"] if len(kernels) > 1 else []
    if not block.closed:
        if cut:
            return ParsedReply(None, problem="the code was cut off by the length limit", cut=True)
        if not _balanced(block.text):
            return ParsedReply(None, problem=f"the code block is not closed and {UNBALANCED}")
        marks.append("fence left open")
    others = [other for other in fresh if other is not block]
    source, inlined = _inlined(block.text, {other.file_name: other.text for other in others if other.file_name})
    return ParsedReply(source, "files" if inlined else "file", marks=tuple(marks))


def _joined(fresh: Sequence[Block], cut: bool) -> ParsedReply | None:
    """Device code and host entry in blocks of their own: one file, device code first."""
    hosts = [block for block in fresh if _has(_ENTRY, block.text)]
    devices = [block for block in fresh if block not in hosts and _has(_DEVICE, block.text)]
    if len(hosts) != 1 or not devices:
        return None
    if cut and not all(block.closed for block in (*hosts, *devices)):
        return ParsedReply(None, problem="the code was cut off by the length limit", cut=True)
    files = {block.file_name: block.text for block in fresh if block.file_name and block is not hosts[0]}
    source, inlined = _inlined(hosts[0].text, files)
    left = [block for block in devices if block.file_name not in inlined]
    parts = [_without_once(_inlined(block.text, files)[0]) for block in left]
    return ParsedReply("\n".join([*parts, source]), "files")


def _inlined(source: str, files: Mapping[str, str]) -> tuple[str, frozenset[str]]:
    """Put the reply's own files where they are included, each once; the toolkit's headers stay."""
    done: set[str] = set()

    def put(found: re.Match[str]) -> str:
        name = found["name"]
        if name not in files or name in _OURS:
            return found[0]
        if name in done:
            return ""
        done.add(name)
        return _INCLUDE.sub(put, _without_once(files[name]).rstrip("\n"))

    return _INCLUDE.sub(put, source), frozenset(done)


def _without_once(text: str) -> str:
    return re.sub(r"^[ \t]*#[ \t]*pragma[ \t]+once[ \t]*\n", "", text, flags=re.MULTILINE)


def _bare(content: str, asked: str, cut: bool) -> ParsedReply | None:
    """A kernel without any fence: from the first line of code to the last."""
    if not _is_kernel(content):
        return None
    lines = content.split("\n")
    first = next((k for k, line in enumerate(lines) if _CODE_START.match(line)), len(lines))
    last = max((k for k, line in enumerate(lines) if _CODE_END.search(line)), default=len(lines) - 1)
    source = "\n".join(lines[first : last + 1]) + "\n"
    if not _is_kernel(source) or _echoed(source, asked):
        return None
    if not _balanced(source):
        return ParsedReply(None, problem=UNBALANCED, cut=cut)
    return ParsedReply(source, "file", marks=("no fence",))


# --- edits ----------------------------------------------------------------------------------------------------------


def _edited(content: str, blocks: Sequence[Block], shown: str | None, cut: bool) -> ParsedReply | None:
    edits = find_edits(content) or find_diff(blocks)
    if not edits:
        return None
    if cut and not all(edit.closed for edit in edits):
        return ParsedReply(None, "edits", problem="the edits were cut off by the length limit", cut=True)
    whole = _whole_in_edit(edits)
    if whole:
        return ParsedReply(whole, "file", marks=("whole file in an edit",))
    if shown is None:
        problem = "edits need a source to change and there is none; send the whole file"
        return ParsedReply(None, "edits", problem=problem)
    try:
        source = apply_edits(shown, edits)
    except EditProblem as refused:
        return ParsedReply(None, "edits", problem=str(refused))
    return ParsedReply(source, "edits", marks=() if all(edit.closed for edit in edits) else ("edit left open",))


def _whole_in_edit(edits: Sequence[Edit]) -> str | None:
    """An empty SEARCH with a whole kernel is a whole file."""
    only = edits[0] if len(edits) == 1 else None
    if only is None or only.search.strip() or only.replace is None or not _is_kernel(only.replace):
        return None
    return only.replace + "\n"


# --- judging text -----------------------------------------------------------------------------------------------------


def _checked(found: ParsedReply, shown: str | None) -> ParsedReply:
    """Refuse sources that cannot be a candidate, whatever form they came in."""
    assert found.source is not None
    problem = _flaw(found.source, shown)
    return ParsedReply(None, found.form, problem=problem) if problem else found


def _flaw(source: str, shown: str | None) -> str:
    try:
        size = len(source.encode("utf-8"))
    except UnicodeEncodeError:
        return "the source holds characters that are not valid Unicode"
    if "\0" in source:
        return "the source holds zero bytes"
    if size > SOURCE_LIMIT_BYTES:
        return f"the source is {size} bytes long; the limit is {SOURCE_LIMIT_BYTES}"
    if shown is not None and _squeezed(source) == _squeezed(shown):
        return UNCHANGED
    elided = _ELISION.search(source)
    if elided:
        return f"the file leaves parts out (`{elided[0].strip()}`); send it whole, or as edits"
    if not _is_kernel(source):
        return "after the edits there is no kope_entry or no __aicore__ kernel left"
    return ""


def _is_kernel(text: str) -> bool:
    return _has(_ENTRY, text) and _has(_DEVICE, text)


def _has(pattern: re.Pattern[str], text: str) -> bool:
    """Whether a pattern occurs in code, comments and literals left out."""
    return pattern.search(_UNCODE.sub(" ", text)) is not None


def _balanced(source: str) -> bool:
    code = _UNCODE.sub(" ", source)
    return code.count("{") == code.count("}") > 0


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _echoed(text: str, asked: str) -> bool:
    squeezed = _squeezed(text)
    return bool(squeezed) and squeezed in asked


def _may_be_cut(blocks: Sequence[Block], content: str) -> bool:
    return not blocks or not blocks[-1].closed or not content.strip()


def _why_none(blocks: Sequence[Block], fresh: Sequence[Block], content: str, asked: str, shown: str | None) -> str:
    said = " ".join(content.split())[:200]
    if not blocks:
        return f"the reply holds no code block; it says: {said}"
    if not fresh and any(_echoed(block.text, asked) for block in blocks):
        return "the reply only repeats code of the prompt" if shown is None else UNCHANGED
    if not fresh:
        return "the code block is empty"
    parts = {'extern "C" int kope_entry(const KopeCall* call) { ... }': _ENTRY, "an __aicore__ kernel": _DEVICE}
    missing = [name for name, pattern in parts.items() if not any(_has(pattern, block.text) for block in fresh)]
    return f"no code block holds the whole file; missing: {' and '.join(missing) or 'both in one file'}"
