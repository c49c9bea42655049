"""The reply parser: every form in which models were seen to answer, and edits that drift."""

from __future__ import annotations

import difflib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kope.propose.blocks import split_blocks
from kope.propose.edits import Edit, EditProblem, apply_edits, find_edits
from kope.propose.reply import THOUGHT_LIMIT, UNBALANCED, parse_reply

DEVICE = """#include "kernel_operator.h"
#include "kope_candidate.h"

struct Tiling {
    int64_t total;
    int32_t tile;
};

extern "C" __global__ __aicore__ void exp_kernel(GM_ADDR x, GM_ADDR y, Tiling tiling)
{
    for (int32_t k = 0; k < 4; ++k) {
        Copy(k);
    }
    for (int32_t k = 4; k < 8; ++k) {
        Copy(k);
    }
}
"""
HOST = """
extern "C" int kope_entry(const KopeCall* call)
{
    Tiling tiling{call->inputs[0].numel, 1024};
    exp_kernel<<<call->vector_core_count, nullptr, call->stream>>>(call->inputs[0].data, call->outputs[0].data, tiling);
    return 0;
}
"""
KERNEL = DEVICE + HOST
FASTER = KERNEL.replace("1024", "4096")
PROMPT = f"Make it faster.\n```cpp\n{KERNEL}```\nAnswer with one ```cpp ... ``` block."


def read(text: str, *, shown: str | None = None, cut: bool = False, reasoning: str = "", prompt: str = ""):
    return parse_reply(text, shown=shown, prompt=prompt, reasoning=reasoning, cut=cut)


WHOLE = {
    "one clean fence": (f"```cpp\n{KERNEL}```", ()),
    "prose before and after": (f"Here it is:\n\n```cpp\n{KERNEL}```\n\nThis kernel uses all cores.", ()),
    "wrong tag": (f"```csharp\n{KERNEL}```", ()),
    "no tag": (f"```\n{KERNEL}```", ()),
    "attributes in the info string": (f'```cpp title="a b" {{.numberLines}}\n{KERNEL}```', ()),
    "tildes": (f"~~~cpp\n{KERNEL}~~~", ()),
    "longer fence around a shorter one in a comment": (f"````cpp\n{KERNEL}````", ()),
    "CRLF": (f"```cpp\n{KERNEL}```\n".replace("\n", "\r\n"), ()),
    "byte order mark": (f"\ufeff```cpp\n{KERNEL}```", ()),
    "indented in a list": (
        "1. So:\n\n   ```cpp\n"
        + "".join(f"   {line}\n" if line else "\n" for line in KERNEL[:-1].split("\n"))
        + "   ```",
        (),
    ),
    "closing fence at the end of a code line": (f"```cpp\n{KERNEL.rstrip()}```\nDone.", ()),
    "closing fence followed by prose": (f"```cpp\n{KERNEL}``` This one is faster.", ()),
    "open fence, finished": (f"```cpp\n{KERNEL}", ("fence left open",)),
    "first fence never closed, then another tag": (f"```cpp\n{KERNEL}```text\nnotes\n```", ("fence left open",)),
    "no fence at all": (f"Here it is:\n{KERNEL}\nIt should be fast.", ("no fence",)),
    "xml tags": (f"<answer>\n<code>\n{KERNEL}</code>\n</answer>", ("no fence",)),
    "json": (json.dumps({"thought": "all cores", "code": KERNEL}), None),
    "json in a fence": ("```json\n" + json.dumps({"files": [{"name": "k.asc", "text": KERNEL}]}) + "\n```", ()),
    "agent's json around a fenced reply": (json.dumps({"result": f"ok\n```cpp\n{KERNEL}```", "cost": 0.1}), ()),
    "reasoning in the content, with code in it": (
        f"<think>\n```cpp\n{FASTER}```\nno\n</think>\n```cpp\n{KERNEL}```",
        (),
    ),
    "end of reasoning only": (f"maybe\n```cpp\n{FASTER}```\n</think>\n\n```cpp\n{KERNEL}```", ()),
    "the same block again and again": (f"```cpp\n{KERNEL}```\n\n" * 3, ()),
    "other blocks around": (f"```bash\nmake\n```\n```cpp\n{KERNEL}```\n```text\nok\n```", ()),
    "several kernels": (f"Option 1:\n```cpp\n{FASTER}```\nOption 2:\n```cpp\n{KERNEL}```", ("last of 2 kernels",)),
}


@pytest.mark.parametrize("name", WHOLE)
def test_whole_file_is_read_in_every_form(name: str) -> None:
    text, marks = WHOLE[name]
    found = read(text)
    assert found.source is not None, found.problem
    assert found.source.strip() == KERNEL.strip()
    assert (found.form, found.problem, found.cut) == ("file", "", False)
    if marks is not None:
        assert found.marks == marks


def test_line_separators_of_unicode_stay_in_the_code() -> None:
    source = KERNEL.replace("Copy(k);", "Copy(k); // a\u2028b\x85c\x0cd", 1)
    assert read(f"```cpp\n{source}```").source == source


def test_length_limit_after_a_whole_block_is_a_whole_reply() -> None:
    assert read(f"```cpp\n{KERNEL}```\nThis kernel is", cut=True).source == KERNEL


def test_length_limit_in_a_repetition_keeps_the_first_block() -> None:
    found = read(f"```cpp\n{KERNEL}```\n\n```cpp\n{KERNEL[:300]}", cut=True)
    assert (found.source, found.cut) == (KERNEL, False)


@pytest.mark.parametrize("text", [f"```cpp\n{KERNEL[:-30]}", "```", "", f"{KERNEL[:-30]}", "I will now"])
def test_length_limit_inside_the_code_asks_for_more_room(text: str) -> None:
    found = read(text, cut=True)
    assert (found.source, found.cut) == (None, True)


def test_open_fence_with_unbalanced_braces_is_not_whole() -> None:
    found = read(f"```cpp\n{KERNEL[:-30]}")
    assert (found.source, found.cut) == (None, False)
    assert found.problem == f"the code block is not closed and {UNBALANCED}"


def test_code_in_reasoning_is_taken_and_marked_when_the_content_is_empty() -> None:
    found = read("", reasoning=f"Let me write\n```cpp\n{KERNEL}```\n")
    assert (found.source, found.marks, found.thought) == (KERNEL, ("from reasoning",), "")


def test_code_in_reasoning_is_left_alone_when_there_is_content() -> None:
    found = read("Sorry, no.", reasoning=f"```cpp\n{FASTER}```")
    assert found.source is None
    assert found.problem == "the reply holds no code block; it says: Sorry, no."


def test_reasoning_that_ate_the_budget_is_cut_not_empty() -> None:
    found = read("", reasoning="Let me think about tiles", cut=True)
    assert (found.source, found.cut, found.problem) == (
        None,
        True,
        "the reply holds reasoning only and was cut by the length limit",
    )


def test_unclosed_think_section_is_no_answer() -> None:
    found = read(f"<think>\nhm\n```cpp\n{KERNEL}", cut=True)
    assert (found.source, found.cut) == (None, True)


UNUSABLE = {
    "": "the reply is empty",
    "I'm sorry, I can't help with that.": "the reply holds no code block; it says: I'm sorry, I can't help with that.",
    "```cpp\n```": "the code block is empty",
    "```cpp\n": "the code block is empty",
    f"```cpp\n{DEVICE}```": (
        'no code block holds the whole file; missing: extern "C" int kope_entry(const KopeCall* call) { ... }'
    ),
    f"```cpp\n{HOST}```": "no code block holds the whole file; missing: an __aicore__ kernel",
    '{"answer": "none", "ok": false}': "the reply holds no code block; it says: none",
    '{"code": "#include': 'the reply holds no code block; it says: {"code": "#include',
}


@pytest.mark.parametrize("text", UNUSABLE)
def test_unusable_reply_says_why(text: str) -> None:
    found = read(text)
    assert (found.source, found.problem) == (None, UNUSABLE[text])


def test_mention_of_the_entry_in_a_comment_is_not_a_definition() -> None:
    commented = KERNEL.replace(
        'extern "C" int kope_entry', '// kope_entry(const KopeCall* call) {\nextern "C" int other'
    )
    assert read(f"```cpp\n{commented}```").source is None


def test_text_of_the_prompt_never_passes_as_a_reply() -> None:
    found = read(PROMPT, prompt=PROMPT)
    assert (found.source, found.problem) == (None, "the reply only repeats code of the prompt")
    found = read(f"{PROMPT}\n```cpp\n{FASTER}```", prompt=PROMPT)
    assert found.source == FASTER


def test_unfenced_echo_of_the_prompt_is_no_reply() -> None:
    assert read(f"Sure.\n{KERNEL}", prompt=PROMPT).source is None


def test_source_returned_unchanged_is_no_reply() -> None:
    found = read(f"```cpp\n{KERNEL.replace('    ', chr(9))}```", shown=KERNEL, prompt=PROMPT)
    assert found.problem == "the reply changes nothing in the source it was given"


def test_file_that_leaves_parts_out_is_refused() -> None:
    shortened = KERNEL.replace("    return 0;\n", "    // ... rest unchanged ...\n    return 0;\n")
    found = read(f"```cpp\n{shortened}```")
    assert found.problem == "the file leaves parts out (`// ... rest unchanged`); send it whole, or as edits"


@pytest.mark.parametrize("bad", ["\ud800", "\0"])
def test_source_that_cannot_be_stored_is_refused(bad: str) -> None:
    found = read(f"```cpp\n{KERNEL}// {bad}\n```")
    assert found.source is None
    assert found.problem.startswith("the source holds")


def test_move_and_thought_are_read_from_the_prose() -> None:
    found = read(f"**Move:** `larger-tile`\nTiles of 4096 elements\nfill the buffer.\n```cpp\n{FASTER}```")
    assert (found.move, found.thought) == ("larger-tile", "Tiles of 4096 elements fill the buffer.")


def test_long_prose_is_shortened_and_says_so() -> None:
    found = read("word " * 1000 + f"\n```cpp\n{KERNEL}```")
    assert len(found.thought) <= THOUGHT_LIMIT + 4
    assert found.thought.endswith(" ...")


# --- several files --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fences",
    [
        "```cpp kernel.h\n{device}```\n\n```cpp main.asc\n{host}```",
        "**kernel.h**\n```cpp\n{device}```\n`main.asc`:\n```cpp\n{host}```",
        "```cpp\n// file: src/kernel.h\n{device}```\n```cpp\n// file: main.asc\n{host}```",
    ],
)
def test_named_files_are_put_where_they_are_included(fences: str) -> None:
    text = fences.format(
        device="#pragma once\n" + DEVICE, host='#include "kernel.h"\n#include "kope_candidate.h"\n' + HOST
    )
    found = read(text)
    assert found.form == "files", found.problem
    assert found.source is not None
    assert "#pragma once" not in found.source
    assert '"kernel.h"' not in found.source
    assert found.source.index("exp_kernel(GM_ADDR") < found.source.index("kope_entry(const KopeCall* call)")
    assert '#include "kope_candidate.h"' in found.source


def test_device_and_host_in_blocks_of_their_own_become_one_file() -> None:
    found = read(f"Host:\n```cpp\n{HOST}```\nDevice:\n```cpp\n{DEVICE}```")
    assert (found.form, found.source) == ("files", f"{DEVICE}\n{HOST}")


def test_second_of_two_files_cut_off_asks_for_more_room() -> None:
    found = read(f"```cpp\n{DEVICE}```\n```cpp\n{HOST[:-3]}", cut=True)
    assert (found.source, found.cut) == (None, True)


# --- edits ----------------------------------------------------------------------------------------------------------


def edit(search: str, replace: str) -> str:
    return f"<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE\n"


LINE = "    Tiling tiling{call->inputs[0].numel, 1024};"
EDITS = {
    "bare": edit(LINE, LINE.replace("1024", "4096")),
    "fenced": "Larger tiles.\n```cpp\n" + edit(LINE, LINE.replace("1024", "4096")) + "```\n",
    "fence per edit with file name": "main.asc\n```diff\n" + edit(LINE, LINE.replace("1024", "4096")) + "```",
    "CRLF": edit(LINE, LINE.replace("1024", "4096")).replace("\n", "\r\n"),
    "trailing whitespace": edit(LINE + "  \t", LINE.replace("1024", "4096")),
    "indentation lost": edit(LINE.strip(), LINE.replace("1024", "4096").strip()),
    "tabs for spaces": edit(LINE.replace("    ", "\t"), LINE.replace("    ", "\t").replace("1024", "4096")),
    "inner spaces": edit(LINE.replace(", ", ",   "), LINE.replace("1024", "4096")),
    "blank lines around": edit(f"\n\n{LINE}\n", LINE.replace("1024", "4096")),
    "part of a line": edit("numel, 1024};", "numel, 4096};"),
    "code glued to the end marker": f"<<<<<<< SEARCH\n{LINE}\n=======\n{LINE.replace('1024', '4096')}>>>>>>> REPLACE\n",
    "other words in the markers": edit(LINE, LINE.replace("1024", "4096"))
    .replace("SEARCH", "ORIGINAL")
    .replace("REPLACE", "UPDATED"),
    "end marker missing": f"```\n<<<<<<< SEARCH\n{LINE}\n=======\n{LINE.replace('1024', '4096')}\n```\n",
    "unified diff": "```diff\n--- a/k.asc\n+++ b/k.asc\n@@ -20,4 +20,4 @@\n {\n-"
    + LINE
    + "\n+"
    + LINE.replace("1024", "4096")
    + "\n```",
}


@pytest.mark.parametrize("name", EDITS)
def test_edit_applies_in_every_form(name: str) -> None:
    found = read(EDITS[name], shown=KERNEL, prompt=PROMPT)
    assert found.problem == ""
    assert (found.form, found.source) == ("edits", FASTER)


def test_edit_of_a_source_with_crlf() -> None:
    assert read(EDITS["bare"], shown=KERNEL.replace("\n", "\r\n")).source == FASTER


def test_edits_apply_to_the_original_in_any_order() -> None:
    first = edit("    return 0;", "    return 0; // launched")
    second = edit("    int64_t total;", "    int64_t total;\n    int32_t depth;")
    want = KERNEL.replace("return 0;", "return 0; // launched").replace("total;\n", "total;\n    int32_t depth;\n")
    assert read(first + second, shown=KERNEL).source == want


def test_insertion_at_the_end_keeps_lines_apart() -> None:
    found = read(edit("    return 0;\n}", "    return 0;\n}\n\nint other()\n{\n}"), shown=KERNEL.rstrip("\n"))
    assert found.source == KERNEL + "\nint other()\n{\n}"


def test_empty_replacement_deletes_the_lines() -> None:
    found = read("<<<<<<< SEARCH\n    int32_t tile;\n=======\n>>>>>>> REPLACE", shown=KERNEL)
    assert found.source == KERNEL.replace("    int32_t tile;\n", "")


REFUSED = {
    "not there": (
        edit("    Tiling tiling{call->inputs[1].numel, 1024};", "x"),
        "the SEARCH of edit 1 is not in the source: `Tiling tiling{call->inputs[1].numel, 1024};`"
        + "; the nearest line is `Tiling tiling{call->inputs[0].numel, 1024};`",
    ),
    "twice": (
        edit("        Copy(k);", "        CopyPad(k);"),
        "the SEARCH of edit 1 is found at 2 places (lines 12, 15); quote more lines around it",
    ),
    "empty": (edit("", "int x;"), "edit 1 has an empty SEARCH; quote the lines it replaces or stands next to"),
    "overlap": (
        edit("struct Tiling {\n    int64_t total;", "a") + edit("    int64_t total;", "b"),
        "edits 1 and 2 change the same lines; make them one edit",
    ),
    "no middle": (f"<<<<<<< SEARCH\n{LINE}\n", "edit 1 ends before its ======= line"),
    "no change": (edit(LINE, LINE), "the reply changes nothing in the source it was given"),
    "entry gone": (
        edit('extern "C" int kope_entry(const KopeCall* call)', "int main()"),
        "after the edits there is no kope_entry or no __aicore__ kernel left",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_edit_that_cannot_apply_says_why(name: str) -> None:
    text, problem = REFUSED[name]
    found = read(text, shown=KERNEL)
    assert (found.source, found.form, found.problem) == (None, "edits", problem)


def test_edits_without_a_source_ask_for_the_whole_file() -> None:
    found = read(EDITS["bare"])
    assert found.problem == "edits need a source to change and there is none; send the whole file"


def test_empty_search_with_a_whole_kernel_is_a_whole_file() -> None:
    assert read(edit("", KERNEL.rstrip("\n"))).source == KERNEL


def test_edits_cut_by_the_length_limit_ask_for_more_room() -> None:
    found = read(
        edit("    int32_t tile;", "    int32_t tile; //") + f"<<<<<<< SEARCH\n{LINE}\n=======\n    Til",
        shown=KERNEL,
        cut=True,
    )
    assert (found.source, found.cut) == (None, True)


def test_whole_file_after_edits_wins() -> None:
    found = read(edit(LINE, "x") + f"\nThe whole file:\n```cpp\n{FASTER}```", shown=KERNEL, prompt=PROMPT)
    assert (found.form, found.source) == ("file", FASTER)


def test_all_edits_apply_or_none() -> None:
    with pytest.raises(EditProblem, match="edit 2"):
        apply_edits(KERNEL, [Edit("    return 0;", "    return 1;"), Edit("nowhere", "x")])


lines = st.lists(
    st.text(alphabet="ab {};\t<>=`", max_size=12).filter(lambda line: line.strip()),
    min_size=1,
    max_size=12,
    unique=True,
)


@settings(max_examples=150, deadline=None)
@given(before=lines, after=lines)
def test_edits_made_from_a_difference_reproduce_it(before: list[str], after: list[str]) -> None:
    """Each changed run of lines, quoted whole, as one edit; applied together they give the other text."""
    edits, kept = [], []
    for tag, i, k, m, n in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "insert":
            return
        if tag == "equal":
            kept += before[i:k]
        else:
            edits.append(Edit("\n".join(before[i:k]), "\n".join(after[m:n])))
    if len({line.strip() for line in before}) < len(before) or any(edit.search in "\n".join(kept) for edit in edits):
        return
    try:
        got = apply_edits("\n".join(before), edits)
    except EditProblem as problem:
        assert "places" in str(problem)
        return
    assert got.rstrip("\n") == "\n".join(after)


pieces = st.lists(
    st.sampled_from(
        [
            "```",
            "```cpp\n",
            "~~~\n",
            "\n",
            KERNEL,
            KERNEL[:200],
            HOST,
            DEVICE,
            "<think>",
            "</think>",
            "<<<<<<< SEARCH\n",
            "=======\n",
            ">>>>>>> REPLACE\n",
            LINE + "\n",
            "@@ -1 +1 @@\n",
            "-x\n",
            "+y\n",
            "text ",
            "\ud800",
            "\r\n",
            "\ufeff",
            "{",
            '"code": "x"}',
            "- ",
            "// ... rest\n",
        ]
    ),
    max_size=14,
)


@settings(max_examples=300, deadline=None)
@given(parts=pieces, cut=st.booleans(), shown=st.sampled_from([None, KERNEL]))
def test_any_text_is_read_without_an_exception(parts: list[str], cut: bool, shown: str | None) -> None:
    found = read("".join(parts), shown=shown, cut=cut, prompt=PROMPT)
    if found.source is None:
        assert found.problem
        assert "\n" not in found.problem
    else:
        assert found.problem == ""
        assert "kope_entry" in found.source and "__aicore__" in found.source
        found.source.encode("utf-8")


def test_blocks_of_a_literal_fence_in_prose_are_text() -> None:
    blocks, prose = split_blocks("Answer with ```cpp ... ``` please.\n```cpp ... ```\n")
    assert (blocks, prose) == ((), "Answer with ```cpp ... ``` please.\n```cpp ... ```")


def test_launch_brackets_are_not_edit_markers() -> None:
    assert find_edits(KERNEL) == ()
