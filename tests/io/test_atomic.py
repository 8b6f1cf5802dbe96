# SPDX-License-Identifier: Apache-2.0
"""Files appear whole or not at all, and what a killed process left behind is cleared away."""

import os
import stat
import subprocess
import sys
from contextlib import contextmanager

import pytest

from roadbed.core.errors import OutputError
from roadbed.io.atomic import atomic_write
from tests.children import child
from tests.disks import mounted

# Writes half a file, says so, and goes on when it is told to.
SLOW_WRITER = """
import sys
from roadbed.io.atomic import atomic_write
with atomic_write(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    print("writing", flush=True)
    sys.stdin.readline()
"""


@contextmanager
def half_written(path):
    with child(sys.executable, "-c", SLOW_WRITER, path, stdin=subprocess.PIPE) as writer:
        assert writer.stdout.readline() == "writing\n"
        yield writer


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def write(path, data=b"new"):
    with atomic_write(path) as file:
        file.write(data)


def test_the_next_write_into_a_folder_removes_what_a_killed_process_left(tmp_path):
    write(tmp_path / "a", b"old")
    with half_written(tmp_path / "a"):
        pass  # killed at the end of the block
    assert len(names(tmp_path)) == 2
    assert (tmp_path / "a").read_bytes() == b"old"
    write(tmp_path / "b")
    assert names(tmp_path) == ["a", "b"]


def test_a_file_that_another_process_still_writes_is_left_alone(tmp_path):
    with half_written(tmp_path / "theirs") as writer:
        write(tmp_path / "ours")
        assert len(names(tmp_path)) == 2
        writer.communicate("go on\n")
    assert writer.returncode == 0
    assert names(tmp_path) == ["ours", "theirs"]
    assert (tmp_path / "theirs").read_bytes() == b"half"


def test_files_of_others_are_never_removed(tmp_path):
    foreign = (".roadbed-notes", ".hidden.tmp", ".roadbed-folder.tmp")
    (tmp_path / foreign[2]).mkdir()
    for name in foreign[:2]:
        (tmp_path / name).write_text("mine")
    write(tmp_path / "a")
    assert names(tmp_path) == sorted([*foreign, "a"])


def test_what_was_left_goes_from_a_folder_of_many_files_too(tmp_path):
    for index in range(100):
        write(tmp_path / f"{index}")
    with half_written(tmp_path / "killed"):
        pass
    for index in range(10):
        write(tmp_path / f"{index}")
    assert len(names(tmp_path)) == 100


@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077, 0o000])
def test_modes_follow_the_umask(tmp_path, umask):
    code = f"import os, sys; os.umask({umask}); from roadbed.io.atomic import atomic_write\n"
    code += "with atomic_write(sys.argv[1]) as file: file.write(b'x')"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "a")], check=True)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o666 & ~umask


def test_a_name_as_long_as_the_file_system_allows_can_be_written(tmp_path):
    write(tmp_path / ("n" * 255))
    assert names(tmp_path) == ["n" * 255]


def test_a_block_that_raises_leaves_the_old_file_and_nothing_else(tmp_path):
    write(tmp_path / "a", b"old")

    def interrupted():
        with atomic_write(tmp_path / "a") as file:
            file.write(b"new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert names(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


def test_a_full_disk_is_one_line_and_keeps_the_old_file(tmp_path):
    with mounted(tmp_path / "disk", "size=64k") as disk:
        write(disk / "a", b"old")
        with pytest.raises(OutputError, match=r"a: cannot be written \(No space left on device"):
            write(disk / "a", bytes(1 << 20))
        assert names(disk) == ["a"]
        assert (disk / "a").read_bytes() == b"old"


def test_a_file_that_grows_too_large_is_one_line(tmp_path):
    """The same for users who may not mount disks: the system refuses to let the file grow."""
    code = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
    code += "from roadbed.io.atomic import atomic_write; from roadbed.core.errors import OutputError\n"
    code += "try:\n    with atomic_write(sys.argv[1]) as file: file.write(bytes(9000))\n"
    code += "except OutputError as error: print(error)"
    write(tmp_path / "a", b"old")
    out = subprocess.run([sys.executable, "-c", code, str(tmp_path / "a")], capture_output=True, text=True)
    assert out.stdout == f"{tmp_path / 'a'}: cannot be written (File too large)\n"
    assert names(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


def test_a_read_only_folder_is_one_line(tmp_path):
    with mounted(tmp_path / "disk", "ro") as disk, pytest.raises(OutputError, match=r"a: cannot be .*Read-only"):
        write(disk / "a")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("file/a", "a file lies where a folder is expected"),
        ("file/deeper/a", "a file lies where a folder is expected"),
        ("n" * 300, "File name too long"),
        ("n" * 300 + "/a", "File name too long"),
        ("folder", "found a folder or a device, expected a file"),
    ],
)
def test_paths_that_cannot_be_are_one_line(tmp_path, name, message):
    (tmp_path / "file").write_bytes(b"kept")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OutputError, match=message):
        write(tmp_path / name)
    assert names(tmp_path) == ["file", "folder"]
    assert (tmp_path / "file").read_bytes() == b"kept"


def test_pipes_and_devices_are_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OutputError, match="expected a file"):
        write(tmp_path / "pipe")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
