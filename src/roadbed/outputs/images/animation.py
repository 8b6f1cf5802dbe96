# SPDX-License-Identifier: Apache-2.0
"""A run as an animation: GIF always, MP4 where ffmpeg is installed."""

import shutil
import subprocess
from collections.abc import Iterable, Sequence
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roadbed.core.errors import DeviceError, InputError
from roadbed.io.atomic import write_file
from roadbed.outputs.images import palette

Image = NDArray[np.uint8]
_ORIGIN = "made by Roadbed"  # a comment in the file: only what has it is replaced
_FREQUENT = 64  # colours of a GIF that are the most frequent ones of its images


def save_animation(path: str | Path, images: Iterable[Image], frames_per_second: float = 10.0) -> Path:
    """Write images of one size as `.gif` or `.mp4`, whichever the name ends with."""
    path = Path(path)
    images = list(images)
    if not images:
        raise InputError(f"{path}: an animation needs at least one image, found none")
    if len({image.shape for image in images}) > 1:
        raise InputError(f"{path}: an animation needs images of one size, found {sorted({i.shape for i in images})}")
    if path.suffix == ".gif":
        data = _gif(images, frames_per_second)
    elif path.suffix == ".mp4":
        data = _mp4(images, frames_per_second)
    else:
        raise InputError(f"{path}: an animation ends in .gif or .mp4, found {path.suffix or 'no ending'!r}")
    write_file(path, data)
    return path


def is_own_animation(path: Path) -> bool:
    """Whether `save_animation` wrote this file."""
    with path.open("rb") as file:
        return _ORIGIN.encode() in file.read(1 << 16)


def captioned(image: Image, text: str, has_cells: bool = True) -> Image:
    """An image with the meaning of its colours below it, and a text at the right."""
    from PIL import Image as Pillow
    from PIL import ImageDraw, ImageFont

    entries = [palette.LABELS[label] for label in palette.DRAWN_LABELS]
    entries += [("static", palette.STATIC), ("moving", palette.MOVING)] if has_cells else []
    height, width, _ = image.shape
    out = Pillow.new("RGB", (width, height + 24), "white")
    out.paste(Pillow.fromarray(image))
    draw, font, left = ImageDraw.Draw(out), ImageFont.load_default(13), 8.0
    for name, colour in entries:
        draw.rectangle((left, height + 7, left + 9, height + 16), fill=colour)
        draw.text((left + 14, height + 4), name, fill="black", font=font)
        left += 26 + draw.textlength(name, font=font)
    while len(text) > 1 and draw.textlength(text, font=font) > width - 16 - left:
        text = text[:-2].rstrip() + "\N{HORIZONTAL ELLIPSIS}"
    draw.text((width - 8 - draw.textlength(text, font=font), height + 4), text, fill="#555555", font=font)
    return np.asarray(out)


def _gif(images: Sequence[Image], frames_per_second: float) -> bytes:
    from PIL import Image as Pillow

    # One palette for all frames keeps colours from flickering and files small: the most frequent colours as they are,
    # and others that lie apart, so that a small mover keeps its colour too.
    sample = np.concatenate([image[::3, ::3] for image in images[:: max(1, len(images) // 8)]])
    colours, counts = np.unique(sample @ np.array([1 << 16, 1 << 8, 1]), return_counts=True)  # of rows it is slow
    red_green_blue = colours[np.argsort(counts)[-_FREQUENT:], None] >> np.array([16, 8, 0]) & 255
    frequent = red_green_blue.ravel().tolist()
    apart = Pillow.fromarray(sample).quantize(256 - _FREQUENT, method=Pillow.Quantize.MAXCOVERAGE).getpalette() or []
    palette = Pillow.new("P", (1, 1))
    palette.putpalette((frequent + apart)[: 3 * 256])
    frames = [Pillow.fromarray(image).quantize(palette=palette, dither=Pillow.Dither.NONE) for image in images]
    buffer = BytesIO()
    frames[0].save(
        buffer,
        format="GIF",
        save_all=True,
        append_images=frames[1:],
        duration=round(1000 / frames_per_second),
        loop=0,
        comment=_ORIGIN,
        optimize=False,
    )
    return buffer.getvalue()


def _mp4(images: Sequence[Image], frames_per_second: float) -> bytes:
    if not shutil.which("ffmpeg"):
        raise DeviceError("an MP4 needs the program ffmpeg: install it, or name the animation .gif")
    height, width = (side - side % 2 for side in images[0].shape[:2])  # the codec needs even sides
    command = ["ffmpeg", "-v", "error", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}"]
    command += ["-r", f"{frames_per_second:g}", "-i", "-", "-pix_fmt", "yuv420p", "-f", "mp4"]
    command += ["-metadata", f"comment={_ORIGIN}", "-movflags", "frag_keyframe+empty_moov", "-"]
    raw = b"".join(np.ascontiguousarray(image[:height, :width]).tobytes() for image in images)
    done = subprocess.run(command, input=raw, capture_output=True, check=False)
    if done.returncode:
        raise DeviceError(f"ffmpeg could not encode the animation: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout
