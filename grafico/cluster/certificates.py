"""Certificates of one cluster: an authority that signs once and is forgotten, and one certificate for all its parts.

Whoever holds the key is in; nobody else is, on loopback or elsewhere. So the key stands in a file that only its owner
can read, and is passed on by path, never by value.
"""

import datetime
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grafico.errors import MissingExtra, ProfileError

__all__ = ["issue", "security", "tls_paths"]

YEARS = 5
"""A cluster may stay up for long; its certificates are made anew whenever it comes up."""

SKEW = datetime.timedelta(days=1)
"""By how much the clocks of hosts may disagree."""

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
"""What a key may be used for (RFC 5280, 4.2.1.3)."""

CA, CERTIFICATE, KEY = "ca.pem", "node.pem", "node.key"


def issue(folder: Path) -> None:
    """Write fresh certificates (elliptic curve P-256) into a private folder, in place of those that are there.

    Parameters
    ----------
    folder
        Belongs to us, and is closed to others.

    Raises
    ------
    ProfileError
        Others could read what is written there.
    MissingExtra
        ``cryptography`` is not installed.
    """
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
    except ImportError as error:
        raise MissingExtra(
            f"certificates need the package cryptography ({error})",
            hint="pip install cryptography, or set security: none in the profile on a machine of your own",
        ) from error
    status = folder.lstat()
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise ProfileError(
            f"{folder} is not a folder that only you can read, so a cluster cannot keep its key in it",
            hint="the file system may not know permissions: choose another folder",
        )
    now = datetime.datetime.now(datetime.UTC)

    def begin(common: str, key: ec.EllipticCurvePublicKey, issuer: str) -> x509.CertificateBuilder:
        def name(text: str) -> x509.Name:
            return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

        return (
            x509.CertificateBuilder()
            .subject_name(name(common))
            .issuer_name(name(issuer))
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - SKEW)
            .not_valid_after(now + datetime.timedelta(days=365 * YEARS))
        )

    def usage(**allowed: bool) -> x509.KeyUsage:
        return x509.KeyUsage(**{**dict.fromkeys(USES, False), **allowed})

    authority = ec.generate_private_key(ec.SECP256R1())
    node = ec.generate_private_key(ec.SECP256R1())
    ca = (
        begin("grafico authority", authority.public_key(), "grafico authority")
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage(key_cert_sign=True, crl_sign=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(authority.public_key()), critical=False)
        .sign(authority, hashes.SHA256())
    )
    both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    certificate = (
        begin("grafico", node.public_key(), "grafico authority")
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage(both), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(node.public_key()), critical=False)
        # RFC 5280 asks for what tells keys and their use; Python refuses a chain without it from 3.13 on.
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()), critical=False)
        .sign(authority, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    _write(folder / CA, ca.public_bytes(pem))
    _write(folder / CERTIFICATE, certificate.public_bytes(pem))
    _write(
        folder / KEY,
        node.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )


def _write(path: Path, data: bytes) -> None:
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(data)


def tls_paths(folder: Path) -> dict[str, str]:
    """Return the paths of a cluster's certificates, as :func:`security` takes them."""
    return {"ca": str(folder / CA), "certificate": str(folder / CERTIFICATE), "key": str(folder / KEY)}


def security(paths: Mapping[str, str] | None) -> Any:
    """Return Dask's ``Security``: both sides of every connection must show a certificate of this cluster.

    Ports that this process opens with it keep those within bounds who have none; see :mod:`grafico.cluster.strangers`.

    Parameters
    ----------
    paths
        From :func:`tls_paths`; ``None`` for a cluster without security.
    """
    from distributed import Security

    if paths is None:
        return Security()
    from grafico.cluster.strangers import bound_strangers

    bound_strangers()
    given: dict[str, Any] = {"tls_ca_file": paths["ca"], "require_encryption": True}
    for role in ("client", "scheduler", "worker"):
        given[f"tls_{role}_cert"] = paths["certificate"]
        given[f"tls_{role}_key"] = paths["key"]
    return Security(**given)
