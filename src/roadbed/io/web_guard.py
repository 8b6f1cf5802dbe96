# SPDX-License-Identifier: Apache-2.0
"""Access control of web servers: `Host` and `Origin` of each request are checked; other machines need a token."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterable
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address
from secrets import compare_digest
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from roadbed.core.errors import DeviceError, InputError

if TYPE_CHECKING:
    from websockets.http11 import Request, Response

    Answer = Callable[[Any, Request], Response | None]  # what websockets calls process_request

_ANYWHERE = {"0.0.0.0": "192.0.2.1", "::": "2001:db8::1"}  # with an address to look for a way to; nothing is sent
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_AUTHORITY = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(:(?P<port>[0-9]{1,5}))?", re.ASCII)


class Guard:
    """Rejects requests of foreign pages and rebound host names with status 403.

    Accepted hosts: `host`, loopback names and the address of the connection, with the served port, and `others` with
    any port, as behind a proxy. With a `token` the page is first opened with `?token=...`. With `origins`, these pages
    of other servers are accepted too, and programs that are no browsers.
    """

    def __init__(self, host: str, others: Iterable[str] = (), token: str = "", origins: Iterable[str] = ()) -> None:
        self._own = _LOOPBACK | {host.lower()}
        self._others = frozenset(_checked_name(name) for name in others)
        self._token = token
        self._origins = frozenset(origins)

    def around(self, answer: Answer) -> Answer:
        """Wrap `answer`: it gets accepted requests only, and its responses get security headers."""

        def guarded(connection: Any, request: Request) -> Response | None:
            address, port = connection.local_address[:2]
            problem = self._problem(request, address, port)
            if problem:
                return connection.respond(HTTPStatus.FORBIDDEN, f"{problem}\n")
            response = answer(connection, request)
            if response is not None:
                self._seal(response, request, port)
            return response

        return guarded

    def _problem(self, request: Request, address: str, port: int) -> str:
        """Why a request is rejected; empty if it is accepted."""
        hosts, origins = request.headers.get_all("Host"), request.headers.get_all("Origin")
        host = hosts[0].lower() if len(hosts) == 1 else ""
        if not self._is_served(host, address, port):
            found = ", ".join(hosts) or "none"
            return f"Host: found {found}, expected {address}:{port} or a name given with --allow-host"
        # Browsers always send the origin of a websocket.
        expected = {f"http://{host}", f"https://{host}", *self._origins}
        from_page = origins or ("Upgrade" in request.headers and not self._origins)
        if from_page and (len(origins) != 1 or origins[0] not in expected):
            return f"Origin: found {', '.join(origins) or 'none'}, expected http://{host}"
        if self._token and not self._knows_token(request, port):
            return "token: missing or wrong, expected the one in the printed address"
        return ""

    def _is_served(self, host: str, address: str, port: int) -> bool:
        parts = _AUTHORITY.fullmatch(host)
        if parts is None:
            return False
        name = parts["name"].strip("[]")
        return name in self._others or (int(parts["port"] or 80) == port and name in self._own | {address})

    def _knows_token(self, request: Request, port: int) -> bool:
        offered = parse_qs(urlsplit(request.path).query).get("token", [])
        for header in request.headers.get_all("Cookie"):
            try:
                cookie = SimpleCookie(header).get(_cookie_name(port))
            except CookieError:
                continue
            offered += [cookie.value] if cookie else []
        return any(compare_digest(token.encode(errors="replace"), self._token.encode()) for token in offered)

    def _seal(self, response: Response, request: Request, port: int) -> None:
        """No other page may embed this one, and it connects to this server only."""
        host = request.headers["Host"]
        response.headers["Content-Security-Policy"] = (
            f"frame-ancestors 'none'; connect-src 'self' ws://{host} wss://{host} data: blob:"
        )
        response.headers["Referrer-Policy"] = "no-referrer"  # the token is part of the address
        if self._token:
            response.headers["Set-Cookie"] = f"{_cookie_name(port)}={self._token}; Path=/; HttpOnly; SameSite=Strict"


def _cookie_name(port: int) -> str:
    """Browsers share cookies between the ports of a machine, so each viewer has its own."""
    return f"roadbed-{port}"


def _checked_name(name: str) -> str:
    bare = name.lower().strip("[]")
    parts = _AUTHORITY.fullmatch(f"[{bare}]" if ":" in bare else bare)
    if parts is None:
        raise InputError(f"host {name!r}: expected a name or an address without scheme and port, e.g. robot.local")
    return bare


def is_loopback(host: str) -> bool:
    """Whether `host` is reachable from this machine only."""
    return all(ip_address(address[0]).is_loopback for *_, address in resolved(host, 0))


def address_of(scheme: str, host: str, port: int, token: str) -> str:
    """The URL to open, with the token if one is needed."""
    name = _reachable_name(host)
    name = f"[{name}]" if ":" in name else name
    return f"{scheme}://{name}:{port}" + (f"/?token={token}" if token else "")


def _reachable_name(host: str) -> str:
    """Address of `host` for other machines: this machine's own address if it means all interfaces."""
    if host not in _ANYWHERE:
        return host
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((_ANYWHERE[host], 9))
        except OSError:  # no network
            return "::1" if ":" in host else "127.0.0.1"
        return str(probe.getsockname()[0])


def resolved(host: str, port: int) -> list[Any]:
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror:
        raise DeviceError(f"host {host!r}: expected an address of this machine, e.g. 127.0.0.1 or 0.0.0.0") from None
