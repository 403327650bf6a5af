"""Enclaves: manifests, and quotes that are made here with keys of our own and then spoiled."""

import hashlib
import struct
import tomllib
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

pytest.importorskip("cryptography")

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from foretell.errors import UsageError
from foretell.tasks import IntegrityError
from foretell.tasks.isolation.enclave import Gramine, Manifest
from foretell.tasks.isolation.quotes import Expected, Quote, verify_quote

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NONCE = b"n" * 32
ENCLAVE, SIGNER, MAKER, SVN = b"e" * 32, b"s" * 32, b"m" * 32, bytes(range(16))


def certificate(name, key, issuer, issuer_key, *, is_issuer=True):
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    issued_by = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, issuer)])
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issued_by)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - timedelta(days=1))
        .not_valid_after(NOW + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=is_issuer, path_length=None), critical=True)
        .sign(issuer_key, hashes.SHA256())
    )


def pem(*certificates):
    return b"".join(c.public_bytes(serialization.Encoding.PEM) for c in certificates)


def raw(key, content):
    r, s = decode_dss_signature(key.sign(content, ec.ECDSA(hashes.SHA256())))
    return r.to_bytes(32, "big") + s.to_bytes(32, "big")


ROOT, MIDDLE, LEAF, ATTESTATION = (ec.generate_private_key(ec.SECP256R1()) for _ in range(4))
ROOT_CERTIFICATE = certificate("root", ROOT, "root", ROOT)
CHAIN = pem(
    certificate("leaf", LEAF, "middle", MIDDLE, is_issuer=False),
    certificate("middle", MIDDLE, "root", ROOT),
    ROOT_CERTIFICATE,
)


def report(*, flags=0b101, data=b"", enclave=ENCLAVE, signer=SIGNER, svn=SVN):
    found = bytearray(384)
    found[0:16], found[48:56] = svn, flags.to_bytes(8, "little")
    found[64:96], found[128:160] = enclave, signer
    found[320 : 320 + len(data)] = data
    return bytes(found)


def quote(*, chain=CHAIN, attestation=ATTESTATION, leaf=LEAF, vouched=None, quoting=None, **shown):
    point = attestation.public_key().public_numbers()
    key = point.x.to_bytes(32, "big") + point.y.to_bytes(32, "big")
    authentication = b"a" * 32
    bound = vouched or hashlib.sha256(key + authentication).digest()
    quoting = report(data=bound, **{"signer": MAKER, **(quoting or {})})
    header = struct.pack("<HHI", 3, 2, 0) + bytes(40)
    signed = header + report(**{"data": NONCE, **shown})
    signature = raw(attestation, signed) + key + quoting + raw(leaf, quoting)
    signature += struct.pack("<H", len(authentication)) + authentication
    signature += struct.pack("<HI", 5, len(chain)) + chain
    return signed + struct.pack("<I", len(signature)) + signature


def expected(**changed):
    given = {
        "mrenclave": ENCLAVE, "mrsigner": SIGNER, "nonce": NONCE, "roots": pem(ROOT_CERTIFICATE),
        "tcb": {SVN.hex(): "UpToDate"}, "quoting_signer": MAKER,
    }  # fmt: skip
    return Expected(**{**given, **changed})


def check(content, at=NOW, **changed):
    verify_quote(Quote(content), expected(**changed), at)


def test_quote_that_shows_all_it_must_is_accepted():
    check(quote())


def test_chain_may_leave_its_root_out():
    check(quote(chain=CHAIN[: CHAIN.rindex(b"-----BEGIN")]))


OTHER = ec.generate_private_key(ec.SECP256R1())
FALSE_ISSUER = certificate("middle", MIDDLE, "root", ROOT, is_issuer=False)


@pytest.mark.parametrize(
    ("content", "changed", "told"),
    [
        (quote(flags=0b111), {}, "debug"),
        (quote(enclave=b"x" * 32), {}, "MRENCLAVE"),
        (quote(signer=b"x" * 32), {}, "MRSIGNER"),
        (quote(data=b"x" * 32), {}, "nonce"),
        (quote(svn=bytes(16)), {}, "unknown"),
        (quote(), {"tcb": {SVN.hex(): "OutOfDate"}}, "OutOfDate"),
        (quote(), {"roots": pem(certificate("root", OTHER, "root", OTHER))}, "chain"),
        (quote(leaf=OTHER), {}, "quoting enclave"),
        (quote(vouched=b"x" * 32), {}, "attestation key"),
        (quote(quoting={"signer": b"x" * 32}), {}, "quoting enclave is signed by another"),
        (quote(quoting={"flags": 0b111}), {}, "quoting enclave runs in debug mode"),
        (quote(chain=pem(certificate("leaf", LEAF, "middle", MIDDLE), FALSE_ISSUER,
                         ROOT_CERTIFICATE)), {}, "may not issue"),
        (quote(chain=b"not a certificate"), {}, "chain"),
        (quote()[:500], {}, "cut off"),
        (struct.pack("<HH", 4, 2) + quote()[4:], {}, "version 4"),
        (b"short", {}, "5 bytes"),
    ],
)  # fmt: skip
def test_quote_that_lacks_anything_is_refused(content, changed, told):
    with pytest.raises(IntegrityError, match=told):
        check(content, **changed)


def test_expired_certificates_are_refused():
    with pytest.raises(IntegrityError, match="not valid at this time"):
        check(quote(), at=NOW + timedelta(days=3))


GOOD = quote()


@pytest.mark.parametrize("length", [0, 16, 31, 65])
def test_nonces_that_could_be_guessed_or_do_not_fit_are_refused(length):
    with pytest.raises(UsageError, match="32 to 64 bytes"):
        expected(nonce=NONCE[:1] * length)


def test_quoting_enclave_must_be_that_of_intel_unless_another_is_named():
    intel = bytes.fromhex("8c4f5775d796503e96137f77c68a829a0056ac8ded70140b081b094490c57bff")
    given = expected()
    of_intel = Expected(given.mrenclave, given.mrsigner, NONCE, given.roots, given.tcb)
    verify_quote(Quote(quote(quoting={"signer": intel})), of_intel, NOW)
    with pytest.raises(IntegrityError, match="quoting enclave"):
        verify_quote(Quote(GOOD), of_intel, NOW)


@example(place=len(GOOD) - len(CHAIN) - 4, bit=0)  # the length of the chain
@given(place=st.integers(0, len(GOOD) - len(CHAIN) - 1), bit=st.integers(0, 7))
def test_every_changed_bit_before_the_chain_is_noticed(place, bit):
    content = bytearray(GOOD)
    content[place] ^= 1 << bit
    with pytest.raises(IntegrityError):
        check(bytes(content))


def test_manifest_has_threads_size_and_attestation():
    manifest = Manifest("/usr/bin/python3", ["/usr/lib/", "/app/"], ["/data/"], workers=6,
                        memory_bytes=3 * 2**30)  # fmt: skip
    found = tomllib.loads(manifest.to_toml())
    assert found["sgx"]["remote_attestation"] == "dcap"
    assert found["sgx"]["max_threads"] == 10
    assert found["sgx"]["enclave_size"] == "4096M"
    assert found["sgx"]["debug"] is False
    assert "file:/app/" in found["sgx"]["trusted_files"]
    assert [m["type"] for m in found["fs"]["mounts"] if "type" in m] == ["encrypted"]


def test_missing_hardware_and_tools_are_named(tmp_path, monkeypatch):
    assert "SGX device" in Gramine(tmp_path).missing()
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "sgx_enclave").touch()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "gramine-sgx" in Gramine(tmp_path).missing()
    for tool in ("gramine-sgx", "gramine-manifest", "gramine-sgx-sign", "is-sgx-available"):
        (tmp_path / tool).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / tool).chmod(0o755)
    assert "DCAP" in Gramine(tmp_path).missing()
