"""The figures that ./book run makes where Matplotlib is installed."""

from __future__ import annotations

import os
import subprocess
import sys

import machine
from terminal import say

SCRIPT = machine.ROOT / "scripts" / "plot_results.py"
ROOFLINE = machine.ROOT / "scripts" / "plot_roofline.py"

# What else of a chapter is drawn: by the end of the file's name, what its program is asked for.
OUTPUTS = {"ch28": {"designs": ["ledger", "--json"]}}
# And of its results on a GPU.
OUTPUTS_OF_RESULTS = {"ch28": {"claims": ["claims", "--json", "--results"]}}


def draw(chapter: str, program: str, results: list) -> int:
    """Draws a chapter's results, its cache curves and what else it has into figures/ beside them;
    returns the exit code. Lacking Matplotlib is no failure: a line says what brings it."""
    python = python_with_matplotlib()
    if not python:
        say(f"no figures, since Matplotlib is not installed; to install it: {remedy()}")
        return 0
    print(f"\n== {chapter} figures\n", flush=True)
    wanted = {"cache": ["cache", "--json"], **OUTPUTS.get(chapter, {})}
    for file in results:
        if file.stem.endswith("_cuda"):
            for name, command in OUTPUTS_OF_RESULTS.get(chapter, {}).items():
                wanted[name] = [*command, str(file)]
    files, worst = list(results), 0
    for name, command in wanted.items():
        output = subprocess.run([program, *command], stdout=subprocess.PIPE, check=False)
        worst = max(worst, abs(output.returncode))
        if output.returncode == 0:
            files.append(results[0].with_name(f"{chapter}_{name}.json"))
            new = files[-1].with_suffix(".new")
            new.write_bytes(output.stdout)
            new.replace(files[-1])
    commands = [[python, SCRIPT, *files]]
    for file in results:  # beside which a chapter that measures its machine leaves the roofs
        roofs = file.with_name(f"{file.stem}_machine.json")
        if roofs.exists():
            name = f"{file.stem}_roofline"
            commands.append([python, ROOFLINE, "--machine", roofs, "--name", name, file])
    codes = [subprocess.run(one, cwd=machine.ROOT, check=False).returncode for one in commands]
    return max(worst, *map(abs, codes))


def python_with_matplotlib() -> str:
    """This Python or that of .venv, or "" where neither has it."""
    for python in (sys.executable, str(machine.VENV / "bin" / "python")):
        if machine.output_of([python, "-c", "import matplotlib; print(matplotlib.__version__)"]):
            return python
    return ""


def remedy() -> str:
    if machine.system_family() == "debian" and os.path.realpath(sys.executable).startswith("/usr/"):
        return f"{'' if machine.is_root() else 'sudo '}apt-get install -y python3-matplotlib"
    return "python3 -m venv .venv && .venv/bin/python -m pip install matplotlib"
