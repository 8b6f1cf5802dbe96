# SPDX-License-Identifier: Apache-2.0
"""`roadbed evaluate odometry`: poses estimated from the scans, or of a file, beside those the source brings."""

from __future__ import annotations

from dataclasses import replace

from roadbed.cli.options import Frames, Request
from roadbed.cli.screen import Json, print_json, progress, table
from roadbed.cli.spread import spread


@spread
def odometry(request: Request, frames: Frames = None, as_json: Json = False) -> None:
    """Length, end, and drift of parked boxes under the source's poses and under those of --odometry (kiss-icp)."""
    from roadbed.evaluate.odometry import evaluate_odometry

    wanted = request.odometry or "kiss-icp"
    source = replace(request, odometry=None, deskew=False).scans(frames)
    tried = replace(request, odometry=wanted, deskew=False).scans(frames)
    score = evaluate_odometry(source, tried, lambda scans: progress(scans, "comparing", len(source)))
    out = {"source": request.source, "odometry": wanted, **score.as_dict()}
    if as_json:
        print_json(out)
    else:
        rows = [(name.replace("_", " "), value) for name, value in out.items() if name not in ("source", "odometry")]
        table(f"{request.source}, {wanted}", ("measure", "value"), rows)
