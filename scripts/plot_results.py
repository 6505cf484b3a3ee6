#!/usr/bin/env python3
"""Draws results, and what the programs print with --json, as PNG and SVG.

Of results (build/results/ch13.json) it makes bytes per plan and the share of the roof, there with
the peers in ch13_peers.json where that lies beside it, of the same machine; of the output of `ch13
ledger --json` bytes per plan, and of that of `ch13 cache --json` the curves of traffic by the size
of the cache. Of the output of `ch28 ledger --json` it makes the bytes of each design, and of that
of `ch28 claims --json` the times, predicted and measured. The same files give the same SVG.
"""

import argparse
import os
import sys
from pathlib import Path

import plot_data

try:
    import matplotlib

    import plot_curves
    import plot_designs
    import plot_rows
    import plot_style
except ImportError as error:
    print(
        f"plot_results.py: {error}; to install it: python3 -m venv .venv &&"
        " .venv/bin/python -m pip install matplotlib (and run this by .venv/bin/python)",
        file=sys.stderr,
    )
    sys.exit(2)


def figures_of(path: Path) -> dict:
    """The figures of a file, by the names of their files."""
    data = plot_data.load(path)
    if isinstance(data, list):
        return {f"{path.stem.removesuffix('_cache')}_cache": plot_curves.cache_curves(data)}
    if isinstance(data, plot_data.Designs):
        name = path.stem.removesuffix("_designs")
        return {f"{name}_designs": plot_designs.bytes_by_design(data)}
    if isinstance(data, plot_data.Predictions):
        name = path.stem.removesuffix("_claims")
        return {f"{name}_predicted": plot_designs.predicted_against_measured(data)}
    figures = {f"{path.stem}_bytes": plot_rows.bytes_per_plan(data)}
    if data.machine:
        table = plot_data.with_peers(data, path)
        figures[f"{path.stem}_roof"] = plot_rows.share_of_roof(table)
    return figures


def save(figure, folder: Path, name: str) -> list:
    """Writes PNG and SVG, each whole or not at all; returns where they are."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    # Without the date and the version that Matplotlib would note.
    for kind, metadata in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": None})):
        path = folder / f"{name}.{kind}"
        new = folder / f".{name}.new.{kind}"
        try:
            figure.savefig(new, metadata=metadata, dpi=200, bbox_inches="tight", pad_inches=0.1)
            new.replace(path)
        finally:
            new.unlink(missing_ok=True)
        paths.append(path)
    return paths


def main(arguments) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("files", nargs="+", metavar="FILE.json", type=Path)
    parser.add_argument(
        "--out", metavar="DIR", type=Path, help="default: figures/ beside FILE.json"
    )
    given = parser.parse_args(arguments)
    matplotlib.rcdefaults()  # a reader's own settings would change the figures
    matplotlib.rcParams.update(plot_style.SETTINGS)
    try:
        for path in given.files:
            for name, figure in figures_of(path).items():
                for file in save(figure, given.out or path.parent / "figures", name):
                    print(os.path.relpath(file))
    except (plot_data.Refused, OSError) as error:
        print(f"plot_results.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
