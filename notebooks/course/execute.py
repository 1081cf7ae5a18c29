"""Executes notebooks in place, each solution after its exercise.

    python notebooks/course/execute.py NOTEBOOK ...

A solution is a Markdown cell that starts with `<details><summary>Solution</summary>` and has a
Python block with a call of `check`. The block runs in the kernel of the notebook, and `check` must
print that the answer is right. Its outputs are not stored.
"""

import pathlib
import re
import sys

import nbformat

CHECK = re.compile(r'\bcheck\("(\w+\.\d+)"')


def solutions(notebook):
    """Returns (index of the cell, source of the block) of each solution with a `check`."""
    found = []
    for i, cell in enumerate(notebook.cells):
        is_solution = cell.source.lstrip().startswith("<details><summary>Solution</summary>")
        if cell.cell_type == "markdown" and is_solution:
            blocks = re.findall(r"^```python\n(.*?)^```", cell.source, re.M | re.S)
            found += [(i, block) for block in blocks if CHECK.search(block)]
    return found


def execute(path):
    """Executes a notebook and its solutions, and stores the outputs of the notebook.

    Raises: CellExecutionError for an error of a cell; ValueError for a wrong solution.
    """
    from nbclient import NotebookClient  # of the extra "notebooks", which the tests do without

    notebook = nbformat.read(path, as_version=4)
    solving = {}
    for i, source in reversed(solutions(notebook)):
        cell = nbformat.v4.new_code_cell(source)
        solving[cell.id] = CHECK.search(source)[1]
        notebook.cells.insert(i + 1, cell)
    resources = {"metadata": {"path": str(path.parent)}}
    NotebookClient(notebook, timeout=1200, record_timing=False, resources=resources).execute()
    for cell in notebook.cells:
        printed = "".join(output.get("text", "") for output in cell.get("outputs", []))
        number = solving.get(cell.id)
        if number and f"Exercise {number}: right!" not in printed:
            raise ValueError(f"{path}: the solution of exercise {number} is wrong: {printed}")
    notebook.cells = [cell for cell in notebook.cells if cell.id not in solving]
    codes = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for count, cell in enumerate(codes, start=1):
        for item in (cell, *cell.outputs):
            if "execution_count" in item:
                item.execution_count = count
    nbformat.write(notebook, path)


def main(paths):
    """Executes the notebooks one after the other; returns the exit code."""
    from nbclient.exceptions import CellExecutionError

    for path in map(pathlib.Path, paths):
        try:
            execute(path)
        except (CellExecutionError, ValueError) as error:
            print(f"{path}: {error}", file=sys.stderr)
            return 1
        print(f"executed {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
