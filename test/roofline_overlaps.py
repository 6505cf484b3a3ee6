"""Prints each pair of texts that overlap in the roofline of a machine file and operators' files.
Needs Matplotlib."""

import sys
from pathlib import Path

from plot_overlaps import overlaps, texts_of

import matplotlib

import plot_roofline
import plot_style

if __name__ == "__main__":
    matplotlib.rcParams.update(plot_style.SETTINGS)
    machines = sys.argv[1].split(":")
    figure = plot_roofline.figure_of(map(Path, machines), map(Path, sys.argv[2:]))
    assert len(texts_of(figure)) > 5
    for pair in overlaps(figure):
        print(sys.argv[1:], *map(repr, pair))
