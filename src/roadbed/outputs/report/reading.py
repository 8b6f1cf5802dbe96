# SPDX-License-Identifier: Apache-2.0
"""Title and images of a report that was written before."""

import binascii
import html
import json
import re
from base64 import b64decode
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roadbed.core.errors import InputError
from roadbed.io.files import read_text

_TITLE = re.compile(r"<title>(.*) - Roadbed</title>")
_SLIDES = re.compile(r'<script type="application/json" id="slides">(.*?)</script>', re.DOTALL)
_CELLS = re.compile(r"<figcaption>.*moving.*</figcaption>")
_WEBP = "data:image/webp;base64,"
_LARGEST = 4096  # px along a side


def read_report(path: Path) -> tuple[str, list[NDArray[np.uint8]], bool]:
    """The title and the images (height, width, 3) of the frames of a report, and whether they show the occupancy."""
    from PIL import Image, UnidentifiedImageError

    page = read_text(path)
    title, slides = _TITLE.search(page), _SLIDES.search(page)
    try:
        if title is None or slides is None:
            raise ValueError("no title or no images")
        images = []
        for slide in json.loads(slides[1]):
            with Image.open(
                BytesIO(b64decode(slide["image"].removeprefix(_WEBP), validate=True)), formats=["WEBP"]
            ) as image:
                if max(image.size) > _LARGEST:
                    raise ValueError(f"an image of {image.width} x {image.height}")
                images.append(np.asarray(image.convert("RGB")))
    except (ValueError, KeyError, TypeError, AttributeError, OSError, UnidentifiedImageError, binascii.Error) as error:
        raise InputError(f"{path}: found {error}, expected a report of roadbed run") from None
    if not images:
        raise InputError(f"{path}: found no images of frames, expected a report of roadbed run")
    return html.unescape(title[1]), images, _CELLS.search(page) is not None
