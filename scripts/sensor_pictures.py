# SPDX-License-Identifier: Apache-2.0
"""Ground and obstacles of eight kinds of sensor, nothing set: `python scripts/sensor_pictures.py $DATA`."""

import argparse
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

import roadbed
from roadbed.core.frames import GroundFrame
from roadbed.outputs.images.perspective import Camera
from roadbed.outputs.images.scene3d import chase_camera, ground_view

SIZE = (460, 300)
COLUMNS = 4
CAPTION = 42  # px, height of the two lines above a picture
# Title, origin of the scan, location ({data} is the folder of real scans), distance of the camera and how far ahead of
# the sensor it looks, m.
SENSORS = (
    ("64 layers, car", "HDL-64E, SemanticKITTI 08, CC BY-NC-SA", "{data}/semantickitti/08-singles", 24, 6),
    ("32 layers, car", "HDL-32E, nuScenes, CC BY-NC-SA", "{data}/nuscenes-projected", 24, 6),
    ("16 layers, car", "VLP-16, simulated", "sim:city?sensor=vlp16&frames=1&seed=3", 24, 6),
    ("4 scanners of 4 layers", "four LUX, simulated", "sim:highway?sensor=lux4&frames=1&seed=3", 24, 14),
    ("solid state, hills", "solid-state LiDAR, real scan", "{data}/solid-state", 20, 14),
    ("128 layers, car", "Ouster OS2, ouster-sdk, BSD-3", "{data}/recordings/OS-2-128-U1_v2.3.0_1024x10.pcap", 40, 24),
    ("car, trees at the road", "autoware.universe, Apache-2.0", "{data}/recordings/autoware_test.pcd", 24, 6),
    ("32 layers, 0.3 m up, indoors", "VLP-32C, tier4/nebula, Apache-2.0", "{data}/recordings/velo_vlp32.pcd", 6, 1),
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder of real scans")
    parser.add_argument("folder", type=Path, nargs="?", default=Path("docs/images"))
    options = parser.parse_args()
    width, height = SIZE[0], SIZE[1] + CAPTION
    rows = -(-len(SENSORS) // COLUMNS)
    sheet = Image.new("RGB", (COLUMNS * width, rows * height), "white")
    for number, (title, origin, location, distance, ahead) in enumerate(SENSORS):
        ground = labelled(location.format(data=options.data))
        panel = captioned_panel(
            ground, title, origin, chase_camera(ground, distance, distance / 2, ahead), distance > 10
        )
        sheet.paste(panel, (number % COLUMNS * width, number // COLUMNS * height))
        print(f"{title}: {origin}; height {ground.mounting.height:.2f} m, {mounting_notes(ground)}")
    path = options.folder / "sensors.png"
    sheet.quantize(128, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path}: {path.stat().st_size / 1024:.0f} kB")


def labelled(location: str) -> GroundFrame:
    """One scan with the default configuration: mounting unknown, nothing set."""
    return roadbed.GroundFilter()(roadbed.open(location)[0])


def mounting_notes(ground: GroundFrame) -> str:
    return "; ".join(ground.diagnostics) or "no notes"


def captioned_panel(ground: GroundFrame, title: str, origin: str, camera: Camera, on_car: bool) -> Image.Image:
    panel = Image.new("RGB", (SIZE[0], SIZE[1] + CAPTION), "white")
    panel.paste(Image.fromarray(ground_view(ground, camera, SIZE, with_vehicle=on_car)), (0, CAPTION))
    draw = ImageDraw.Draw(panel)
    draw.text((8, 3), title, fill="black", font=ImageFont.load_default(16))
    draw.text((8, 23), origin, fill="#555555", font=ImageFont.load_default(12))
    return panel


if __name__ == "__main__":
    main()
