#!/usr/bin/env python3
"""Draws rooflines: what machines can do by arithmetic intensity, and operators under it.

Machine files (of common/machines/ or results/<machine>/) give the roofs; results, as `bench` writes
them, give measured points, each beside the point that the first machine's roof predicts; the output
of `ledger --json` gives predicted points alone. Writes PNG and SVG; the same files give the same
SVG.
"""

import argparse
import math
import os
import sys
from pathlib import Path

import plot_data
import plot_roofline_data as data

try:
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.ticker import FuncFormatter

    import plot_results
    import plot_style
except ImportError as error:
    print(
        f"plot_roofline.py: {error}; to install it: python3 -m venv .venv &&"
        " .venv/bin/python -m pip install matplotlib (and run this by .venv/bin/python)",
        file=sys.stderr,
    )
    sys.exit(2)

# All in inches. The figure grows with its labels, which stand in a column to the right.
WIDTH, LEAST_HEIGHT = 4.6, 3.2
LABEL_LINE = 0.145
LABEL_GAP = 0.25  # between the axes and the labels
LEGEND_LINE = 0.17

# Machines by dash as well as by colour.
MACHINES = (
    {"color": plot_style.INK, "linestyle": "-"},
    {"color": "#009E73", "linestyle": "--"},
    {"color": "#CC79A7", "linestyle": "-."},
    {"color": "#56B4E9", "linestyle": ":"},
)
MARKERS = {"unfused": "s", "fused": "o"}
OTHER_MARKER = "D"


def draw(machines, series, units) -> Figure:
    """units: whose ceilings are drawn; the first is the one that the operators use."""
    labels = label_count(machines, series, units)
    height = max(LEAST_HEIGHT, labels * LABEL_LINE)
    figure = Figure(figsize=(WIDTH, height))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xscale("log")
    axes.set_yscale("log")
    low_x, high_x, low_y, high_y = limits(machines, series, units)
    axes.set_xlim(low_x, high_x)
    axes.set_ylim(low_y, high_y)
    axes.set_xlabel("arithmetic intensity, FLOP/byte")
    axes.set_ylabel("GFLOP/s")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(tick_text))
    axes.grid()

    anchors = []  # of labels: (x, y, text)
    for machine, style in zip(machines, MACHINES * len(machines)):
        anchors += draw_roofs(axes, machine, style, units, len(machines) > 1)
    styles = plot_style.plan_styles(one.plan for one in series)
    for one in series:
        anchors.append(draw_series(axes, one, styles[one.plan], machines[0], units[0]))
    write_labels(axes, anchors, height)
    write_legend(axes, machines, series, styles, height)
    return figure


def label_count(machines, series, units) -> int:
    return len(series) + sum(len(ceilings(machine, units)) for machine in machines)


def ceilings(machine, units) -> dict:
    """Units by their rate: those of the same rate share a line."""
    shared = {}
    for unit in units:
        if unit in machine.tflops:
            shared.setdefault(machine.tflops[unit], []).append(unit)
    return shared


def limits(machines, series, units):
    intensities = [point.intensity for one in series for point in one.points]
    peaks = [1e3 * rate for machine in machines for rate in ceilings(machine, units)]
    bends = [
        1e3 * rate / machine.gb_per_s
        for machine in machines
        for rate in ceilings(machine, units)
    ]
    low_x = decade_below(min([*intensities, min(bends) / 10]))
    high_x = 4 * max([*intensities, *bends])
    floors = [low_x * machine.gb_per_s for machine in machines]
    floors += [point.gflops for one in series for point in one.points if point.gflops]
    return low_x, high_x, decade_below(min(floors)), 3 * max(peaks)


def decade_below(value: float) -> float:
    return 10.0 ** math.floor(math.log10(0.9 * value))


def draw_roofs(axes, machine, style, units, several: bool) -> list:
    """A slope of bandwidth up to the highest ceiling, and each ceiling to the right of it."""
    low_x, high_x = axes.get_xlim()
    anchors = []
    shared = ceilings(machine, units)
    top = max(shared) * 1e3 / machine.gb_per_s
    axes.plot([low_x, top], [low_x * machine.gb_per_s, top * machine.gb_per_s], lw=1.4, **style)
    for rate, names in shared.items():
        bend = 1e3 * rate / machine.gb_per_s
        axes.plot([bend, high_x], [1e3 * rate, 1e3 * rate], lw=1.4, **style)
        text = f"{', '.join(names)}: {rate_text(1e3 * rate)}"
        if several:
            text += f", {machine.name}"
        anchors.append((high_x, 1e3 * rate, text))
    return anchors


def tick_text(value: float, _) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def rate_text(gflops: float) -> str:
    return f"{gflops / 1e3:.4g} TFLOP/s" if gflops >= 1e3 else f"{gflops:.3g} GFLOP/s"


def draw_series(axes, one, style, machine, unit):
    """Measured points filled, what the roof predicts hollow, a line between the two."""
    marker = MARKERS.get(one.plan, OTHER_MARKER)
    size = 5 if len(one.points) == 1 else 3
    predicted = [machine.gflops_at(point.intensity, unit) for point in one.points]
    for point, roof in zip(one.points, predicted):
        if point.gflops is not None:
            axes.plot([point.intensity] * 2, [roof, point.gflops], color=style["color"], lw=0.8)
        axes.plot(point.intensity, roof, **hollow(marker, size, style))
    measured = [point for point in one.points if point.gflops is not None]
    if len(measured) > 1:
        xs, ys = zip(*((point.intensity, point.gflops) for point in measured))
        axes.plot(xs, ys, color=style["color"], lw=0.8)
    for point in measured:
        axes.plot(point.intensity, point.gflops, **filled(marker, size, style))
    # A curve is named where it ends, so that the names of several do not meet.
    last = one.points[-1]
    y = predicted[-1] if last.gflops is None else last.gflops
    return last.intensity, y, one.label


def hollow(marker, size, style) -> dict:
    return {
        "marker": marker,
        "markersize": size,
        "linestyle": "",
        "markerfacecolor": "w",
        "markeredgecolor": style["color"],
        "markeredgewidth": 1,
        "zorder": 3,
    }


def filled(marker, size, style) -> dict:
    return {**hollow(marker, size, style), "markerfacecolor": style["color"], "zorder": 4}


def write_labels(axes, anchors, height: float) -> None:
    """In a column to the right, in the order of what they name, each on a line of its own, with a
    thin line to what it names."""
    to_axes = axes.transData + axes.transAxes.inverted()
    placed = [(*to_axes.transform((x, y)), text) for x, y, text in anchors]
    placed.sort(key=lambda anchor: (anchor[1], -anchor[0], anchor[2]))
    heights = spread([y for _, y, _ in placed], LABEL_LINE / height)
    for (x, y, text), at in zip(placed, heights):
        left = 1 + LABEL_GAP / WIDTH
        axes.plot(
            [x, 1 + 0.2 * LABEL_GAP / WIDTH, left - 0.02],
            [y, at, at],
            transform=axes.transAxes,
            color="#999999",
            lw=0.4,
            clip_on=False,
            zorder=1,
        )
        axes.text(left, at, text, transform=axes.transAxes, va="center", fontsize=7)


def spread(wanted, line: float) -> list:
    """The places from 0 to 1 that lie a line apart and, by least squares, nearest to those wanted,
    which rise: what is left when each line below is taken away need only not fall, so neighbours
    that do are put at their mean (pool adjacent violators)."""
    pools = []  # [sum, count]
    for i, y in enumerate(wanted):
        pools.append([y - i * line, 1])
        while len(pools) > 1 and pools[-2][0] * pools[-1][1] > pools[-1][0] * pools[-2][1]:
            total, count = pools.pop()
            pools[-1][0] += total
            pools[-1][1] += count
    rests = [total / count for total, count in pools for _ in range(count)]
    low, high = line / 2, 1 - line / 2 - (len(rests) - 1) * line
    return [min(max(rest, low), high) + i * line for i, rest in enumerate(rests)]


def write_legend(axes, machines, series, styles, height: float) -> None:
    handles = []
    for machine, style in zip(machines, MACHINES * len(machines)):
        mix = "memory" if machine.mix == "peak" else machine.mix
        label = f"{machine.name}, {machine.how}: {mix} {machine.gb_per_s:.4g} GB/s"
        handles.append(Line2D([], [], lw=1.4, label=label, **style))
    for plan, style in styles.items():
        marker = MARKERS.get(plan, OTHER_MARKER)
        if any(point.gflops for one in series if one.plan == plan for point in one.points):
            handles.append(Line2D([], [], label=f"{plan}, measured", **filled(marker, 5, style)))
        handles.append(Line2D([], [], label=f"{plan}, by the roof", **hollow(marker, 5, style)))
    axes.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1), ncol=1)
    pad = 10 + 72 * LEGEND_LINE * len(handles)
    axes.set_title("Roofline", loc="left", pad=pad, fontsize=plot_style.TITLE_SIZE)


def chosen_units(asked, machines) -> list:
    """What is asked for, which the first machine has; or all that any has, fp32 first."""
    for unit in asked or ["fp32"]:
        if unit not in machines[0].tflops:
            raise plot_data.Refused(
                f'--unit: got "{unit}"; allowed on {machines[0].name}:'
                f" {', '.join(machines[0].tflops)}"
            )
    if asked:
        return plot_style.in_order(asked)
    known = [unit for unit in data.UNITS if any(unit in machine.tflops for machine in machines)]
    return plot_style.in_order(["fp32", *known])


def figure_of(machine_files, point_files, asked_units=(), match=()) -> Figure:
    machines = [data.load_machine(path) for path in machine_files]
    series = [one for path in point_files for one in data.load_series(path)]
    series = [one for one in series if all(text in one.label for text in match)]
    if match and not series:
        raise plot_data.Refused(f"--match: got {list(match)}; allowed: what is part of a label")
    return draw(machines, series, chosen_units(list(asked_units), machines))


def main(arguments) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("files", nargs="*", metavar="FILE.json", type=Path, help="operators")
    parser.add_argument(
        "--machine", action="append", required=True, type=Path, metavar="FILE.json", help="a roof"
    )
    parser.add_argument("--unit", action="append", metavar="UNIT", help="default: all there are")
    parser.add_argument(
        "--match", action="append", metavar="TEXT", help="of the operators those alone whose label"
        " has it, as bfloat16 or fused"
    )
    parser.add_argument(
        "--out", metavar="DIR", type=Path, help="default: figures/ beside FILE.json"
    )
    parser.add_argument("--name", default="roofline", help="of the figure's files")
    given = parser.parse_args(arguments)
    matplotlib.rcdefaults()  # a reader's own settings would change the figures
    matplotlib.rcParams.update(plot_style.SETTINGS)
    try:
        figure = figure_of(given.machine, given.files, given.unit or (), given.match or ())
        folder = given.out or (given.files or given.machine)[0].parent / "figures"
        for file in plot_results.save(figure, folder, given.name):
            print(os.path.relpath(file))
    except (plot_data.Refused, OSError) as error:
        print(f"plot_roofline.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
