# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The keys and certificates of one sandbox, made anew for each start."""

from __future__ import annotations

import datetime
import ipaddress
import typing as t
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_LIFETIME = datetime.timedelta(days=30)
_DNS_NAMES = ("localhost", "kubernetes", "virt-api.kubevirt", "virt-api.kubevirt.svc")
_ADDRESSES = ("127.0.0.1", "10.0.0.1")

#: file to the name that virt-operator gives it, and that parts of KubeVirt ask for of each other
#: (pkg/virt-operator/resource/generate/components/secrets.go)
VIRT_HANDLER: t.Final = {
    "virt-handler-server": "kubevirt.io:system:node:virt-handler",
    "virt-handler-client": "kubevirt.io:system:client:virt-handler",
    "virt-handler-migration": "kubevirt.io:system:client:migration",
}


class Issuer(t.NamedTuple):
    """A certificate with its key, able to sign others."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def issue_all(directory: Path, address: str = _ADDRESSES[0]) -> None:
    """Write ``<name>.crt`` and ``<name>.key`` (PEM) for every part; nodes reach the control plane at `address`.

    ``ca`` signs the servers. ``front-proxy-ca`` is a second authority, since the API server trusts
    every certificate of it to speak for any user (aggregation layer). ``service-account`` is a bare
    key pair that signs service account tokens.
    """
    directory.mkdir(mode=0o700)
    authority = _issue(directory, "ca")
    for name in ("kube-apiserver", "virt-api", "virt-controller"):
        _issue(directory, name, authority, addresses={*_ADDRESSES, address})
    for name, subject in VIRT_HANDLER.items():
        _issue(directory, name, authority, subject)
    _issue(directory, "front-proxy-client", _issue(directory, "front-proxy-ca"))
    key = _write_key(directory, "service-account")
    (directory / "service-account.pub").write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )


def _issue(
    directory: Path,
    name: str,
    issuer: Issuer | None = None,
    common_name: str = "",
    addresses: t.Collection[str] = _ADDRESSES,
) -> Issuer:
    key = _write_key(directory, name)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name or name)])
    # an hour back: clocks of containers on one machine may differ by moments
    begin = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(hours=1)
    alternatives: list[x509.GeneralName] = [x509.DNSName(dns) for dns in _DNS_NAMES]
    alternatives += [x509.IPAddress(ipaddress.ip_address(address)) for address in sorted(addresses)]
    certified = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + _LIFETIME)
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    )
    for extension in _of_strict_clients(key, issuer):
        certified = certified.add_extension(
            extension, critical=isinstance(extension, x509.KeyUsage)
        )
    certificate = certified.sign(issuer.key if issuer else key, hashes.SHA256())
    (directory / f"{name}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return Issuer(certificate, key)


def _of_strict_clients(
    key: ec.EllipticCurvePrivateKey, issuer: Issuer | None
) -> t.Iterator[x509.ExtensionType]:
    """What OpenSSL's X509_V_FLAG_X509_STRICT asks for (crypto/x509/x509_vfy.c, check_extensions), which Python sets
    since 3.13."""
    yield x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    if issuer is not None:
        yield x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.key.public_key())
        return
    unset = dict.fromkeys(
        (
            "content_commitment",
            "key_encipherment",
            "data_encipherment",
            "key_agreement",
            "encipher_only",
            "decipher_only",
        ),
        False,
    )
    yield x509.KeyUsage(digital_signature=True, key_cert_sign=True, crl_sign=True, **unset)


def _write_key(directory: Path, name: str) -> ec.EllipticCurvePrivateKey:
    key = ec.generate_private_key(ec.SECP256R1())
    path = directory / f"{name}.key"
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
    return key
