"""From settings to the proposers that send a prompt: addresses, models, keys, limits.

Where settings come from is config's business; which proposer is wanted is wiring's.
"""

from __future__ import annotations

import shlex

from kope.config import Settings
from kope.context import counter_for
from kope.errors import ConfigError
from kope.propose.bandit import BanditProposer
from kope.propose.caller import Caller, CallLog
from kope.propose.command import Command, CommandProposer
from kope.propose.endpoint import Endpoint
from kope.propose.exchange import OnText
from kope.propose.gather import Lookup
from kope.propose.llm import LlmProposer
from kope.propose.secret import read_key_file
from kope.propose.spend import Spending, price_of


def llm_proposer(
    settings: Settings,
    *,
    model: str | None = None,
    spending: Spending | None = None,
    log: CallLog | None = None,
    on_text: OnText | None = None,
    lookup: Lookup | None = None,
) -> LlmProposer:
    """Return the proposer `llm` for one model. model: goes before the setting.

    Raises ConfigError for unusable settings, and when a cost limit is set and the model's price is not.
    """
    endpoint = endpoint_of(settings, model)
    count = counter_for(settings.tokenizer).count
    price = price_of(endpoint.model, settings.llm_prices)
    if price is None and spending is not None and spending.cost_limit is not None:
        raise ConfigError(f"--cost needs the price of {endpoint.model}; set llm_prices, e.g. {endpoint.model}=0.6/2.2")
    caller = Caller(endpoint, spending, log=log, on_text=on_text, count=count, price=price)
    return LlmProposer(caller, lookup=lookup, temperatures=settings.llm_temperatures, templates=settings.templates)


def models_of(settings: Settings, model: str | None) -> list[str]:
    """Return the models that are named, separated by commas: several share the work. [""] when none is."""
    named = (model or settings.llm_model).split(",")
    return list(dict.fromkeys(each.strip() for each in named if each.strip())) or [""]


def llm_proposers(
    settings: Settings,
    *,
    model: str | None = None,
    spending: Spending | None = None,
    log: CallLog | None = None,
    on_text: OnText | None = None,
    lookup: Lookup | None = None,
) -> LlmProposer | BanditProposer:
    """Return the proposer `llm`, over several models when several are named. Raises ConfigError."""
    arms = {
        each: llm_proposer(settings, model=each, spending=spending, log=log, on_text=on_text, lookup=lookup)
        for each in models_of(settings, model)
    }
    if len(arms) == 1:
        return next(iter(arms.values()))
    return BanditProposer(arms, cost_weight=settings.llm_cost_weight)


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
    return CommandProposer(filled, spending, log=log, templates=settings.templates)
