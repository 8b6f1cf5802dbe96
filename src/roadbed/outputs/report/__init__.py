# SPDX-License-Identifier: Apache-2.0
"""The report of a run: one HTML page that needs no network and no server."""

from roadbed.outputs.report.page import write_report
from roadbed.outputs.report.recorder import FrameRecord, ReportImage, RunRecorder, frame_scores

__all__ = ["FrameRecord", "ReportImage", "RunRecorder", "frame_scores", "write_report"]
