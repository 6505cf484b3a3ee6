"""Prints each pair of texts that overlap in the figures of the files given. Needs Matplotlib."""

import itertools
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg

import plot_results
import plot_style


def texts_of(figure) -> list:
    """Those that are drawn; of the tick labels only those within the axes."""
    texts = [*figure.texts, *(text for legend in figure.legends for text in legend.get_texts())]
    for axes in figure.axes:
        texts += [axes.title, axes._left_title, axes.xaxis.label, axes.yaxis.label, *axes.texts]
        texts += axes.get_legend().get_texts() if axes.get_legend() else []
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            ticks = zip(axis.get_majorticklocs(), axis.get_ticklabels())
            texts += [label for place, label in ticks if low <= place <= high]
    return [text for text in texts if text.get_text()]


def overlaps(figure) -> list:
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    boxes = [(t.get_text(), t.get_window_extent(canvas.get_renderer())) for t in texts_of(figure)]
    pairs = itertools.combinations(boxes, 2)
    return [(a, b) for (a, box), (b, other) in pairs if box.overlaps(other)]


if __name__ == "__main__":
    matplotlib.rcParams.update(plot_style.SETTINGS)
    for path in map(Path, sys.argv[1:]):
        for name, figure in plot_results.figures_of(path).items():
            assert len(texts_of(figure)) > 5, name
            for pair in overlaps(figure):
                print(name, *map(repr, pair))
