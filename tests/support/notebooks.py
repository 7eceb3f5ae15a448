"""Runs a notebook's cells in this process, without Jupyter, and keeps their outputs.

    python -m tests.support.notebooks docs/look.ipynb

writes the outputs into the file. A cell is plain Python, without magics; the value of its last
expression, a figure of matplotlib or another one, is shown as Jupyter shows it.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

Cell = dict[str, Any]


def read(path: Path) -> dict[str, Any]:
    """Return the JSON object of a notebook."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def run(notebook: dict[str, Any]) -> list[list[Cell]]:
    """Return the outputs of each code cell, in the format of notebooks."""
    import matplotlib as mpl  # noqa: PLC0415 - optional

    mpl.use("Agg")
    names: dict[str, Any] = {"__name__": "__main__"}
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [_outputs("".join(cell["source"]), number, names) for number, cell in enumerate(code, 1)]


def _outputs(source: str, number: int, names: dict[str, Any]) -> list[Cell]:
    tree = ast.parse(source, f"cell {number}")
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    value = None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, f"cell {number}", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
    found: list[Cell] = []
    if text := printed.getvalue():
        lines = text.splitlines(keepends=True)
        found.append({"name": "stdout", "output_type": "stream", "text": lines})
    if value is not None:
        data: dict[str, Any] = {"text/plain": ["<Figure>"]}
        if hasattr(value, "savefig"):
            picture = io.BytesIO()
            value.savefig(picture, format="png", dpi=60, bbox_inches="tight")
            data["image/png"] = base64.b64encode(picture.getvalue()).decode()
        else:
            data["text/plain"] = repr(value).splitlines(keepends=True)
        shown = {"data": data, "execution_count": number, "metadata": {}}
        found.append({**shown, "output_type": "execute_result"})
    return found


def text_of(outputs: list[Cell]) -> str:
    """Return what the outputs of a cell print, without pictures."""
    parts = [each.get("text") or each["data"]["text/plain"] for each in outputs]
    return "".join("".join(part) for part in parts)


def main() -> int:
    """Run a notebook and write it with its outputs."""
    path = Path(sys.argv[1])
    notebook = read(path)
    outputs = iter(run(notebook))
    for number, cell in enumerate((c for c in notebook["cells"] if c["cell_type"] == "code"), 1):
        cell["outputs"], cell["execution_count"] = next(outputs), number
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
