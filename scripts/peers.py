#!/usr/bin/env python3
"""Times the operators of chapters 13 and 28 in other libraries, in cells of `bench --device cuda`.

GPU time alone: before every sample the L2 is flushed by a write of 256 MB or more, which also keeps
the GPU busy until the whole call is queued. All peers of a cell and a copy of the same bytes take
turns, sample by sample. What is wrong gets no time. Results are written after every cell, and what
is there already is not timed again.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FLUSH_BYTES = 256 << 20
MOST_FLUSHES = 64  # ahead of one call
WARM_UP, MIN_SAMPLES, MAX_SAMPLES, MAX_SECONDS, SETTLED = 3, 11, 101, 2.0, 0.01


def say(text: str) -> None:
    print(f"peers.py: {text}", file=sys.stderr, flush=True)


def stop(text: str, code: int = 2):
    say(text)
    sys.exit(code)


try:
    import torch

    import peer_cells
    import peer_checks
    import peer_functions
except ImportError as error:
    stop(f"{error}; PyTorch with CUDA is needed: https://pytorch.org/get-started")


# --- statistics: those of common/timing.cpp -------------------------------------------------------


def quantile(ordered, share: float) -> float:
    position = share * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])


def droppable(n: int) -> int:
    """How many of the smallest (and of the largest) of n values the rest still encloses the median
    without, with 95 % confidence: the largest k with P(Binomial(n, 1/2) < k) <= 2.5 %."""
    probability = below = 0.5**n
    k = 0
    while below <= 0.025:
        k += 1
        probability *= (n - k + 1) / k
        below += probability
    return max(k - 1, 0)


def bounded_median(values) -> tuple:
    """Median, lower and upper bound."""
    ordered = sorted(values)
    dropped = droppable(len(ordered))
    return quantile(ordered, 0.5), ordered[dropped], ordered[-1 - dropped]


# --- measuring ------------------------------------------------------------------------------------


class Contender:
    """One call, its samples in microseconds, and how many flushes it takes to queue it whole."""

    def __init__(self, call):
        self.call, self.samples, self.flushes, self.failure = call, [], 1, ""
        self.start, self.end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def sample(self, buffer) -> None:
        while True:
            for _ in range(self.flushes):
                buffer.zero_()
            self.start.record()
            self.call()
            self.end.record()
            late = self.start.query()  # the GPU was here first: it may have waited for the rest
            self.end.synchronize()
            if not late:
                self.samples.append(1e3 * self.start.elapsed_time(self.end))
                return
            self.flushes *= 2
            if self.flushes > MOST_FLUSHES:
                self.failure = f"takes longer to queue than {MOST_FLUSHES} flushes to run"
                return

    def settled(self) -> bool:
        median, low, high = bounded_median(self.samples)
        return high - low <= 2 * SETTLED * median


def copy_of(total_bytes: int) -> Contender:
    """Half of the bytes read, half written. Random ones: zeros would take less power."""
    source = torch.empty(max(total_bytes // 2, 1), dtype=torch.uint8, device="cuda").random_()
    target = torch.empty_like(source)
    return Contender(lambda: target.copy_(source))


def checked(cell, make):
    """The peer, warmed up and checked, with its error in ulps; None where it has no such operator.
    The inputs of the check are fresh: some peers work in place."""
    peer = make(cell, peer_functions.inputs_of(cell))
    if peer is None:
        return None, None
    worst = peer_checks.verify(cell, peer.inputs, peer.joined(peer.call()), peer.in_dtype)
    for _ in range(WARM_UP):
        peer.call()
    torch.cuda.synchronize()
    return peer, worst


def time_in_turn(contenders, buffer) -> None:
    begin = time.monotonic()
    for taken in range(MAX_SAMPLES):
        late = time.monotonic() - begin > MAX_SECONDS
        if taken >= MIN_SAMPLES and (late or all(one.settled() for one in contenders)):
            break
        for one in contenders:
            one.sample(buffer)
        contenders = [one for one in contenders if not one.failure]


# --- results --------------------------------------------------------------------------------------


def result_row(cell, name: str, ledger: tuple, samples, copies, worst, note: str) -> dict:
    row = {
        "op": cell.op,
        "shape": cell.shape(),
        "dtype": cell.dtype,
        "plan": f"peer: {name}",
        "device": "cuda",
        "temperature": "cold",
        "bytes": ledger[0],
        "flops": ledger[1],
    }
    median = share = (None, None, None)
    if samples:
        ordered = sorted(samples)
        median = tuple(quantile(ordered, part) for part in (0.5, 0.25, 0.75))
        share = bounded_median([copy / one for copy, one in zip(copies, samples)])
    row.update(zip(("median_us", "p25_us", "p75_us"), median))
    row["n"] = len(samples)
    row["gb_per_s"] = ledger[0] / median[0] / 1e3 if samples else None
    row["roof"] = "copy"
    row.update(zip(("share_of_roof", "share_lo", "share_hi"), share))
    row["worst_ulp"] = worst
    if note:
        row["note"] = note  # why there is no time
    return row


def first_line(command) -> str:
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    except OSError:
        return ""
    return done.stdout.strip().split("\n")[0]


def machine() -> dict:
    properties = torch.cuda.get_device_properties(0)
    ask = ["nvidia-smi", "--format=csv,noheader", "--id=0"]
    return {
        "name": properties.name,
        "device": "cuda",
        "cores": len(os.sched_getaffinity(0)),
        "sms": properties.multi_processor_count,
        "memory_bytes": properties.total_memory,
        "llc_bytes": properties.L2_cache_size,
        "driver": first_line([*ask, "--query-gpu=driver_version"]),
        "toolkit": torch.version.cuda,
        "clocks": first_line([*ask, "--query-gpu=clocks.sm,clocks.mem"]),
        "compiler": f"PyTorch {torch.__version__}",
        "commit": first_line(
            f"git -C {ROOT} describe --always --dirty --abbrev=12 --exclude=*".split()
        ),
        "peers": {
            name: peer_functions.version(package)
            for _, name, package in peer_functions.PEERS.values()
            if peer_functions.version(package)
        },
    }


def slug(name: str) -> str:
    """As machine_slug of common/machine_info.hpp."""
    return re.sub("[^a-z0-9]+", "-", re.sub(r"\((r|tm)\)", "", name.lower())).strip("-")


def load(path: Path, here: dict, fresh: bool) -> list:
    """The rows that are there; another machine's stop the run, unless it is to start anew."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        name, rows = document["machine"]["name"], document["rows"]
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError) as error:
        name, rows = f"what cannot be read ({error!r})", []
    if name == here["name"]:
        return rows
    if not fresh:
        stop(f"{path}: of {name}, not {here['name']}; --fresh starts anew")
    return []


def save(path: Path, here: dict, rows) -> None:
    """The file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    document = {"schema": 1, "machine": here, "rows": rows}
    new.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    new.replace(path)


def key(row) -> tuple:
    return row["op"], tuple(row["shape"]), row["dtype"], row["plan"]


# --- the run --------------------------------------------------------------------------------------


def run_cell(cell, names, ledger, buffer) -> list:
    """A row for each peer that has the operator."""
    notes, ready = {}, []
    for name in names:
        make, title = peer_functions.PEERS[name][0], peer_functions.title_of(name)
        try:
            peer, worst = checked(cell, make)
        except ImportError as error:
            say_once(f"{title}: not here ({error})")
            continue
        except peer_checks.Wrong as error:
            notes[title] = f"wrong: {error}"
        except Exception as error:  # a peer's own failure, of whatever kind, is a finding
            text = (str(error).splitlines() or [""])[0]
            notes[title] = f"failed: {type(error).__name__}: {text}"
            if not device_works():
                return rows_of_notes(cell, ledger, notes)
        else:
            if peer is not None:
                ready.append((peer, worst))
    copy = copy_of(ledger[0])
    contenders = [Contender(peer.call) for peer, _ in ready]
    if ready:
        copy.call()
        time_in_turn([copy, *contenders], buffer)
    rows = []
    for (peer, worst), one in zip(ready, contenders):
        if one.failure:
            notes[peer.name] = one.failure
        else:
            rows.append(result_row(cell, peer.name, ledger, one.samples, copy.samples, worst, ""))
    return rows + rows_of_notes(cell, ledger, notes)


def rows_of_notes(cell, ledger, notes) -> list:
    for title, note in notes.items():
        say(f"{cell}: {title}: {note}")
    return [result_row(cell, title, ledger, [], [], None, note) for title, note in notes.items()]


def device_works() -> bool:
    """False after an error that leaves nothing to this process but to end."""
    try:
        torch.cuda.synchronize()
    except Exception:
        return False
    return True


said = set()


def say_once(text: str) -> None:
    if text not in said:
        said.add(text)
        say(text)


def names_of(text: str, allowed, flag: str) -> list:
    names = text.split(",") if text else list(allowed)
    for name in names:
        if name not in allowed:
            stop(f'{flag}: got "{name}"; allowed: {", ".join(allowed)}')
    return names


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0], allow_abbrev=False)
    parser.add_argument("--cells", metavar="MxN,...", help="default: the whole grids")
    parser.add_argument("--op", metavar="OP,...", help=f"default: {', '.join(peer_cells.OPS)}")
    parser.add_argument("--dtype", metavar="DTYPE,...", help="default: all")
    parser.add_argument("--peers", metavar="PEER,...", help=", ".join(peer_functions.PEERS))
    parser.add_argument("--compile-mode", default=peer_functions.COMPILE_MODE, metavar="MODE")
    parser.add_argument("--max-seconds", type=float, metavar="S", help="start no cell after that")
    parser.add_argument("--fresh", action="store_true", help="time what is there already, too")
    parser.add_argument("--record", action="store_true", help="write to results/<machine>/")
    parser.add_argument("--out", type=Path, metavar="FILE")
    parser.add_argument("--preset", default="default", help="whose programs have the ledger")
    given = parser.parse_args(arguments)
    if given.record and given.out:
        parser.error("--record: given with --out; allowed: without it")
    given.op = names_of(given.op, peer_cells.OPS, "--op")
    given.dtype = names_of(given.dtype, peer_cells.DTYPES, "--dtype")
    given.peers = names_of(given.peers, peer_functions.PEERS, "--peers")
    grid = {f"{m}x{n}": (m, n) for m, n in peer_cells.GRID + peer_cells.QK_GRID}
    given.cells = [grid[name] for name in names_of(given.cells, grid, "--cells")]
    cells = [
        cell
        for dtype in given.dtype
        for op in given.op
        for cell in peer_cells.cells_of(op, dtype, given.cells)
    ]
    given.chapters = {}
    for cell in cells:
        given.chapters.setdefault(cell.chapter, []).append(cell)
    if given.out and len(given.chapters) > 1:
        parser.error("--out: given with operators of two chapters; allowed: with those of one")
    return given


def program_of(chapter: str, preset: str) -> Path:
    (folder,) = (path.parent for path in ROOT.glob(f"{chapter}_*/CMakeLists.txt"))
    program = ROOT / "build" / preset / folder.name / chapter
    if not program.exists():
        stop(f"{program}: not built; build it with ./book build {chapter} --preset {preset}")
    return program


def results_path(chapter: str, given, here: dict) -> Path:
    folder = ROOT / "results" / slug(here["name"]) if given.record else ROOT / "build" / "results"
    return given.out or folder / f"{chapter}_peers.json"


def run_chapter(cells, program: Path, path: Path, given, here: dict, buffer, begin) -> None:
    """Cells of one chapter, into one file."""
    rows = load(path, here, given.fresh)
    there = set() if given.fresh else {key(row) for row in rows}
    titles = {name: f"peer: {peer_functions.title_of(name)}" for name in given.peers}
    for number, cell in enumerate(cells):
        if given.max_seconds is not None and time.monotonic() - begin > given.max_seconds:
            say(f"{len(cells) - number} cells are left after {given.max_seconds:g} s; run it again")
            break
        place = (cell.op, tuple(cell.shape()), cell.dtype)
        names = [name for name in given.peers if (*place, titles[name]) not in there]
        if not names:
            continue
        new = run_cell(cell, names, peer_cells.fused_ledger(program, cell), buffer)
        replaced = {key(row) for row in new}
        rows = [row for row in rows if key(row) not in replaced] + new
        save(path, here, rows)
        for row in new:
            if row["n"]:
                percent = [100 * row[name] for name in ("share_of_roof", "share_lo", "share_hi")]
                print(
                    f"{cell}: {row['plan'][6:]} {row['median_us']:.2f} us, "
                    f"{row['gb_per_s']:.0f} GB/s, "
                    "{:.1f} % of a copy [{:.1f}, {:.1f}]".format(*percent),
                    flush=True,
                )
        if not device_works():
            stop("the GPU failed; what was timed is kept: run it again to go on", 1)
        torch.cuda.empty_cache()
    if rows:
        print(f"written to {os.path.relpath(path)}")


def main(arguments) -> int:
    begin = time.monotonic()
    given = parse(arguments)
    if not torch.cuda.is_available():
        stop("no CUDA device that PyTorch sees", 3)
    programs = {chapter: program_of(chapter, given.preset) for chapter in given.chapters}
    peer_functions.COMPILE_MODE = given.compile_mode
    here = machine()
    size = max(FLUSH_BYTES, 4 * here["llc_bytes"])
    buffer = torch.empty(size, dtype=torch.uint8, device="cuda")
    for chapter, cells in given.chapters.items():
        path = results_path(chapter, given, here)
        run_chapter(cells, programs[chapter], path, given, here, buffer, begin)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
