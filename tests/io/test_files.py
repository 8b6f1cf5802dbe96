# SPDX-License-Identifier: Apache-2.0
"""Only regular files are read, and only what fits."""

import os
import resource
from pathlib import Path

import numpy as np
import pytest

import roadbed
from roadbed.core.errors import InputError
from roadbed.io.files import read_bytes, read_text
from roadbed.sources.formats.las import read_las
from roadbed.sources.formats.npy import read_npy, read_npz
from roadbed.sources.formats.pcd import read_pcd
from roadbed.sources.formats.ply import read_ply
from roadbed.sources.poses import read_poses, read_times
from tests.resident import measured

READERS = [read_bytes, read_pcd, read_ply, read_las, read_npy, read_npz, read_poses, lambda path: read_times(path, 1)]


@pytest.fixture
def pipe(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


@pytest.mark.parametrize("read", READERS)
def test_pipes_and_devices_are_refused_at_once(pipe, read):
    for path, found in ((pipe, "a pipe"), ("/dev/zero", "a device"), (pipe.parent, "a folder")):
        with measured(), pytest.raises(InputError, match=f"found {found}, expected a regular file"):
            read(path)


@pytest.mark.parametrize("source", ["rosbag", "pcap", "pcd", "las", "numpy", "bin"])
def test_sources_named_by_hand_do_not_wait_for_a_pipe(tmp_path, source):
    path = tmp_path / "pipe.bag"
    os.mkfifo(path)
    with measured(), pytest.raises(InputError):
        roadbed.open(path, source=source)


def test_poses_and_times_of_a_drive(tmp_path, pipe):
    np.zeros((2, 4), "<f4").tofile(tmp_path / "000000.bin")
    for option in ("poses", "times"):
        for path in (pipe, "/dev/zero"):
            with measured(), pytest.raises(InputError, match="expected a regular file"):
                roadbed.open(tmp_path / "000000.bin", **{option: path})


def test_a_file_larger_than_the_memory_is_named_with_its_size(tmp_path):
    path = tmp_path / "sparse.bin"
    with path.open("wb") as file:
        file.truncate(1 << 43)
    with pytest.raises(InputError, match=r"found 8796093022208 bytes, expected at most \d+, the free memory"):
        roadbed.open(path)[0]


def test_running_out_of_memory_while_reading_is_named_with_the_size(tmp_path):
    path = tmp_path / "sparse.bin"
    with path.open("wb") as file:
        file.truncate(1 << 31)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (in_use + (1 << 29), hard))
    try:
        with pytest.raises(InputError, match=r"sparse\.bin: found 2147483648 bytes, expected a file that fits"):
            roadbed.open(path)[0]
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def test_names_that_no_file_has(tmp_path):
    for name in ("a" * 5000, "a\0b"):
        with pytest.raises(InputError, match=r"cannot be read|no such file"):
            read_text(tmp_path / name)
        with pytest.raises(InputError, match=r"cannot be read|no such file"):
            roadbed.open(name)
