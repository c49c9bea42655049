"""From settings to proposers: which model, which key, what is refused, and that the key is never in a message."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from kope.config import Settings, load
from kope.errors import ConfigError
from kope.propose.configured import command_proposer, endpoint_of, llm_proposer
from kope.resources import checkout

KEY = "sk-proj-4f9aZq81LmN0"
BASE = {"llm_base_url": "http://127.0.0.1:8000/v1", "llm_model": "m"}


def settings(**values: Any) -> Settings:
    return Settings(**{**BASE, **values})


def test_settings_reach_the_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", f" {KEY}\n")
    made = endpoint_of(
        settings(llm_api_key_env="MY_KEY", llm_max_tokens=77, llm_temperature=0.5, llm_timeout_s=9.0), "other"
    )
    assert (made.base_url, made.model, made.key) == (BASE["llm_base_url"], "other", KEY)
    assert (made.max_tokens, made.temperature, made.call_s) == (77, 0.5, 9.0)
    assert endpoint_of(settings()).model == "m"
    assert llm_proposer(settings()).name == "llm:m"


def test_key_comes_from_a_file_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "key").write_text(KEY + "\n")
    assert endpoint_of(settings(llm_key_file=tmp_path / "key")).key == KEY
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert endpoint_of(settings()).key == ""


def test_key_file_in_kope_toml_is_beside_it(tmp_path: Path) -> None:
    (tmp_path / "endpoint.key").write_text(KEY)
    (tmp_path / "kope.toml").write_text(
        'llm_key_file = "endpoint.key"\nllm_base_url = "https://h/v1"\nllm_model = "m"\n'
    )
    (tmp_path / "deeper").mkdir()
    assert endpoint_of(load(cwd=tmp_path / "deeper")).key == KEY


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"llm_base_url": ""}, "no endpoint is named; set llm_base_url in kope.toml or KOPE_LLM_BASE_URL"),
        ({"llm_model": ""}, "no model is named; give --model or set llm_model"),
        (
            {"llm_api_key_env": "NOT_SET"},
            "NOT_SET, named by llm_api_key_env, is not set; export the key in it",
        ),
        (
            {"llm_api_key_env": "MY_KEY", "llm_key_file": Path("key")},
            "both llm_api_key_env and llm_key_file are set; keep one",
        ),
        (
            {"llm_api_key_env": "BAD_KEY"},
            "the API key holds spaces, line breaks or characters outside ASCII; copy it again",
        ),
    ],
)
def test_setting_that_cannot_be_used_is_said_in_one_line(
    values: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    monkeypatch.setenv("BAD_KEY", f"{KEY} {KEY}")
    monkeypatch.delenv("NOT_SET", raising=False)
    with pytest.raises(ConfigError) as raised:
        endpoint_of(settings(**values))
    assert str(raised.value) == said


def test_command_comes_from_the_flag_or_the_setting() -> None:
    assert command_proposer(settings(), command="/usr/bin/agent -m {model} 'a b'").name == "command:agent:m"
    assert command_proposer(settings(command=("other", "-x"), llm_model="")).name == "command:other"
    with pytest.raises(ConfigError, match="has no command; give --command"):
        command_proposer(settings())
    with pytest.raises(ConfigError, match="check its quotes"):
        command_proposer(settings(), command="agent 'open")


def test_documented_commands_can_be_used() -> None:
    """The agents themselves are not run here; their words are split and filled as the page says."""
    root = checkout()
    if root is None:
        pytest.skip("the pages are in a checkout only")
    page = (root / "docs" / "models.md").read_text(encoding="utf-8")
    shown = [line.strip().removeprefix("--command ") for line in page.splitlines() if line.startswith("    --command ")]
    assert [shlex.split(word)[0].split()[0] for word in shown] == ["llm", "claude", "opencode", "codex"]
    for word in shown:
        [command] = shlex.split(word)
        assert command_proposer(settings(), command=command).name.endswith(":m")
