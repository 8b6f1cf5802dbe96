# SPDX-License-Identifier: Apache-2.0
"""Peak memory while every product of a made-up map is written: `python scripts/map_memory.py [SIDE_M [SPACING_M]]`."""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))


def export(folder: Path) -> None:
    from roadbed.mapping.reader import MapReader
    from roadbed.outputs.folder import OutputFolder
    from roadbed.outputs.maps.export import PARTS, export_map

    done = export_map(MapReader(folder / "map"), OutputFolder(folder / "out", PARTS, command="map_memory"))
    # What getrusage says counts the memory of the process that started this one too.
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert peak is not None
    print(f"{done.nodes} nodes, {len(done.files)} files, {int(peak[1]) / 1024:.0f} MB at most")


def main() -> None:
    from tests.mapping.maps import write_plane_map

    side, spacing = (float(word) for word in (sys.argv[1:] + ["1000", "1"][len(sys.argv) - 1 :])[:2])
    with tempfile.TemporaryDirectory() as folder:
        write_plane_map(Path(folder) / "map", size=side, spacing=spacing, centre=(0.0, 0.0))
        subprocess.run([sys.executable, __file__, "--export", folder], check=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--export"]:
        export(Path(sys.argv[2]))
    else:
        main()
