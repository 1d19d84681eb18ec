"""Credentials: what is known of a secret that opens an account elsewhere, without its value."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_CAPABILITY: Final = "secret:"


@dataclass(frozen=True, slots=True)
class CredentialLabel:
    """Which account a secret opens, and which tools take it. The operator says so; no value."""

    provider: str = ""
    alias: str = ""
    identity: str = ""
    tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LabelChange:
    """What the operator says of a new value. None: as before."""

    provider: str | None = None
    alias: str | None = None
    identity: str | None = None
    tools: tuple[str, ...] | None = None

    def apply(self, label: CredentialLabel) -> CredentialLabel:
        """The label with what was said."""
        return CredentialLabel(
            label.provider if self.provider is None else self.provider,
            label.alias if self.alias is None else self.alias,
            label.identity if self.identity is None else self.identity,
            label.tools if self.tools is None else self.tools,
        )


@dataclass(frozen=True, slots=True)
class ExpiredReport:
    """What an agent reported of a credential that its provider refuses.

    `link`: where it can be renewed. `question`: the question that this raised.
    """

    message: str
    link: str
    question: str


@dataclass(frozen=True, slots=True)
class StoredCredential:
    """The row of a secret. `expired`: the newest report since its value was set."""

    key: str
    label: CredentialLabel = CredentialLabel()
    expired: ExpiredReport | None = None


def secret_keys(capabilities: Iterable[str]) -> set[str]:
    """The keys of the secrets that these capabilities let an agent read."""
    return {word.removeprefix(_CAPABILITY) for word in capabilities if word.startswith(_CAPABILITY)}
