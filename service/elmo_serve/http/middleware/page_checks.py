"""Checks of what web pages send to a server that their reader can reach."""

import ipaddress
from collections.abc import Collection
from typing import Final

from starlette.types import Scope

from elmo_model.errors import shown
from elmo_serve.errors import Forbidden
from elmo_serve.http import headers
from elmo_serve.http.middleware.request_checks import Check

_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_OTHER_ORIGINS: Final = ("cross-site", "same-site")
"""Values of `Sec-Fetch-Site` for a page of another origin; `same-site` differs in its port or
subdomain."""


def host_check(origins: Collection[str]) -> Check:
    """Answer 403 to a `Host` that anybody may own: DNS rebinding.

    The owner of a domain can point it to 127.0.0.1. For a browser, a page of that domain and the
    server here then have one origin. Nobody owns IP addresses in this way, `localhost` or names
    without a dot. The hosts of `origins` are allowed.
    """
    hosts = {_host(origin.rpartition("/")[2]) for origin in origins}

    def check(scope: Scope) -> None:
        host = _host(headers.first(scope, b"host") or "")
        if not (_is_local(host) or host in hosts or "*" in origins):
            raise Forbidden(
                f"Host is {shown(host)}, expected an IP address, localhost or a host of "
                "ELMO_CORS_ORIGINS."
            )

    return check


def origin_check(origins: Collection[str], *, compares_hosts: bool = False) -> Check:
    """Answer 403 to a request other than GET, HEAD and OPTIONS from a page of another origin.

    `origins` are allowed. Browsers send such a request without asking before, if its body has no
    media type; only its answer is kept from the page. They send `Sec-Fetch-Site` to `https` and to
    `localhost` alone: with `compares_hosts`, `Origin` must have the host of `Host` where it is
    missing. Programs other than browsers send neither.
    """

    def check(scope: Scope) -> None:
        if scope["method"] in _SAFE_METHODS or "*" in origins:
            return
        origin = (headers.first(scope, b"origin") or "").lower()
        site = headers.first(scope, b"sec-fetch-site")
        is_other = (site or "").lower() in _OTHER_ORIGINS
        if site is None and origin and compares_hosts:
            host = _host(headers.first(scope, b"host") or "")
            is_other = _host(origin.rpartition("/")[2]) != host
        if is_other and origin not in origins:
            raise Forbidden(
                f"Origin is {shown(origin)}; pages of another origin send "
                f"{shown(scope['method'])} only from those in ELMO_CORS_ORIGINS."
            )

    return check


def _host(authority: str) -> str:
    """Return the host of `host:port`, in lower case and without brackets."""
    if authority.startswith("["):
        return authority[1:].partition("]")[0].lower()
    return authority.partition(":")[0].rstrip(".").lower()


def _is_local(host: str) -> bool:
    if "." not in host or host.endswith(".localhost"):
        return True
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
