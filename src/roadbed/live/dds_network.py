# SPDX-License-Identifier: Apache-2.0
"""Which network the DDS participant joins: loopback, unless ROS 2's variables or CYCLONEDDS_URI name another."""

import ctypes
import fcntl
import os
import re
import socket
import struct
from dataclasses import dataclass
from typing import Self

from roadbed.core.errors import DeviceError

_RANGES = ("OFF", "LOCALHOST", "SUBNET", "SYSTEM_DEFAULT")
_PEER = re.compile(r"[\w.:\[\]-]+", re.ASCII)
_LAST_INDEX = 119  # of the participants of one domain and machine; the next port belongs to the next domain
_PORTS, _PORTS_PER_DOMAIN = 7400, 250  # the RTPS standard's
_SO_ATTACH_FILTER = 26  # Linux; a program of classic BPF, as (code, jump if true, jump if false, value)
_LOAD_INTERFACE, _ACCEPT, _DROP = (0x20, 0, 0, 0xFFFFF008), (0x06, 0, 0, 0xFFFFFFFF), (0x06, 0, 0, 0)
_SIOCGIFFLAGS, _IFF_UP, _IFF_LOOPBACK, _IFF_MULTICAST = 0x8913, 0x1, 0x8, 0x1000  # Linux

# Loopback carries packets of 64 kB: a cloud of 3 MB is 47 of them instead of 2,300.
_LARGE_PACKETS = "<MaxMessageSize>65500B</MaxMessageSize><FragmentSize>65000B</FragmentSize>"
# The reader's socket buffer holds a whole cloud, up to net.core.rmem_max; lost packets are requested again after
# NackDelay (default 0.1 s). The writer's history holds several clouds, else each would wait for the acknowledgement of
# the last.
_BUFFERS = (
    "<Internal><SocketReceiveBufferSize max='16MiB'/><SocketSendBufferSize max='4MiB'/><NackDelay>5ms</NackDelay>"
    "<Watermarks><WhcHigh>64MiB</WhcHigh></Watermarks></Internal>"
)


@dataclass(frozen=True)
class Network:
    """Configuration of a domain for Cyclone DDS, and what it means for other machines."""

    config: str | None  # XML; None: Cyclone DDS reads CYCLONEDDS_URI
    loopback: bool  # sockets must not be reachable from other machines
    text: str

    @classmethod
    def from_environment(cls) -> Self:
        """By CYCLONEDDS_URI, ROS_LOCALHOST_ONLY, ROS_AUTOMATIC_DISCOVERY_RANGE and ROS_STATIC_PEERS, in this order."""
        if os.environ.get("CYCLONEDDS_URI"):
            return cls(None, False, "where CYCLONEDDS_URI says")
        named = os.environ.get("ROS_AUTOMATIC_DISCOVERY_RANGE") or "LOCALHOST"
        if named not in _RANGES:
            raise DeviceError(f"ROS_AUTOMATIC_DISCOVERY_RANGE: expected one of {', '.join(_RANGES)}, found {named!r}")
        peers = [peer for peer in os.environ.get("ROS_STATIC_PEERS", "").split(";") if peer]
        for peer in peers:
            if not _PEER.fullmatch(peer):
                raise DeviceError(f"ROS_STATIC_PEERS: expected addresses with ; between them, found {peer!r}")
        if os.environ.get("ROS_LOCALHOST_ONLY", "0") not in ("", "0"):
            named, peers = "LOCALHOST", []
        if named == "OFF":  # a tag that no other process has
            tag = f"<Tag>ros_discovery_off_{os.getpid()}</Tag>"
            return cls(_on_loopback("<ParticipantIndex>none</ParticipantIndex>" + tag), True, "without discovery")
        if named == "LOCALHOST" and not peers:
            return cls(_on_loopback(_unicast(["127.0.0.1"])), True, "on loopback")
        if named == "LOCALHOST":
            general = "<AllowMulticast>false</AllowMulticast>"
            text = f"on the network, with the peers {', '.join(peers)}"
            return cls(_domain(general, _unicast(["127.0.0.1", *peers])), False, text)
        text = f"on the network (ROS_AUTOMATIC_DISCOVERY_RANGE={named})"
        return cls(_domain("", _unicast(peers) if peers else ""), False, text)


def keep_on_loopback(domain: int) -> None:
    """Let this process's sockets of a domain receive from this machine only.

    Cyclone DDS receives at 0.0.0.0 whatever interface it is configured for.
    """
    first = _PORTS + _PORTS_PER_DOMAIN * domain
    for name in os.listdir("/proc/self/fd"):
        try:
            found = socket.socket(fileno=os.dup(int(name)))
        except OSError:  # not a socket
            continue
        with found:
            if found.family != socket.AF_INET or found.type != socket.SOCK_DGRAM:
                continue
            address, port = found.getsockname()
            if address == "0.0.0.0" and first <= port < first + _PORTS_PER_DOMAIN:
                try:
                    _receive_only_from_loopback(found)
                except OSError as error:
                    raise DeviceError(
                        f"DDS domain {domain}: port {port} cannot be kept on loopback ({error.strerror}); "
                        "CYCLONEDDS_URI names the network to join instead"
                    ) from None


def _receive_only_from_loopback(found: socket.socket) -> None:
    """Drop packets that did not arrive on `lo`, by a filter of the kernel. SO_BINDTODEVICE would also drop packets of
    this machine to the address of its network interface, which nodes of ROS 2 Iron and later use."""
    code = struct.pack("HBBIHBBIHBBIHBBI", *_LOAD_INTERFACE, 0x15, 0, 1, socket.if_nametoindex("lo"), *_ACCEPT, *_DROP)
    program = ctypes.create_string_buffer(code, len(code))
    found.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HP", 4, ctypes.addressof(program)))


def _on_loopback(discovery: str) -> str:
    interfaces, multicast = "<NetworkInterface name='lo' multicast='default'/>", "false"
    if _flags("lo") & _IFF_MULTICAST:  # other nodes on `lo` use it for discovery, and have no ports to find by unicast
        multicast = "spdp"
    elif any(_flags(name) & (_IFF_UP | _IFF_LOOPBACK) == _IFF_UP for _, name in socket.if_nameindex()):
        # At the network's address nodes of ROS 2 Iron and later expect others; with multicast it would be used.
        interfaces += "<NetworkInterface autodetermine='true' multicast='false'/>"
    general = f"<Interfaces>{interfaces}</Interfaces><AllowMulticast>{multicast}</AllowMulticast>{_LARGE_PACKETS}"
    return _domain(general, discovery)


def _flags(interface: str) -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        request = struct.pack("16sH14x", interface.encode(), 0)
        return int(struct.unpack("16xH14x", fcntl.ioctl(asked, _SIOCGIFFLAGS, request))[0])


def _unicast(peers: list[str]) -> str:
    listed = "".join(f"<Peer address='{peer}'/>" for peer in peers)
    index = f"<ParticipantIndex>auto</ParticipantIndex><MaxAutoParticipantIndex>{_LAST_INDEX}</MaxAutoParticipantIndex>"
    return f"{index}<Peers>{listed}</Peers>"


def _domain(general: str, discovery: str) -> str:
    general = f"<General>{general}</General>" if general else ""
    discovery = f"<Discovery>{discovery}</Discovery>" if discovery else ""
    return f"<CycloneDDS><Domain>{general}{discovery}{_BUFFERS}</Domain></CycloneDDS>"
