"""From settings to the proposers that send a prompt: addresses, models, keys, limits.

Where settings come from is config's business; which proposer is wanted is wiring's.
"""

from __future__ import annotations

import shlex

from kope.config import Settings
from kope.context import counter_for
from kope.errors import ConfigError
from kope.propose.caller import Caller, CallLog
from kope.propose.command import Command, CommandProposer
from kope.propose.endpoint import Endpoint
from kope.propose.exchange import OnText
from kope.propose.gather import Lookup
from kope.propose.llm import LlmProposer
from kope.propose.secret import read_key_file
from kope.propose.spend import Spending


def llm_proposer(
    settings: Settings,
    *,
    model: str | None = None,
    spending: Spending | None = None,
    log: CallLog | None = None,
    on_text: OnText | None = None,
    lookup: Lookup | None = None,
) -> LlmProposer:
    """Return the proposer `llm`. model: goes before the setting. Raises ConfigError for unusable settings."""
    endpoint = endpoint_of(settings, model)
    count = counter_for(settings.tokenizer).count
    return LlmProposer(Caller(endpoint, spending, log=log, on_text=on_text, count=count), lookup=lookup)


def endpoint_of(settings: Settings, model: str | None = None) -> Endpoint:
    """Return the endpoint that the settings name, its key read. Raises ConfigError."""
    if not settings.llm_base_url:
        raise ConfigError("no endpoint is named; set llm_base_url in kope.toml or KOPE_LLM_BASE_URL")
    return Endpoint(
        base_url=settings.llm_base_url,
        model=model or settings.llm_model,
        key=key_of(settings),
        max_tokens=settings.llm_max_tokens,
        temperature=settings.llm_temperature,
        call_s=settings.llm_timeout_s,
    )


def key_of(settings: Settings) -> str:
    """Return the endpoint's key, "" when none is named. Raises ConfigError when what is named holds none."""
    if settings.llm_api_key_env and settings.llm_key_file is not None:
        raise ConfigError("both llm_api_key_env and llm_key_file are set; keep one")
    if settings.llm_key_file is not None:
        return read_key_file(settings.llm_key_file)
    if not settings.llm_api_key_env:
        return ""
    key = settings.secret(settings.llm_api_key_env).strip()
    if not key:
        raise ConfigError(f"{settings.llm_api_key_env}, named by llm_api_key_env, is not set; export the key in it")
    return key


def command_proposer(
    settings: Settings,
    *,
    command: str | None = None,
    model: str | None = None,
    spending: Spending | None = None,
    log: CallLog | None = None,
) -> CommandProposer:
    """Return the proposer `command`. command: as on a command line, goes before the setting. Raises ConfigError."""
    try:
        argv = tuple(shlex.split(command)) if command is not None else settings.command
    except ValueError as broken:
        raise ConfigError(f"the command cannot be read ({broken}); check its quotes") from None
    filled = Command(argv, model or settings.llm_model, settings.command_timeout_s, settings.llm_max_tokens)
    return CommandProposer(filled, spending, log=log)
