# SPDX-License-Identifier: Apache-2.0
"""Captures of sensor packets (`.pcap`, `.pcapng`): Velodyne, Hesai, and Ouster with its metadata."""

import io
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from itertools import islice, starmap
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

from roadbed.core.errors import InputError, foreign_errors, needs_extra
from roadbed.core.frames import Scan
from roadbed.io.files import open_regular, read_bytes
from roadbed.sources.poses import given_poses
from roadbed.sources.sensors import hesai, ouster
from roadbed.sources.sensors.velodyne import DATA_PACKET, is_data_packet, velodyne_decoder, velodyne_scan
from roadbed.sources.source import InOrder, Source

_PCAP_MAGIC = {b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\xc3\xd4", b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d"}
_PCAPNG_MAGIC = b"\x0a\x0d\x0d\x0a"
_LARGEST_DATAGRAM = 65_535
_UDP_HEADER = 8
_LOOKED_AT = 1000  # datagrams, to find the brand of the sensor
_MOST_FRAGMENTED = 256  # datagrams that are incomplete at a time
_ROBOSENSE = {  # by the start of their packets
    b"\x55\xaa\x05\x0a": "RoboSense (RS-16, RS-32 or Bpearl)",
    b"\x55\xaa\x05\x5a": "RoboSense (Helios, Ruby, RS-80 or RS-128)",
    b"\x55\xaa\x5a\xa5": "RoboSense M1",
}


class PcapSource(Source):
    """A capture is decoded from its start: reading in order is cheap, going back starts over.

    `metadata` names the JSON file of an Ouster; the file of the capture's name with .json is found by itself.
    `calibration` names the angle correction file of a Hesai.
    """

    name = "pcap"
    accepts: ClassVar[tuple[str, ...]] = ("poses", "metadata", "calibration")

    @classmethod
    def matches(cls, location: str) -> bool:
        path = Path(location)
        return path.suffix.lower() in (".pcap", ".pcapng") and path.is_file()

    def __init__(self, location: str, **options: Any) -> None:
        super().__init__(location, **options)
        self.file = Path(self.path)
        with open_regular(self.file) as stream:
            start = stream.read(4)
        self._is_pcapng = start == _PCAPNG_MAGIC
        if start not in _PCAP_MAGIC and not self._is_pcapng:
            found = f"bytes {start.hex()}" if start else "an empty file"
            raise InputError(f"{self.file}: found {found}, expected a pcap capture")
        self._ouster = ouster.metadata_file(self.file, self.options.get("metadata"))
        self._scans = InOrder(self._revolutions, str(self.file))
        self.trajectory = given_poses(self.options, self)
        self.sequential = self.trajectory is not None

    def __len__(self) -> int:
        return len(self._scans)

    def __getitem__(self, index: int) -> Scan:
        return self._placed(index, self._scans[index])

    def __iter__(self) -> Iterator[Scan]:
        return starmap(self._placed, enumerate(self._scans))

    def details(self) -> dict[str, Any]:
        model = self._ouster.model if self._ouster is not None else ""
        return {"brand": f"{self._brand} {model}".strip()}

    def _placed(self, index: int, scan: Scan) -> Scan:
        scan = replace(scan, name=f"{self.file.stem}_{index:06d}")
        return scan if self.trajectory is None else self.trajectory.place(scan, index, len(self))

    @cached_property
    def _brand(self) -> str:
        """Of the first packet that is recognised; Ouster where there is metadata."""
        if self._ouster is not None:
            return "Ouster"
        with foreign_errors(self.file, "Velodyne capture"), self._open() as capture:
            for _, packet in islice(datagrams(capture), _LOOKED_AT):
                if is_data_packet(packet):
                    return "Velodyne"
                if hesai.model_of(packet) is not None:
                    return "Hesai"
                if other := _ROBOSENSE.get(packet[:4]) or hesai.not_read(packet):
                    raise InputError(
                        f"{self.file}: found packets of a {other}, which are not read; record PointCloud2 by its driver"
                    )
        return "Velodyne"

    def _revolutions(self) -> Iterator[Scan]:
        """Each revolution, with the time of the recording computer (s)."""
        where, brand, has_scans = str(self.file), self._brand, False
        with foreign_errors(where, f"{brand} capture"), self._open(as_pcap=brand == "Velodyne") as capture:
            if self._ouster is not None:
                scans = ouster.scans_of_packets(self._ouster, datagrams(capture), where)
            elif brand == "Hesai":
                scans = hesai.scans_of_packets(datagrams(capture), where, self.options.get("calibration"))
            else:
                scans = self._velodyne(capture)
            for scan in scans:
                has_scans = True
                yield scan
        if has_scans:
            return
        if self._ouster is not None:
            raise InputError(
                f"{self.file}: found no packets of {self._ouster.packet_bytes} bytes, expected those of the Ouster "
                f"that its metadata describe"
            )
        raise InputError(
            f"{self.file}: found {self._sizes()}, expected a Velodyne ({DATA_PACKET} bytes), a Hesai ({hesai.NAMES}), "
            f"or an Ouster with ?metadata=FILE.json"
        )

    def _sizes(self) -> str:
        """The most frequent sizes of packets, and whether an Ouster sends such."""
        with self._open() as capture:
            sizes = Counter(len(packet) for _, packet in islice(datagrams(capture), _LOOKED_AT))
        if not sizes:
            return "no UDP packets"
        listed = ", ".join(f"{count} of {size} bytes" for size, count in sizes.most_common(3))
        is_ouster = any(size in ouster.PACKET_SIZES for size, _ in sizes.most_common(3))
        return f"UDP packets ({listed}), as an Ouster sends" if is_ouster else f"UDP packets ({listed})"

    def _velodyne(self, capture: BinaryIO) -> Iterator[Scan]:
        decoder, config = velodyne_decoder(f"reading {self.file}")
        for turn in decoder.read_pcap(capture, config, as_pcl_structs=True):
            yield velodyne_scan(turn.points, str(self.file), time=turn.stamp.host)

    def _open(self, as_pcap: bool = False) -> BinaryIO:
        """The capture; for velodyne-decoder as pcap, into which pcapng is converted in memory."""
        if not self._is_pcapng or not as_pcap:
            return open_regular(self.file)
        dpkt = _dpkt(self.file)
        converted = io.BytesIO()
        reader = dpkt.pcapng.Reader(io.BytesIO(read_bytes(self.file)))
        writer = dpkt.pcap.Writer(converted, snaplen=_LARGEST_DATAGRAM, linktype=reader.datalink())
        for stamp, packet in reader:
            writer.writepkt(packet, stamp)
        converted.seek(0)
        return converted


def _dpkt(path: Path | str) -> Any:
    with needs_extra("dpkt", "io", f"reading {path}"):
        import dpkt
    return dpkt


def datagrams(capture: BinaryIO) -> Iterator[tuple[float, bytes]]:
    """Time (s) and payload of every UDP datagram; those split into IP fragments are put together."""
    dpkt = _dpkt("a capture")
    is_pcapng = capture.read(4) == _PCAPNG_MAGIC
    capture.seek(0)
    reader = (dpkt.pcapng if is_pcapng else dpkt.pcap).Reader(capture)
    link = {113: dpkt.sll.SLL, 101: dpkt.ip.IP}.get(reader.datalink(), dpkt.ethernet.Ethernet)
    waiting: dict[tuple[bytes, bytes, int], dict[int, bytes]] = {}
    length: dict[tuple[bytes, bytes, int], int] = {}
    for stamp, packet in reader:
        try:
            ip = link(packet)
            while not isinstance(ip, dpkt.ip.IP | bytes):
                ip = ip.data
            if isinstance(ip, bytes) or ip.p != dpkt.ip.IP_PROTO_UDP:
                continue
            key, part = (ip.src, ip.dst, ip.id), bytes(ip.data)
        except (dpkt.dpkt.UnpackError, AttributeError):
            continue
        parts = waiting.setdefault(key, {})
        parts[8 * ip.offset] = part
        if not ip.mf:
            length[key] = 8 * ip.offset + len(part)
        if sum(map(len, parts.values())) == length.get(key):
            yield float(stamp), b"".join(parts[place] for place in sorted(parts))[_UDP_HEADER:]
            del waiting[key], length[key]
        elif len(waiting) > _MOST_FRAGMENTED:
            oldest = next(iter(waiting))
            del waiting[oldest]
            length.pop(oldest, None)
