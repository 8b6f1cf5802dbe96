# SPDX-License-Identifier: Apache-2.0
"""Runs the notebooks in place, so that code hosts show their results (`make notebooks`); without times and machines."""

from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).resolve().parent.parent / "examples" / "notebooks"


def main() -> None:
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        metadata = dict(notebook.metadata)
        where = {"metadata": {"path": NOTEBOOKS}}
        NotebookClient(notebook, record_timing=False, coalesce_streams=True, resources=where).execute()
        notebook.metadata = metadata
        nbformat.write(notebook, path)
        print(path)


if __name__ == "__main__":
    main()
