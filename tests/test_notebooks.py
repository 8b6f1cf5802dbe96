# SPDX-License-Identifier: Apache-2.0
"""The notebooks run from top to bottom, show pictures, and are kept with the results of `make notebooks`."""

import os
import re
import sys
from tempfile import TemporaryDirectory

import nbformat
import pytest
from nbclient import NotebookClient
from traitlets.config import Config

from tests.conftest import ROOT

NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


def kinds(notebook):
    """What each cell shows: the kind of its outputs, and the words of those that are text."""
    return [
        [(output.output_type, output.get("name"), sorted(output.get("data", ())), words(output)) for output in outputs]
        for outputs in (cell.get("outputs", ()) for cell in notebook.cells)
    ]


def words(output):
    text = output.get("text") or output.get("data", {}).get("text/html", "")
    return ["image" for _ in re.findall(r"data:image/png", text)] or re.findall(r"[a-z]{3,}", text)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_an_image(path, monkeypatch, tmp_path):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(entry for entry in sys.path if entry))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    notebook = nbformat.read(path, as_version=4)
    kept = kinds(notebook)
    assert "image" in str(kept)
    assert not any("execution" in cell.metadata for cell in notebook.cells), "kept with times, which change every time"
    with TemporaryDirectory() as folder:  # sockets with names: ports that were free may be taken when the kernel starts
        pipes = Config({"KernelManager": {"transport": "ipc", "ip": f"{folder}/kernel"}})
        options = {"timeout": 900, "startup_timeout": 300, "kernel_name": "python3", "config": pipes}
        NotebookClient(notebook, coalesce_streams=True, **options).execute()  # a cell may print in several messages
    assert kept == kinds(notebook), "make notebooks"
    shown = [output.data for cell in notebook.cells for output in cell.get("outputs", []) if "data" in output]
    assert any("image/png" in data or "data:image/png" in data.get("text/html", "") for data in shown)


def test_there_are_three():
    assert len(NOTEBOOKS) == 3
