"""Addresses of SPARQL endpoints, and the credentials for them.

An address is one line of text, so that a job file, an option or ``$GRAFICO_KB`` can hold it:

- ``https://host/dataset``: queries go to ``…/query``, updates to ``…/update`` (Fuseki, Oxigraph server);
- ``https://host/path/sparql``: both go there (Blazegraph);
- ``https://host/path/query``: updates go to its sibling ``…/update``;
- ``https://host/repositories/kb#query=&update=kb/statements``: said by hand, relative to the address (GraphDB);
- ``https://host/sparql#updates=form``: updates are sent as a form, as queries are, for servers that want that.

A server that rounds numbers, as Virtuoso 7.2.5 does (to six digits), is refused when results are to be written there.
"""

import ipaddress
import os
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urldefrag, urljoin, urlsplit

from grafico.errors import BadInput

__all__ = ["Address", "Credentials", "credentials", "is_address", "read_address"]

USER, PASSWORD, TOKEN = "GRAFICO_KB_USER", "GRAFICO_KB_PASSWORD", "GRAFICO_KB_TOKEN"


@dataclass(frozen=True, slots=True)
class Address:
    """Where an endpoint answers queries and takes updates."""

    url: str
    query_url: str
    update_url: str
    updates_as_form: bool = False

    def __str__(self) -> str:
        return self.url


@dataclass(frozen=True, slots=True)
class Credentials:
    """What is sent as ``Authorization``; shown nowhere."""

    header: str = field(repr=False)
    kind: str
    secret: str = field(repr=False)
    """The password or token itself."""

    def hidden(self, text: str) -> str:
        """Return a text without what it may have of them, in whichever form they were sent."""
        for secret in (self.header, self.header.partition(" ")[2], self.secret, " ".join(self.secret.split())):
            text = text.replace(secret, "…") if secret else text
        return text

    def __str__(self) -> str:
        return f"{self.kind} credentials"


def is_address(text: object) -> bool:
    """Return whether a text names a store by address, and not by folder."""
    return isinstance(text, str) and "://" in text


def read_address(text: str) -> Address:
    """Return the address that a text gives.

    Raises
    ------
    BadInput
        It is no address of an endpoint, or holds a password.
    """
    base, fragment = urldefrag(text.strip())
    try:
        parts = urlsplit(base)
        port_is_number = parts.port is None or parts.port > 0
    except ValueError as error:
        raise BadInput(f"not the address of a SPARQL endpoint: {_shown(text)}: {error}", hint=_FORMS) from None
    if parts.username is not None or parts.password is not None or "@" in parts.netloc:
        raise BadInput(
            "the address of a SPARQL endpoint must hold no user name and no password: it is written into job files",
            hint=f"set {USER} and {PASSWORD}, or {TOKEN}, in the environment",
        )
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname or not port_is_number:
        raise BadInput(f"not the address of a SPARQL endpoint: {_shown(text)}", hint=_FORMS)
    if any(ord(sign) <= 0x20 or sign in '<>"{}|\\^`' for sign in base):
        raise BadInput(f"an address has signs that no address may have: {_shown(text)}", hint=_FORMS)
    query_url, update_url = _derived(base.rstrip("/"))
    as_form = False
    for name, value in parse_qsl(fragment, keep_blank_values=True):
        if (name, value) == ("updates", "form"):
            as_form = True
            continue
        if name not in ("query", "update"):
            raise BadInput(
                f"what follows # in an address may be query=, update= and updates=form, not {name!r}", hint=_FORMS
            )
        given = urljoin(base, value) if value else base
        if name == "query":
            query_url = _same_kind(given, base)
        else:
            update_url = _same_kind(given, base)
    return Address(text.strip(), query_url, update_url, as_form)


_FORMS = "an address reads like https://host/dataset or https://host/path/sparql#update=/path/to/update"


def _shown(text: str) -> str:
    # Whatever stands before an @ may be a password.
    return repr(text.rpartition("@")[2][:120])


def _derived(base: str) -> tuple[str, str]:
    path, question, _ = base.partition("?")
    last = path.rpartition("/")[2]
    if last == "sparql" or question:
        return base, base
    if last == "query":
        return base, f"{path.removesuffix('query')}update"
    return f"{base}/query", f"{base}/update"


def _same_kind(url: str, base: str) -> str:
    if urlsplit(url).scheme != urlsplit(base).scheme or urlsplit(url).netloc != urlsplit(base).netloc:
        # Credentials are for one server.
        raise BadInput(
            f"query= and update= must name places on {urlsplit(base).netloc}, not {_shown(url)}", hint=_FORMS
        )
    return url


def credentials(address: Address) -> Credentials | None:
    """Return what the environment holds for an endpoint: a token, a user and a password, or nothing.

    Raises
    ------
    BadInput
        They are incomplete, or the address would send them in the clear over a network.
    """
    token, user, password = (os.environ.get(name) or None for name in (TOKEN, USER, PASSWORD))
    if token is None and user is None and password is None:
        return None
    if token is None and (user is None or password is None):
        raise BadInput(f"{USER} and {PASSWORD} belong together; only one of them is set", hint=f"or set {TOKEN} alone")
    parts = urlsplit(address.query_url)
    if parts.scheme.lower() != "https" and not _is_loopback(parts.hostname or ""):
        raise BadInput(
            f"{address} is plain http: a password or token sent to {parts.hostname} could be read on the way",
            hint=f"use https, a tunnel to a loopback address, or unset {TOKEN}, {USER} and {PASSWORD}",
        )
    if token is not None:
        return Credentials(_header("Bearer", _clean(token, TOKEN)), "token", token.strip())
    from base64 import b64encode

    assert user is not None
    assert password is not None
    if ":" in user:
        raise BadInput(f"{USER} must not hold a colon")
    return Credentials(_header("Basic", b64encode(f"{user}:{password}".encode()).decode()), "password", password)


def _header(scheme: str, value: str) -> str:
    return f"{scheme} {value}"


def _clean(token: str, name: str) -> str:
    token = token.strip()
    if not token.isascii() or not token.isprintable() or " " in token:
        raise BadInput(f"{name} holds signs that no token may have")
    return token


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
