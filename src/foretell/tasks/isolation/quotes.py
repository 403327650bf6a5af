"""Quotes of SGX: what a proof of an enclave says, and whether it is signed by a chain we trust."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING

from foretell.errors import UsageError
from foretell.tasks.isolation.sealing import IntegrityError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.x509 import Certificate

_HEADER, _REPORT, _SIGNATURE, _KEY = 48, 384, 64, 64
_VERSION, _ECDSA_P256, _PEM_CHAIN = 3, 2, 5
_DEBUG = 0b10
_MOST_BYTES = 2**20
_LEAST_NONCE = 32
#: The hash of the key with which Intel signs its quoting enclaves.
_INTEL = bytes.fromhex("8c4f5775d796503e96137f77c68a829a0056ac8ded70140b081b094490c57bff")


@dataclass(frozen=True)
class Quote:
    """A proof of an enclave, in version 3 of Intel's format with an ECDSA key on P-256.

    Attributes
    ----------
    mrenclave, mrsigner
        The measurement of what runs, and the hash of the key that signed it.
    report_data
        64 bytes that the enclave chose: here the nonce that it was asked with, and its public key.
    """

    content: bytes

    def __post_init__(self) -> None:
        if not _HEADER + _REPORT + 4 <= len(self.content) <= _MOST_BYTES:
            raise IntegrityError(f"a quote of {len(self.content)} bytes is not one of SGX")
        version, kind = struct.unpack_from("<HH", self.content)
        if (version, kind) != (_VERSION, _ECDSA_P256):
            raise IntegrityError(
                f"a quote must have version {_VERSION} and an ECDSA key on P-256, not version "
                f"{version} and key type {kind}"
            )

    @property
    def signed(self) -> bytes:
        """What the attestation key signs: the header and the report."""
        return self.content[: _HEADER + _REPORT]

    @property
    def mrenclave(self) -> bytes:
        """The measurement of what runs."""
        return self._report(64, 32)

    @property
    def mrsigner(self) -> bytes:
        """The hash of the key that signed what runs."""
        return self._report(128, 32)

    @property
    def is_debug(self) -> bool:
        """Whether a debugger can read the memory of the enclave."""
        return bool(self._report(48, 1)[0] & _DEBUG)

    @property
    def cpu_svn(self) -> bytes:
        """The security version of the processor."""
        return self._report(0, 16)

    @property
    def report_data(self) -> bytes:
        """What the enclave chose to have signed."""
        return self._report(320, 64)

    def _report(self, start: int, length: int) -> bytes:
        return self.content[_HEADER + start : _HEADER + start + length]


@dataclass(frozen=True)
class Expected:
    """What a quote must show before a key is released.

    Attributes
    ----------
    nonce
        What the enclave was asked with: 32 bytes or more, so that nobody guesses it.
    roots
        The certificates that a chain must end in, in PEM: Intel's, in production.
    tcb
        Status of each security version of processors that the maker has published, by its hex.
    statuses
        Those that are good enough.
    quoting_signer
        The hash of the key that signed the quoting enclave: Intel's, in production.
    """

    mrenclave: bytes
    mrsigner: bytes
    nonce: bytes
    roots: bytes
    tcb: Mapping[str, str]
    statuses: tuple[str, ...] = ("UpToDate",)
    quoting_signer: bytes = _INTEL

    def __post_init__(self) -> None:
        if not _LEAST_NONCE <= len(self.nonce) <= 64:
            raise UsageError(
                f"a nonce must have {_LEAST_NONCE} to 64 bytes, not {len(self.nonce)}: make one "
                "with os.urandom"
            )


def verify_quote(quote: Quote, expected: Expected, at: datetime | None = None) -> None:
    """Raise an IntegrityError unless a trusted chain signed a quote and it shows what it must."""
    signature = _Signature.of(quote.content[_HEADER + _REPORT :])
    leaf = _trusted_leaf(signature.chain, expected.roots, at or datetime.now(UTC))
    _check_signature(leaf, signature.qe_signature, signature.qe_report, "the quoting enclave")
    _check_quoting(signature.qe_report, expected)
    bound = hashlib.sha256(signature.key + signature.authentication).digest()
    if signature.qe_report[320:352] != bound:
        raise IntegrityError("the quoting enclave vouches for another attestation key")
    _check_signature(_public_key(signature.key), signature.signature, quote.signed, "the quote")
    _check_content(quote, expected)


def _check_quoting(report: bytes, expected: Expected) -> None:
    if report[48] & _DEBUG:
        raise IntegrityError("the quoting enclave runs in debug mode, and may have signed anything")
    if report[128:160] != expected.quoting_signer:
        raise IntegrityError("the quoting enclave is signed by another: its MRSIGNER differs")


def _check_content(quote: Quote, expected: Expected) -> None:
    if quote.is_debug:
        raise IntegrityError("the enclave runs in debug mode: anyone on its machine can read it")
    if quote.mrenclave != expected.mrenclave:
        raise IntegrityError("the enclave runs other code: MRENCLAVE differs")
    if quote.mrsigner != expected.mrsigner:
        raise IntegrityError("the enclave is signed by another: MRSIGNER differs")
    if quote.report_data[: len(expected.nonce)] != expected.nonce:
        raise IntegrityError("the quote answers another question: its nonce differs")
    status = expected.tcb.get(quote.cpu_svn.hex(), "unknown")
    if status not in expected.statuses:
        raise IntegrityError(
            f"the security version of the processor is {status}, and must be "
            f"{' or '.join(expected.statuses)}"
        )


@dataclass(frozen=True)
class _Signature:
    signature: bytes
    key: bytes
    qe_report: bytes
    qe_signature: bytes
    authentication: bytes
    chain: bytes

    @classmethod
    def of(cls, content: bytes) -> _Signature:
        """Read the signature part of a quote; every length in it is checked."""
        reader = _Reader(content)
        (length,) = struct.unpack("<I", reader.take(4))
        reader = _Reader(reader.take(length))
        signature, key = reader.take(_SIGNATURE), reader.take(_KEY)
        qe_report, qe_signature = reader.take(_REPORT), reader.take(_SIGNATURE)
        authentication = reader.take(struct.unpack("<H", reader.take(2))[0])
        kind, size = struct.unpack("<HI", reader.take(6))
        if kind != _PEM_CHAIN:
            raise IntegrityError(f"a quote must bring its chain of certificates, not data {kind}")
        chain = reader.take(size)
        reader.check_end()
        return cls(signature, key, qe_report, qe_signature, authentication, chain)


class _Reader:
    def __init__(self, content: bytes) -> None:
        self._content, self._place = content, 0

    def take(self, n: int) -> bytes:
        found = self._content[self._place : self._place + n]
        if len(found) < n:
            raise IntegrityError("a quote is cut off")
        self._place += n
        return found

    def check_end(self) -> None:
        if self._place < len(self._content):
            raise IntegrityError("the lengths in a quote do not add up")


def _trusted_leaf(chain: bytes, roots: bytes, at: datetime) -> EllipticCurvePublicKey:
    """Return the key of the first certificate, if each is issued by the next and a root ends it."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.x509 import load_pem_x509_certificates

    try:
        found = load_pem_x509_certificates(chain.rstrip(b"\0"))
        trusted = load_pem_x509_certificates(roots)
        for one, issuer in pairwise(found):
            one.verify_directly_issued_by(issuer)
            _check_issuer(issuer)
        if not any(found[-1] == root for root in trusted):
            issuers = [root for root in trusted if root.subject == found[-1].issuer]
            if not issuers:
                raise IntegrityError("the chain of certificates does not end in a trusted root")
            found[-1].verify_directly_issued_by(issuers[0])
    except (ValueError, TypeError, InvalidSignature) as error:
        raise IntegrityError(
            f"the chain of certificates is wrong: {type(error).__name__}"
        ) from None
    for certificate in found:
        if not certificate.not_valid_before_utc <= at <= certificate.not_valid_after_utc:
            raise IntegrityError("a certificate of the chain is not valid at this time")
    key = found[0].public_key()
    if not isinstance(key, EllipticCurvePublicKey):
        raise IntegrityError("the key of the processor is not one on P-256")
    return key


def _check_issuer(certificate: Certificate) -> None:
    from cryptography.x509 import BasicConstraints, ExtensionNotFound

    try:
        is_issuer = certificate.extensions.get_extension_for_class(BasicConstraints).value.ca
    except ExtensionNotFound:
        is_issuer = False
    if not is_issuer:
        raise IntegrityError("a certificate of the chain may not issue others")


def _public_key(point: bytes) -> EllipticCurvePublicKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    try:
        return ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), b"\x04" + point)
    except ValueError:
        raise IntegrityError("the attestation key is not a point of P-256") from None


def _check_signature(
    key: EllipticCurvePublicKey, signature: bytes, content: bytes, whose: str
) -> None:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
    from cryptography.hazmat.primitives.hashes import SHA256

    r, s = (int.from_bytes(part, "big") for part in (signature[:32], signature[32:]))
    try:
        key.verify(encode_dss_signature(r, s), content, ec.ECDSA(SHA256()))
    except InvalidSignature:
        raise IntegrityError(f"the signature of {whose} is wrong") from None
