# SPDX-License-Identifier: Apache-2.0
"""Foreign pages, rebound names and strangers in the network get nothing from the viewer: no page and no websocket."""

import http.client
import socket
from ipaddress import ip_address
from urllib.parse import urlsplit

import pytest

from roadbed.core.errors import InputError
from roadbed.viewer import Viewer

pytestmark = pytest.mark.usefixtures("viser")
EVIL = "http://evil.example.com"


@pytest.fixture(scope="module")
def local(scans):
    with Viewer(scans, port=0, occupancy=False, allow_hosts=["Robot.local"]) as viewer:
        yield viewer


@pytest.fixture(scope="module")
def public(scans):
    """Bound to all addresses of this machine."""
    with Viewer(scans, host="0.0.0.0", port=0, occupancy=False) as viewer:
        yield viewer


def page(port, host, path="/", **headers):
    """The status of the page and its headers, for whatever a browser might be made to send."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.putrequest("GET", path, skip_host=True)
        for name, value in {"Host": host, **headers}.items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        answer.read()
        return answer.status, answer.headers
    finally:
        connection.close()


def handshake(viser, port, host, origin, **headers):
    """101 when the websocket opens and the scene arrives, else the status of the refusal."""
    from websockets.exceptions import InvalidStatus
    from websockets.sync.client import connect

    try:
        with connect(
            f"ws://{host}",
            sock=socket.create_connection(("127.0.0.1", port)),
            origin=origin,
            subprotocols=[f"viser-v{viser.__version__}"],
            additional_headers=headers,
            max_size=None,
            open_timeout=60,
        ) as client:
            assert client.recv(timeout=60)
            return 101
    except InvalidStatus as refusal:
        return refusal.response.status_code


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "[::1]"])
def test_its_own_page_is_let_in(viser, local, name):
    host = f"{name}:{local.port}"
    assert page(local.port, host)[0] == 200
    assert handshake(viser, local.port, host, f"http://{host}") == 101


def test_a_name_that_was_allowed_is_let_in_with_any_port(viser, local):
    for host in ("robot.local:443", f"robot.local:{local.port}"):
        assert page(local.port, host)[0] == 200
        assert handshake(viser, local.port, host, f"https://{host}") == 101
        assert handshake(viser, local.port, host, EVIL) == 403


@pytest.mark.parametrize(
    "origin",
    [EVIL, "http://127.0.0.1:1", "http://localhost", "https://evil.example.com", "null", "http://127.0.0.1.evil.com"],
)
def test_a_foreign_page_is_refused(viser, local, origin):
    host = f"127.0.0.1:{local.port}"
    assert page(local.port, host, Origin=origin)[0] == 403
    assert handshake(viser, local.port, host, origin) == 403


def test_a_websocket_without_origin_is_refused(viser, local):
    assert handshake(viser, local.port, f"127.0.0.1:{local.port}", None) == 403


@pytest.mark.parametrize("host", ["evil.example.com:{port}", "127.0.0.1:1", "evil@127.0.0.1:{port}", "0.0.0.0:{port}"])
def test_a_name_that_was_pointed_at_this_machine_is_refused(viser, local, host):
    host = host.format(port=local.port)
    assert page(local.port, host)[0] == 403
    if "@" not in host:
        assert handshake(viser, local.port, host, f"http://{host}") == 403


@pytest.mark.parametrize("path", ["/", "/nothing-here", "/?token=x"])
def test_the_refusal_shows_what_was_found_and_what_was_expected(local, path):
    connection = http.client.HTTPConnection("127.0.0.1", local.port, timeout=60)
    connection.request("GET", path, headers={"Host": "evil.example.com"})
    answer = connection.getresponse()
    assert answer.status == 403
    assert "found evil.example.com, expected 127.0.0.1:" in answer.read().decode()
    connection.close()


def test_no_other_page_may_frame_it(local):
    headers = page(local.port, f"localhost:{local.port}")[1]
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]


def test_the_page_does_not_follow_an_address_to_a_foreign_server(viser, local, browser, until):
    """viser's page takes `?websocket=`; a foreign server could run scripts in it that look like ours."""
    foreign = viser.ViserServer(host="127.0.0.1", port=0, verbose=False)
    try:
        browser.get(f"{local.address}/?websocket=ws://127.0.0.1:{foreign.get_port()}")
        until(lambda: [e for e in browser.get_log("browser") if "Content Security Policy" in e["message"]], "the veto")
        assert not foreign.get_clients()
    finally:
        browser.get("about:blank")
        foreign.stop()


def test_beyond_this_machine_only_who_has_the_token_is_let_in(viser, public):
    host = f"127.0.0.1:{public.port}"
    opened = urlsplit(public.address)
    assert opened.port == public.port
    assert opened.hostname != "0.0.0.0"
    assert len(opened.query) >= len("token=") + 20
    assert page(public.port, host)[0] == 403
    assert page(public.port, host, "/?token=guess")[0] == 403
    assert handshake(viser, public.port, host, f"http://{host}") == 403
    status, headers = page(public.port, host, f"/?{opened.query}")
    assert status == 200
    assert {"HttpOnly", "SameSite=Strict"} <= set(headers["Set-Cookie"].split("; "))
    cookie = headers["Set-Cookie"].split(";")[0]
    assert page(public.port, host, Cookie=cookie)[0] == 200
    assert handshake(viser, public.port, host, f"http://{host}", Cookie=cookie) == 101
    assert handshake(viser, public.port, host, EVIL, Cookie=cookie) == 403
    assert handshake(viser, public.port, host, f"http://{host}", Cookie=f"{cookie}x; \xff=1") == 403


def test_each_viewer_has_its_own_token(public, scans):
    with Viewer(scans, host="0.0.0.0", port=0, occupancy=False) as other:
        assert urlsplit(other.address).query != urlsplit(public.address).query


def test_the_printed_address_works_in_a_browser(public, browser, until):
    browser.get(public.address.replace(urlsplit(public.address).hostname, "127.0.0.1"))
    until(lambda: public._server.get_clients(), "the page to connect with its cookie")
    browser.get("about:blank")


@pytest.mark.parametrize("name", ["http://robot.local", "robot.local:80", "robot local", ""])
def test_an_invalid_host_name_is_reported(scans, name):
    with pytest.raises(InputError, match="expected a name or an address without scheme and port"):
        Viewer(scans, port=0, allow_hosts=[name])


def test_the_servers_of_others_are_left_alone(viser, scans):
    """Nothing of the package websockets is replaced, and viser itself is reachable from this machine only."""
    import websockets.asyncio.server

    serve = websockets.asyncio.server.serve
    with Viewer(scans, host="0.0.0.0", port=0, occupancy=False) as viewer:
        assert websockets.asyncio.server.serve is serve
        host = viewer._server.get_host()
        assert ip_address(host).is_loopback
        assert host != "127.0.0.1"
        with pytest.raises(ConnectionRefusedError):
            page(viewer._server.get_port(), f"127.0.0.1:{viewer._server.get_port()}")
        port = viewer.port
    with pytest.raises(ConnectionRefusedError):
        page(port, f"127.0.0.1:{port}")


def test_a_websocket_of_another_protocol_is_closed(local):
    from websockets.exceptions import ConnectionClosed
    from websockets.sync.client import connect

    own = f"127.0.0.1:{local.port}"
    with connect(f"ws://{own}", origin=f"http://{own}", proxy=None) as client, pytest.raises(ConnectionClosed):
        client.recv(timeout=60)
