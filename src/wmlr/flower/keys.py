"""Certificates for the server and keys for the agents, made where they are needed.

A folder of keys holds

    ca.crt, ca.key           the authority that signs the server's certificate; its key is wanted only here
    server.crt, server.key   what the server shows
    agents/NAME, NAME.pub    a key for each agent: the private one goes to the agent, the public one stays
    agents/NAME.crt          the authority's word for that key, by which agents believe each other

An agent is given three files: ca.crt, its own private key and the certificate of that key. Private keys are readable by
their owner alone. The server needs neither ca.key nor the agents' private keys: whoever holds ca.key can invent agents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP384R1,
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_ssh_public_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from wmlr.io.files import write_bytes, write_private

ALWAYS = ("localhost", "127.0.0.1", "::1")
AUTHORITY_DAYS = 3650
CLOCKS = timedelta(days=1)  # how far the clocks of two machines may be apart
USES = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)


@dataclass(frozen=True)
class Certificates:
    """The three files that a server with TLS needs."""

    authority: Path
    certificate: Path
    key: Path

    @classmethod
    def of(cls, folder: Path) -> Certificates:
        """Those in a folder that :func:`make_keys` filled."""
        found = cls(folder / "ca.crt", folder / "server.crt", folder / "server.key")
        for path in (found.authority, found.certificate, found.key):
            if not path.is_file():
                raise ValueError(f"there is no {path}: wmlr server keys --out {folder} makes it")
        return found


@dataclass(frozen=True)
class Made:
    """What :func:`make_keys` wrote, and which agents had a key already."""

    folder: Path
    hosts: tuple[str, ...]
    agents: tuple[str, ...]
    kept: tuple[str, ...]


def make_keys(folder: Path, agents: Sequence[str], hosts: Sequence[str] = (), days: int = 365) -> Made:
    """Fill a folder with an authority, a server's certificate and a key for each agent.

    What is there is kept, except the server's certificate, which is written anew for the hosts given; so more
    agents can be added later.

    Parameters
    ----------
    folder : where to.
    agents : the agents' names, which become the names of their files.
    hosts : names and addresses that agents will reach the server by; this machine's own are always among them.
    days : how long the server's certificate is good for.
    """
    if days < 1:
        raise ValueError(f"--days must be at least 1 (got {days})")
    for name in agents:
        if not name or not all(letter.isalnum() or letter in "-_." for letter in name) or name.startswith("."):
            raise ValueError(f"an agent's name is letters, digits, - and _ (got {name!r})")
    named = tuple(dict.fromkeys([*hosts, *ALWAYS]))
    authority, key = _authority(folder)
    _server(folder, authority, key, named, days)
    made = [name for name in agents if _agent(folder / "agents" / name)]
    for name in agents:
        _vouch(folder / "agents" / name, authority, key)
    kept = [name for name in agents if name not in made]
    return Made(folder, named, tuple(made), tuple(kept))


def public_keys(folder: Path) -> dict[str, bytes]:
    """The agents' public keys in a folder, by name, as PEM."""
    keys = {}
    for path in sorted(folder.glob("*.pub")):
        try:
            key = load_ssh_public_key(path.read_bytes())
        except ValueError as error:
            raise ValueError(f"{path} is not a public key: {error}") from None
        if not isinstance(key, EllipticCurvePublicKey):
            raise ValueError(f"{path} is not an elliptic-curve key (ECDSA), as agents' keys are")
        keys[path.stem] = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    if not keys:
        raise ValueError(f"there is no agent's public key (*.pub) in {folder}: wmlr server keys makes them")
    return keys


def _authority(folder: Path) -> tuple[x509.Certificate, EllipticCurvePrivateKey]:
    certificate, key = folder / "ca.crt", folder / "ca.key"
    if certificate.is_file() and key.is_file():
        secret = load_pem_private_key(key.read_bytes(), None)
        if not isinstance(secret, EllipticCurvePrivateKey):
            raise ValueError(f"{key} was not made by wmlr server keys: name an empty folder")
        return x509.load_pem_x509_certificate(certificate.read_bytes()), secret
    if certificate.exists() or key.exists():
        raise ValueError(f"{folder} has one of ca.crt and ca.key only: bring the other, or name an empty folder")
    secret = generate_private_key(SECP384R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "wmlr federation")])
    extensions = [
        (x509.BasicConstraints(ca=True, path_length=0), True),
        (_usage("key_cert_sign", "crl_sign"), True),
        (x509.SubjectKeyIdentifier.from_public_key(secret.public_key()), False),
    ]
    signed = _sign(name, name, secret.public_key(), secret, AUTHORITY_DAYS, extensions)
    write_private(key, _pem(secret))
    write_bytes(certificate, signed.public_bytes(Encoding.PEM))
    return signed, secret


def _server(
    folder: Path, authority: x509.Certificate, key: EllipticCurvePrivateKey, hosts: Sequence[str], days: int
) -> None:
    secret = generate_private_key(SECP384R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0][:64])])
    extensions = [
        (x509.SubjectAlternativeName([_host(host) for host in hosts]), False),
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (_usage("digital_signature"), True),
        (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
        (x509.SubjectKeyIdentifier.from_public_key(secret.public_key()), False),
        (x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), False),
    ]
    signed = _sign(name, authority.subject, secret.public_key(), key, days, extensions)
    write_private(folder / "server.key", _pem(secret))
    write_bytes(folder / "server.crt", signed.public_bytes(Encoding.PEM))


def _agent(path: Path) -> bool:
    """Write an agent's pair of keys, unless it is there."""
    public = path.with_name(f"{path.name}.pub")
    if public.exists():
        return False
    if path.exists():
        raise ValueError(f"{path} is there and {public.name} is not: bring it, or remove {path}")
    secret = generate_private_key(SECP384R1())
    shown = secret.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    write_private(path, secret.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    write_bytes(public, shown + f" {path.name}\n".encode())
    return True


def _vouch(path: Path, authority: x509.Certificate, key: EllipticCurvePrivateKey) -> None:
    """Write the authority's certificate for an agent's public key, unless it is there."""
    certificate = path.with_name(f"{path.name}.crt")
    if certificate.exists():
        return
    public = load_ssh_public_key(path.with_name(f"{path.name}.pub").read_bytes())
    if not isinstance(public, EllipticCurvePublicKey):
        raise ValueError(f"{path.name}.pub is not an elliptic-curve key (ECDSA), as agents' keys are")
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, path.name[:64])])
    extensions = [
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (_usage("digital_signature"), True),
        (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), False),
    ]
    signed = _sign(name, authority.subject, public, key, AUTHORITY_DAYS, extensions)
    write_bytes(certificate, signed.public_bytes(Encoding.PEM))


def _sign(
    subject: x509.Name,
    issuer: x509.Name,
    public: EllipticCurvePublicKey,
    signer: EllipticCurvePrivateKey,
    days: int,
    extensions: Sequence[tuple[x509.ExtensionType, bool]],
) -> x509.Certificate:
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCKS)
        .not_valid_after(now + timedelta(days=days))
    )
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical)
    return builder.sign(signer, hashes.SHA384())


def _usage(*wanted: str) -> x509.KeyUsage:
    return x509.KeyUsage(**{use: use in wanted for use in USES})


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        pass
    try:
        return x509.DNSName(host)
    except ValueError:
        raise ValueError(f"--host must be a name or an address (got {host!r})") from None


def _pem(key: EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
