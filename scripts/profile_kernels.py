#!/usr/bin/env python3
"""What bounds a kernel, in the words of the hardware's counters: Nsight Compute on one run of a plan.

    scripts/profile_kernels.py ch13 --op rms_norm_rope_quant --m 4096 --n 4096 --rope-dim 128

takes what `chNN once` takes. It prints a line a kernel; --save FILE writes the same table. Caches are
cold, clocks as they are.
"""

from __future__ import annotations

import csv
import io
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PRESET = os.environ.get("PRESET", "default")

STALLS = {"memory": "long_scoreboard", "barrier": "barrier", "shared": "short_scoreboard"}
METRICS = {
    "us": "gpu__time_duration.sum",
    "DRAM %": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "L2 %": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "SMs busy %": "sm__cycles_active.avg.pct_of_peak_sustained_elapsed",
    "issue %": "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "ALU %": "sm__inst_executed_pipe_alu.avg.pct_of_peak_sustained_active",
    "FMA %": "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active",
    "warps": "sm__warps_active.avg.per_cycle_active",
    "registers": "launch__registers_per_thread",
    "waves": "launch__waves_per_multiprocessor",
    **{
        f"waits: {name}": f"smsp__average_warps_issue_stalled_{stall}_per_issue_active.ratio"
        for name, stall in STALLS.items()
    },
}
NOTES = """DRAM, L2: % of their peaks. SMs busy: of the time, an SM had a warp. The rest is while it had:
issue: of its slots that issued an instruction; ALU, FMA: those pipes; warps an SM. Waves: how often
the blocks fill the card. Waits: warps that wait at each issued instruction, for memory, at barriers,
for shared memory and shuffles.
"""


def stop(text: str, code: int = 2):
    print(f"profile_kernels.py: {text}", file=sys.stderr)
    sys.exit(code)


def find_ncu() -> str:
    """ncu comes with the CUDA Toolkit, often without being on PATH."""
    toolkit = Path(os.environ.get("CUDA_PATH", "/usr/local/cuda")) / "bin"
    return shutil.which("ncu", path=f"{os.environ.get('PATH', '')}{os.pathsep}{toolkit}") or ""


def program_of(chapter: str) -> Path:
    found = sorted((ROOT / "build" / PRESET).glob(f"*/{chapter}")) if chapter.isalnum() else []
    if not found:
        stop(f'got "{chapter}"; allowed: a chapter that is built (./book build {chapter})')
    return found[0]


def kernels_of(output: str):
    """Of each kernel its name and its metrics by name, from ncu's raw page."""
    lines = [line for line in output.splitlines() if line.startswith('"')]
    table = list(csv.reader(io.StringIO("\n".join(lines))))
    if len(table) < 3 or table[0][:1] != ["ID"] or "Kernel Name" not in table[0]:
        stop(f"ncu: {(output.strip().splitlines() or ['printed nothing'])[-1]}", 1)
    names, _units, *rows = table  # a line of units lies between
    for row in rows:
        kernel = dict(zip(names, row))
        yield kernel["Kernel Name"], kernel


def short(kernel: str) -> str:
    """`void a::f<bfloat16, 128>(...)`, without what is around the name."""
    return re.findall(r"[A-Za-z_]\w*(?=[<(])", kernel + "(")[0]


def cell(name: str, text: str) -> str:
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return "-"
    if name == "us":
        value /= 1000  # nanoseconds
    return f"{value:.0f}" if value >= 100 or value.is_integer() else f"{value:.2f}"


def table_of(output: str) -> str:
    rows = [["kernel", *METRICS]]
    for name, kernel in kernels_of(output):
        cells = [cell(column, kernel.get(metric, "")) for column, metric in METRICS.items()]
        rows.append([short(name), *cells])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "".join(
        "  ".join(
            text.ljust(width) if i == 0 else text.rjust(width)
            for i, (text, width) in enumerate(zip(row, widths))
        ).rstrip()
        + "\n"
        for row in rows
    )


def main(arguments) -> int:
    if arguments[:1] in (["-h"], ["--help"]):
        print(__doc__)
        return 0
    if not arguments:
        stop("got no chapter; allowed: one that is built, as ch13, and what its `once` takes")
    chapter, *options = arguments
    save = None
    if "--save" in options:
        at = options.index("--save")
        if at + 1 == len(options) or options[at + 1].startswith("--"):
            stop("--save: got no value; allowed: a file's name")
        save = Path(options[at + 1])
        del options[at : at + 2]
    program = program_of(chapter)
    ncu = find_ncu()
    if not ncu:
        stop("ncu (Nsight Compute) is not installed; it comes with the CUDA Toolkit")
    command = [ncu, "--clock-control", "none", "--cache-control", "all"]
    command += ["--profile-from-start", "off", "--csv", "--page", "raw"]
    command += ["--metrics", ",".join(METRICS.values()), "--print-units", "base"]
    run = [str(program), "once", *options, "--device", "cuda"]
    command += run
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode != 0:
        stop(f"ncu: {(done.stdout.strip().splitlines() or ['failed'])[-1]}", 1)
    text = f"{' '.join([chapter, 'once', *options])}\n\n{table_of(done.stdout)}\n{NOTES}"
    print(text, end="")
    if save:
        save.parent.mkdir(parents=True, exist_ok=True)
        save.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
