"""Runs the quick-start notebook: ``python docs/hooks/quickstart.py`` writes its outputs into it."""

from __future__ import annotations

import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

NOTEBOOK = Path(__file__).parent.parent / "quickstart.ipynb"


def executed(path: Path, folder: Path) -> NotebookNode:
    """A notebook, run from top to bottom in a folder; without traces of when and where."""
    notebook: NotebookNode = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()
    notebook.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    for cell in notebook.cells:
        cell.metadata = {}
    return notebook


def texts(notebook: NotebookNode) -> list[str]:
    """What each cell printed and returned, as text; pictures as their kind alone."""
    return ["".join(map(_text, cell.get("outputs", []))) for cell in notebook.cells]


def _text(output: NotebookNode) -> str:
    if output.output_type == "stream":
        return str(output.text)
    return "image/png\n" if "image/png" in output.data else f"{output.data['text/plain']}\n"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        notebook = executed(NOTEBOOK, Path(folder))
    nbformat.write(notebook, NOTEBOOK)  # type: ignore[no-untyped-call]
    print(f"wrote {NOTEBOOK}, {NOTEBOOK.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
