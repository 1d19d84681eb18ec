"""`/etc/hive/models.toml` as a frozen value: which models agents may call, and who provides them.

The file has no secrets: `key` is the name of a file in `/etc/hive/keys`. An absent or empty file
means the embedded model alone. hived and hive-model both read the file.
"""

from __future__ import annotations

import ipaddress
import tomllib
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final, Self
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator, Field, ValidationError, model_validator

from hive_core.errors import InvalidArgument
from hive_core.model.agents.agent import Value
from hive_core.model.config.validation import faults_of
from hive_core.model.config.written_values import Bytes, fault_at

FILE: Final = "models.toml"
BYTES_MOST: Final = 1 << 20
SMALL_PROVIDER: Final = "small"
SMALL_ALIAS: Final = "hive-small"
_MIB: Final = 1 << 20
_PRICE_MOST: Final = 1_000_000


class Wire(StrEnum):
    """An HTTP interface of models, by the last part of its path."""

    CHAT = "chat"
    RESPONSES = "responses"
    MESSAGES = "messages"


class ProviderKind(StrEnum):
    HTTP = "http"
    GGUF = "gguf"
    SCRIPTED = "scripted"


def _check_base_url(text: str) -> str:
    if not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError("must be printable ASCII without spaces")
    if text.startswith("unix:"):
        return _check_unix(text)
    try:
        url = urlsplit(text)
        host, _ = url.hostname, url.port
    except ValueError as error:
        raise ValueError(f"is not a URL: {error}") from error
    if not host:
        raise ValueError("has no host")
    if url.username is not None or url.password is not None:
        raise ValueError("must not have a user or password; set `key`")
    if "?" in text or "#" in text:
        raise ValueError("must not have a query or fragment")
    return _check_scheme(url, text)


def _check_unix(text: str) -> str:
    path = text.removeprefix("unix:")
    if not path.startswith("/") or path.startswith("//") or ".." in path.split("/"):
        raise ValueError("must be unix: and an absolute path without '..', as unix:/run/x.sock")
    return text


def _check_scheme(url: SplitResult, text: str) -> str:
    if url.scheme == "https" or (url.scheme == "http" and _is_loopback(url.hostname or "")):
        return text.rstrip("/")
    if url.scheme == "http":
        raise ValueError("must be https; http is only for this machine (127.0.0.1, ::1, localhost)")
    raise ValueError("must start with https://, http:// (this machine only) or unix:/")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check_name(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must be printable")
    return text


ProviderName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,31}$")]
Alias = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
KeyName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
BaseUrl = Annotated[str, Field(max_length=2000), AfterValidator(_check_base_url)]
ModelName = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_check_name)]
FilePath = Annotated[str, Field(pattern=r"^/[^\x00-\x1f\x7f]{1,1000}$")]
Tokens = Annotated[int, Field(ge=1, le=1 << 30)]
Seconds = Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False)]


class ModelProvider(Value):
    """A service that runs models. NAME is chosen by you; models refer to it."""

    kind: ProviderKind = Field(
        ProviderKind.HTTP,
        description="`http`: a service at `base_url`. `gguf`: the embedded model of this machine."
        " `scripted`: answers from a file of rules, for tests.",
    )
    wire: Wire = Field(
        Wire.CHAT,
        description="Interface of the service: `chat` (/chat/completions), `responses`"
        " (/responses) or `messages` (/messages). hive does not translate between them.",
    )
    base_url: BaseUrl | None = Field(
        None,
        description="For `http`: the URL before `/chat/completions`, `/responses` or `/messages`,"
        " as `https://api.openai.com/v1`. https; http only to this machine; or `unix:/PATH` of a"
        " socket, which is asked below `/v1`.",
    )
    key: KeyName | None = Field(
        None,
        description="For `http`: name of the file in `/etc/hive/keys` that holds its key; absent:"
        " the service needs none.",
    )
    path: FilePath | None = Field(
        None,
        description="For `gguf`: file of a model of yours; absent: the one that hive installs. For"
        " `scripted`: file of the rules.",
    )
    threads: int | None = Field(
        None,
        ge=1,
        le=256,
        description="For `gguf`: number of threads that compute; absent: 1. More threads than idle"
        " cores make it slower.",
    )

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        for field, kinds, is_needed in _FIELDS_OF_KINDS:
            is_set = getattr(self, field) is not None
            if is_set and self.kind not in kinds:
                only = " and ".join(f'"{kind}"' for kind in kinds)
                raise fault_at((field,), f"is only for providers of kind {only}")
            if not is_set and self.kind in is_needed:
                raise fault_at((field,), f'is missing; a provider of kind "{self.kind}" needs it')
        if self.kind is ProviderKind.GGUF and self.wire is not Wire.CHAT:
            raise fault_at(("wire",), 'a provider of kind "gguf" has the wire "chat"')
        return self


_FIELDS_OF_KINDS: Final = (
    ("base_url", (ProviderKind.HTTP,), (ProviderKind.HTTP,)),
    ("key", (ProviderKind.HTTP,), ()),
    ("threads", (ProviderKind.GGUF,), ()),
    ("path", (ProviderKind.GGUF, ProviderKind.SCRIPTED), (ProviderKind.SCRIPTED,)),
)


class ModelEntry(Value):
    """A model that agents name by ALIAS. Prices are US dollars per million tokens."""

    provider: ProviderName = Field(description="Name of its table in `[providers]`.")
    name: ModelName = Field(description="Name of the model at its provider.")
    context: Tokens = Field(128_000, description="Size of its context in tokens.")
    max_output: Tokens = Field(
        8192,
        description="Maximum size of an answer in tokens. Where it is set, a request for a larger"
        " answer is lowered to it.",
    )
    fallback: Annotated[tuple[Alias, ...], Field(max_length=4)] = Field(
        (),
        description="Aliases of the same wire that are asked in this order where the provider does"
        " not answer.",
    )
    price_in: float | None = Field(
        None,
        ge=0,
        le=_PRICE_MOST,
        description="Price of input. Absent prices are those that genai-prices lists; a model that"
        " it does not list costs 0, with an alarm.",
    )
    price_out: float | None = Field(None, ge=0, le=_PRICE_MOST, description="Price of output.")
    price_cache_read: float | None = Field(
        None,
        ge=0,
        le=_PRICE_MOST,
        description="Price of input read from the provider's cache; absent: `price_in`.",
    )
    price_cache_write: float | None = Field(
        None,
        ge=0,
        le=_PRICE_MOST,
        description="Price of input written to the provider's cache; absent: `price_in`.",
    )

    @property
    def stated_max_output(self) -> int | None:
        """The bound of an answer where models.toml states one: the default bounds no request."""
        return self.max_output if "max_output" in self.model_fields_set else None

    @model_validator(mode="after")
    def _check_numbers(self) -> Self:
        if self.max_output > self.context:
            raise fault_at(("max_output",), f"is larger than context ({self.context})")
        prices = (self.price_out, self.price_cache_read, self.price_cache_write)
        if self.price_in is None and any(price is not None for price in prices):
            raise fault_at(("price_in",), "is missing; other prices are set")
        if self.price_in is not None and self.price_out is None:
            raise fault_at(("price_out",), "is missing; price_in is set")
        return self


class ModelLimits(Value):
    """Limits of the calls to models."""

    body: Bytes = Field(
        32 * _MIB,
        ge=1024,
        le=256 * _MIB,
        description="Maximum size of a request, and of an answer, in bytes.",
    )
    concurrent: int = Field(
        4, ge=1, le=1000, description="Maximum number of calls of one agent at the same time."
    )
    concurrent_all: int = Field(
        64, ge=1, le=10_000, description="Maximum number of calls of all agents at the same time."
    )
    calls_a_minute: int = Field(
        60, ge=1, le=100_000, description="Maximum number of calls of one agent in a minute."
    )
    first_byte: Seconds = Field(
        120.0, description="Seconds until the first byte of a provider's answer."
    )
    silence: Seconds = Field(300.0, description="Seconds between two parts of a provider's answer.")
    tokens_a_call: int | None = Field(
        None,
        ge=1,
        le=100_000_000,
        description="Maximum tokens of one call: its input, estimated by its bytes, and its answer;"
        " absent: no limit. The answer is kept within what is left.",
    )
    cost_a_call: float | None = Field(
        None,
        gt=0,
        le=_PRICE_MOST,
        description="Maximum cost of one call in US dollars, estimated in the same way; absent: no"
        " limit.",
    )


class ModelsFile(Value):
    """The whole file."""

    default: Alias | None = Field(
        None,
        description="Alias for agents whose spec and tier name no model; absent: the only model, if"
        " the file has one.",
    )
    providers: dict[ProviderName, ModelProvider] = Field(
        {}, description="The services that run models."
    )
    models: dict[Alias, ModelEntry] = Field(
        {}, description="The models that agents may name, by ALIAS."
    )
    limits: ModelLimits = ModelLimits()

    @model_validator(mode="before")
    @classmethod
    def _add_embedded(cls, data: object) -> object:
        if isinstance(data, dict) and not data.keys() & {"providers", "models"}:
            return {**data, **_EMBEDDED}
        return data

    @model_validator(mode="after")
    def _check_references(self) -> Self:
        if self.default is not None and self.default not in self.models:
            raise fault_at(("default",), f"{self.default} is not in [models]")
        for alias, model in self.models.items():
            if model.provider not in self.providers:
                reason = f"{model.provider} is not in [providers]"
                raise fault_at(("models", alias, "provider"), reason)
        for alias, model in self.models.items():
            for number, other in enumerate(model.fallback):
                if reason := self._fallback_fault(alias, other):
                    raise fault_at(("models", alias, "fallback", number), reason)
        embedded = [n for n, p in self.providers.items() if p.kind is ProviderKind.GGUF]
        if len(embedded) > 1:
            reason = f'only one provider can be of kind "gguf"; {embedded[0]} is'
            raise fault_at(("providers", embedded[1], "kind"), reason)
        return self

    def _fallback_fault(self, alias: str, other: str) -> str:
        if other == alias:
            return "is the model itself"
        if other not in self.models:
            return f"{other} is not in [models]"
        if self.wire_of(other) is not self.wire_of(alias):
            return (
                f"{other} has the wire {self.wire_of(other)}, {alias} has {self.wire_of(alias)};"
                " hive does not translate between wires"
            )
        return ""

    @property
    def default_alias(self) -> str | None:
        """The model of agents whose spec and tier name none; None: such an agent has no model."""
        if self.default is None and len(self.models) == 1:
            return next(iter(self.models))
        return self.default

    def provider_of(self, alias: str) -> ModelProvider:
        return self.providers[self.models[alias].provider]

    def wire_of(self, alias: str) -> Wire:
        return self.provider_of(alias).wire


_EMBEDDED: Final[Mapping[str, Any]] = {
    "providers": {SMALL_PROVIDER: {"kind": "gguf"}},
    "models": {
        SMALL_ALIAS: {
            "provider": SMALL_PROVIDER, "name": "smollm2", "context": 4096, "max_output": 1024,
            "price_in": 0.0, "price_out": 0.0,
        }
    },
}  # fmt: skip


def parse_models(text: str) -> ModelsFile:
    """The file with this content. InvalidArgument names the first key that is wrong."""
    if len(text.encode(errors="surrogatepass")) > BYTES_MOST:
        raise InvalidArgument(f"{FILE}: larger than {BYTES_MOST} bytes", field=FILE)
    try:
        tables = tomllib.loads(text)
    # tomllib fails on very long numbers and very deep nesting
    except (ValueError, RecursionError) as error:
        deep = isinstance(error, RecursionError)
        reason = "nested too deep" if deep else " ".join(str(error).split())[:200]
        raise InvalidArgument(
            f"{FILE}: not valid TOML: {ascii(reason)[1:-1]}", field=FILE
        ) from error
    try:
        return ModelsFile.model_validate(tables)
    except ValidationError as error:
        fault = faults_of(ModelsFile, error)[0]
        raise InvalidArgument(f"{FILE}: {fault.key}: {fault.reason}", field=fault.key) from error
