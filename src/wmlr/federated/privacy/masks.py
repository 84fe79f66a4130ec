"""What secure sums are made of: keys, masks, sealed letters and shared secrets.

Key agreement (X25519), key derivation (HKDF), the stream of masks (ChaCha20) and sealing (ChaCha20-Poly1305) are
the ``cryptography`` package's; Shamir's sharing is a polynomial over a prime field.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import combinations

import numpy as np

from wmlr.federated.messages import MessageError
from wmlr.federated.privacy.fixed import Words
from wmlr.io.tables import MissingExtraError

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF
except ImportError:
    raise MissingExtraError("secure sums need cryptography: pip install 'wmlr[privacy]'") from None

PRIME = 2**521 - 1
SECRET_BYTES = 32
SHARE_BYTES = 66
NONCE_BYTES = 12
MOST_TRIED = 2000


def new_secret() -> bytes:
    """A fresh secret: a private key, or the seed of a mask."""
    return secrets.token_bytes(SECRET_BYTES)


def public_key(secret: bytes) -> bytes:
    """The public key of a private one."""
    return _private_key(secret).public_key().public_bytes_raw()


@lru_cache(maxsize=4)
def _private_key(secret: bytes) -> X25519PrivateKey:
    return X25519PrivateKey.from_private_bytes(secret)


def common_key(secret: bytes, public: bytes, purpose: bytes) -> bytes:
    """The key that two agents share, for one purpose; each finds it from its own secret and the other's public key."""
    try:
        shared = _private_key(secret).exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError as error:
        raise MessageError(f"a public key is not one: {error}") from None
    return derive_key(shared, purpose)


def derive_key(secret: bytes, purpose: bytes) -> bytes:
    """A key for one purpose, from a secret."""
    return HKDF(algorithm=hashes.SHA256(), length=SECRET_BYTES, salt=None, info=purpose).derive(secret)


def stream(key: bytes, count: int) -> Words:
    """So many words that nobody without the key can tell from random ones. A key must be used once."""
    made = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor().update(bytes(8 * count))
    return np.frombuffer(made, dtype="<u8").astype(np.uint64)


def context(purpose: str, session: bytes, first: int, second: int) -> bytes:
    """What a key or a letter is for, so that it can serve nothing else."""
    return b"|".join([b"wmlr", purpose.encode(), session, str(first).encode(), str(second).encode()])


def pair_mask(secret: bytes, public: bytes, session: bytes, pair: tuple[int, int], count: int) -> Words:
    """The mask that the first of a pair adds: the negative of what the second adds."""
    mask = stream(common_key(secret, public, context("mask", session, *sorted(pair))), count)
    return mask if pair[0] > pair[1] else np.zeros(count, dtype=np.uint64) - mask


def seal(key: bytes, letter: bytes, purpose: bytes) -> bytes:
    """A letter that only the holder of the key can read, and nobody can change."""
    nonce = secrets.token_bytes(NONCE_BYTES)
    return nonce + ChaCha20Poly1305(key).encrypt(nonce, letter, purpose)


def unseal(key: bytes, sealed: bytes, purpose: bytes) -> bytes:
    """The letter that was sealed."""
    try:
        return ChaCha20Poly1305(key).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], purpose)
    except (InvalidTag, ValueError):
        raise MessageError("a sealed letter was changed on its way, or is not for this agent") from None


def split_secret(secret: bytes, threshold: int, count: int) -> list[bytes]:
    """Shares 1 ... count of a secret, any ``threshold`` of which give it back; fewer say nothing (Shamir, 1979)."""
    polynomial = [int.from_bytes(secret, "little"), *(secrets.randbelow(PRIME) for _ in range(threshold - 1))]
    return [_value(polynomial, place).to_bytes(SHARE_BYTES, "little") for place in range(1, count + 1)]


def combine_shares(shares: Mapping[int, bytes]) -> bytes:
    """The secret, from enough of its shares by their numbers."""
    places = list(shares)
    total = 0
    for place, factor in zip(places, _factors(places)):
        total += factor * int.from_bytes(shares[place], "little")
    try:
        return (total % PRIME).to_bytes(SECRET_BYTES, "little")
    except OverflowError:
        raise MessageError("shares of a secret do not fit together") from None


def check_public_key(public: bytes) -> None:
    """Raise unless two agents could share a key by this public one."""
    common_key(new_secret(), public, b"check")


def recover_secret(
    shares: Mapping[int, bytes], threshold: int, right: Callable[[bytes], bool]
) -> tuple[bytes, set[int]]:
    """A secret that is known when seen, from shares of which some may be wrong; and the numbers of the wrong ones.

    Subsets without one share, without two and so on are tried; with many wrong ones there is no secret to be had.
    """
    places, tried = sorted(shares), 0
    for wrong in range(len(places) - threshold + 1):
        for left_out in combinations(places, wrong):
            kept = {place: shares[place] for place in places if place not in left_out}
            some = dict(list(kept.items())[:threshold])
            tried += 1
            if tried > MOST_TRIED:
                raise MessageError("too many shares of a secret are wrong")
            try:
                secret = combine_shares(some)
            except MessageError:
                continue
            if right(secret):
                return secret, {place for place in places if not _fits(some, place, shares[place])}
    raise MessageError("shares of a secret do not fit together")


def _fits(some: Mapping[int, bytes], place: int, share: bytes) -> bool:
    """Whether a share lies on the polynomial through the others."""
    total = 0
    for other, factor in zip(some, _factors(list(some), place)):
        total += factor * int.from_bytes(some[other], "little")
    return total % PRIME == int.from_bytes(share, "little")


def _value(polynomial: Sequence[int], place: int) -> int:
    value = 0
    for coefficient in reversed(polynomial):
        value = (value * place + coefficient) % PRIME
    return value


def _factors(places: Sequence[int], at: int = 0) -> list[int]:
    """Lagrange's factors, for the value at 0, or elsewhere, of the polynomial through these places."""
    factors = []
    for place in places:
        top = bottom = 1
        for other in places:
            if other != place:
                top = top * (other - at) % PRIME
                bottom = bottom * (other - place) % PRIME
        factors.append(top * pow(bottom, -1, PRIME))
    return factors
