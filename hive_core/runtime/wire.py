"""A model behind the agent's model socket: chat, responses or messages, by its wire."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Final, cast

import httpx2
from pydantic_ai.models import Model
from pydantic_ai.settings import ModelSettings

BASE: Final = "http://hive-model"
WIRES: Final = ("chat", "responses", "messages")
# hive-model puts the key of the provider in its place; no agent has one.
_NO_KEY: Final = "none"
# The first byte and each pause are bounded by hive-model, which answers before that.
_TIMEOUT: Final = httpx2.Timeout(600, connect=10)


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A model: its alias, its wire, the provider's `name` for it, and how much it may write.

    `task`: the task that pays. `hands_back`: the answer is the report of a task whose budget is
    used up.
    """

    alias: str
    wire: str
    name: str = ""
    max_output: int = 0
    conversation: str = ""
    task: str = ""
    hands_back: bool = False


class UnknownWire(ValueError):
    """The session named a wire that this runtime does not speak."""


def http_client(path: str) -> httpx2.AsyncClient:
    """An HTTP client of a Unix socket; never a redirect, never a proxy of the environment."""
    # No encryption on this socket, so no certificates are loaded.
    plain = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    transport = httpx2.AsyncHTTPTransport(verify=plain, uds=path)
    return httpx2.AsyncClient(
        transport=transport, timeout=_TIMEOUT, trust_env=False, follow_redirects=False
    )


def build_model(choice: ModelChoice, client: httpx2.AsyncClient) -> Model:
    """The model. hive-model repeats failed calls itself, so nothing is repeated here."""
    match choice.wire:
        case "chat":
            return _chat_model(choice, client)
        case "responses":
            return _responses_model(choice, client)
        case "messages":
            return _messages_model(choice, client)
        case _:
            raise UnknownWire(f"unknown wire {choice.wire!r}")


# Each wire imports its own SDK: one of them costs half a second and 20 MB.


def _chat_model(choice: ModelChoice, client: httpx2.AsyncClient) -> Model:
    from openai import AsyncOpenAI  # noqa: PLC0415
    from pydantic_ai.models.openai import OpenAIChatModel  # noqa: PLC0415
    from pydantic_ai.profiles import merge_profile  # noqa: PLC0415
    from pydantic_ai.profiles.openai import OpenAIModelProfile  # noqa: PLC0415
    from pydantic_ai.providers.openai_compatible import (  # noqa: PLC0415
        OpenAICompatibleProvider,
    )

    sdk = AsyncOpenAI(base_url=f"{BASE}/v1", api_key=_NO_KEY, http_client=client, max_retries=0)
    provider = OpenAICompatibleProvider("hive", openai_client=sdk)
    # Else a stream that breaks off would pass for a whole answer.
    strict = OpenAIModelProfile(openai_chat_streaming_requires_finish_reason=True)
    profile = merge_profile(provider.model_profile(choice.name or choice.alias), strict)
    return OpenAIChatModel(
        choice.alias, provider=provider, profile=profile, settings=_settings(choice)
    )


def _responses_model(choice: ModelChoice, client: httpx2.AsyncClient) -> Model:
    from openai import AsyncOpenAI  # noqa: PLC0415
    from pydantic_ai.models.openai import OpenAIResponsesModel  # noqa: PLC0415
    from pydantic_ai.providers.openai import OpenAIProvider  # noqa: PLC0415

    sdk = AsyncOpenAI(base_url=f"{BASE}/v1", api_key=_NO_KEY, http_client=client, max_retries=0)
    provider = OpenAIProvider(openai_client=sdk)
    more = {"openai_prompt_cache_key": choice.conversation[:64]} if choice.conversation else {}
    return OpenAIResponsesModel(
        choice.alias, provider=provider, settings=_settings(choice, **more),
        profile=provider.model_profile(choice.name or choice.alias),
    )  # fmt: skip


def _messages_model(choice: ModelChoice, client: httpx2.AsyncClient) -> Model:
    from anthropic import AsyncAnthropic  # noqa: PLC0415
    from pydantic_ai.models.anthropic import AnthropicModel  # noqa: PLC0415
    from pydantic_ai.providers.anthropic import AnthropicProvider  # noqa: PLC0415

    sdk = AsyncAnthropic(base_url=BASE, api_key=_NO_KEY, http_client=client, max_retries=0)
    provider = AnthropicProvider(anthropic_client=sdk)
    return AnthropicModel(
        choice.alias, provider=provider, settings=_settings(choice, anthropic_cache=True),
        profile=provider.model_profile(choice.name or choice.alias),
    )  # fmt: skip


def _settings(choice: ModelChoice, **more: object) -> ModelSettings:
    size = {"max_tokens": choice.max_output} if choice.max_output else {}
    headers = {"x-hive-task": choice.task} if choice.task else {}
    if choice.hands_back:
        headers["x-hive-hand-back"] = "1"
    return cast("ModelSettings", {**size, **more, "extra_headers": headers})
