"""The templates of what follows a prompt in one conversation, by name with their contracts."""

from __future__ import annotations

from kope.propose.answer import UnusablePrompt
from kope.propose.gather import GatheredPrompt, MoreByCommand, MoreByLine

TEMPLATES = {
    "prompts/gathered": GatheredPrompt,
    "prompts/more_by_command": MoreByCommand,
    "prompts/more_by_line": MoreByLine,
    "prompts/unusable": UnusablePrompt,
}
