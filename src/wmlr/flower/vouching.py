"""Agents vouched for by their operators: a certificate for each agent's key, signed by an authority no server holds.

A secure sum hides an agent's answer among others' only if these others are real. So every agent signs the keys of each
secure sum with its own key, shows its certificate, and looks at those of the agents it is paired with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePrivateKey, EllipticCurvePublicKey
from cryptography.hazmat.primitives.serialization import Encoding, load_ssh_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from wmlr.federated.privacy.protocol import Keys, Roster, pack_message, unpack_message
from wmlr.flower.refusals import RefusalError


@dataclass(frozen=True)
class Vouching:
    """An agent's own key and certificate, and the authority whose word it takes for others."""

    key: EllipticCurvePrivateKey = field(repr=False)
    certificate: x509.Certificate
    authority: x509.Certificate

    @classmethod
    def of(cls, key: Path, authority: Path) -> Vouching:
        """From the files that ``wmlr server keys`` made: NAME, NAME.crt beside it, and ca.crt."""
        certificate = key.with_name(f"{key.name}.crt")
        if not certificate.is_file():
            raise ValueError(f"there is no {certificate}, which vouches for this agent: wmlr server keys makes it")
        secret = load_ssh_private_key(key.read_bytes(), None)
        if not isinstance(secret, EllipticCurvePrivateKey):
            raise ValueError(f"{key} is not an elliptic-curve key, as agents' keys are")
        made = cls(secret, *(x509.load_pem_x509_certificate(path.read_bytes()) for path in (certificate, authority)))
        if made.certificate.public_key() != secret.public_key():
            raise ValueError(f"{certificate} is not of the key {key}")
        return made

    def show(self, session: bytes, keys: bytes) -> dict[str, bytes]:
        """The keys of a secure sum signed, with the certificate to look at."""
        signature = self.key.sign(session + keys, ECDSA(hashes.SHA384()))
        return {"certificate": self.certificate.public_bytes(Encoding.PEM), "signature": signature}

    def check_roster(self, session: bytes, roster: bytes, shown: Mapping[str, Any]) -> None:
        """Raise :class:`RefusalError` unless every agent of a roster is vouched for, and no two are the same."""
        members = unpack_message(roster, Roster).members
        numbers, certificates, signatures = (shown.get(name) for name in ("numbers", "certificates", "signatures"))
        if not (isinstance(numbers, list) and isinstance(certificates, list) and isinstance(signatures, list)):
            raise RefusalError("nobody vouches for the agents of the secure sum")
        vouchers = {number: pair for number, *pair in zip(numbers, certificates, signatures)}
        names = {self._name(session, keys, *vouchers.get(keys.member, (b"", b""))) for keys in members}
        if len(names) != len(members):
            raise RefusalError("the secure sum has one agent in two places")

    def _name(self, session: bytes, keys: Keys, certificate: Any, signature: Any) -> str:
        """The name of an agent that is vouched for, by its certificate and its signature of its keys."""
        try:
            found = x509.load_pem_x509_certificate(certificate)
            found.verify_directly_issued_by(self.authority)
            if not found.not_valid_before_utc <= datetime.now(UTC) <= found.not_valid_after_utc:
                raise ValueError("a certificate of another time")
            uses = found.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
            public = found.public_key()
            if ExtendedKeyUsageOID.CLIENT_AUTH not in uses or not isinstance(public, EllipticCurvePublicKey):
                raise ValueError("not an agent's certificate")
            public.verify(signature, session + pack_message(keys), ECDSA(hashes.SHA384()))
            return str(found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)
        except (ValueError, TypeError, IndexError, InvalidSignature, x509.ExtensionNotFound) as error:
            raise RefusalError(
                f"agent {keys.member} of the secure sum is not vouched for ({type(error).__name__})"
            ) from None
