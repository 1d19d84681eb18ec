"""An authenticator in memory: makes passkeys and signs with them, as a browser hands it on."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from fido2 import cbor
from fido2.cose import ES256
from fido2.webauthn import Aaguid, AttestedCredentialData

from hive_core.model.config.web import host_of
from hive_core.operations.accounts.passkeys import from_base64, to_base64

_PRESENT, _VERIFIED, _HAS_KEY = 0x01, 0x04, 0x40


@dataclass
class MemoryAuthenticator:
    """One passkey for one web address.

    `is_verified`: it has verified its user, by a finger or a PIN. `counter` rises with each use;
    at 0 it does not count, as most do not.
    """

    origin: str = "http://localhost:4483"
    is_verified: bool = True
    is_framed: bool = False
    counter: int = 0
    id: bytes = field(default_factory=lambda: os.urandom(16))
    key: ec.EllipticCurvePrivateKey = field(
        default_factory=lambda: ec.generate_private_key(ec.SECP256R1())
    )

    @property
    def credential(self) -> str:
        return to_base64(self.id)

    def register(self, challenge: str) -> dict[str, str]:
        """The params of `add_passkey` beside the nonce and the name."""
        public = ES256.from_cryptography_key(self.key.public_key())  # type: ignore[no-untyped-call]  # the library's
        key = bytes(AttestedCredentialData.create(bytes(Aaguid.NONE), self.id, public))
        attestation = cbor.encode({
            "fmt": "none", "attStmt": {}, "authData": self._data(_HAS_KEY) + key,
        })  # fmt: skip
        client_data = self._client_data("webauthn.create", challenge)
        return {"client_data": to_base64(client_data), "attestation": to_base64(attestation)}

    def sign(self, nonce: str, challenge: str) -> dict[str, str]:
        """An assertion."""
        self.counter += self.counter > 0
        client_data, data = self._client_data("webauthn.get", challenge), self._data()
        signed = data + hashlib.sha256(client_data).digest()
        return {
            "nonce": nonce, "credential": self.credential, "client_data": to_base64(client_data),
            "authenticator_data": to_base64(data),
            "signature": to_base64(self.key.sign(signed, ec.ECDSA(hashes.SHA256()))),
        }  # fmt: skip

    def _data(self, flags: int = 0) -> bytes:
        flags |= _PRESENT | (_VERIFIED if self.is_verified else 0)
        host = hashlib.sha256(host_of(self.origin).encode()).digest()
        return host + bytes([flags]) + self.counter.to_bytes(4, "big")

    def _client_data(self, kind: str, challenge: str) -> bytes:
        data = {
            "type": kind, "challenge": to_base64(from_base64(challenge)), "origin": self.origin,
            "crossOrigin": self.is_framed,
        }  # fmt: skip
        return json.dumps(data).encode()
