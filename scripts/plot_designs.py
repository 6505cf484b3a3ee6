"""Chapter 28's figures: what each design moves, and its times, predicted and measured."""

from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from plot_style import INK, OTHER_PLANS, PLANS, TITLE_SIZE, bar_of, in_order, plan_styles, point_of

PARTS = {"payload": PLANS["fused"], "lookup": PLANS["unfused"]}
MARKERS = ("o", "s", "^", "D")
BOUNDS = 0.15  # of a time that counts as predicted
TICKS = [digit * 10**power for power in range(6) for digit in (1, 2, 5)]


def bytes_by_design(ledger) -> Figure:
    """A stacked bar a design, and the ideal."""
    figure = Figure(figsize=(4.6, 0.5 + 0.38 * len(ledger.designs)))
    axes = figure.add_axes((0, 0, 1, 1))
    for y, design in enumerate(ledger.designs):
        left = 0
        for part, style in PARTS.items():
            width = getattr(design, part) / 1e6
            axes.barh(
                y,
                width,
                left=left,
                height=0.62,
                color=style["color"],
                hatch=style["hatch"],
                edgecolor=INK,
                linewidth=0.5,
            )
            left += width
        ratio = (design.payload + design.lookup) / ledger.ideal
        axes.text(left, y, f"  {left:.2f} MB, {ratio:.2f}x", va="center", fontsize=7)
    ideal = axes.axvline(ledger.ideal / 1e6, color=INK, linewidth=1, linestyle="--", label="ideal")
    most = max(design.payload + design.lookup for design in ledger.designs)
    axes.set_xlim(0, 1.3 * most / 1e6)
    axes.set_ylim(len(ledger.designs) - 0.5, -0.5)
    axes.set_yticks(range(len(ledger.designs)))
    axes.set_yticklabels([design.label for design in ledger.designs])
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("MB by block, before any cache")
    axes.grid(axis="x")
    handles = [bar_of(style, label=part) for part, style in PARTS.items()]
    handles.append(ideal)
    axes.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1), ncol=3)
    title = f"Bytes of each design\n{ledger.detail}"
    axes.set_title(title, loc="left", pad=22, fontsize=TITLE_SIZE)
    return figure


def predicted_against_measured(table) -> Figure:
    """A point a design and size; between the dashed lines a prediction holds."""
    figure = Figure(figsize=(3.6, 3.6))
    axes = figure.add_axes((0, 0, 1, 1))
    styles = plan_styles(in_order(point.design for point in table.points))
    sizes = in_order(point.tokens for point in table.points)
    markers = {tokens: MARKERS[i % len(MARKERS)] for i, tokens in enumerate(sizes)}
    times = [time for point in table.points for time in (point.predicted_us, point.measured_us)]
    ends = [0.8 * min(times), 1.25 * max(times)]
    axes.plot(ends, ends, color=INK, linewidth=1)
    for factor in (1 - BOUNDS, 1 + BOUNDS):
        axes.plot(ends, [factor * end for end in ends], color=INK, linewidth=0.8, linestyle="--")
    for point in table.points:
        axes.add_line(point_of(styles[point.design], markers[point.tokens]))
        axes.lines[-1].set_data([point.measured_us], [point.predicted_us])
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(ends)
    axes.set_ylim(ends)
    ticks = [tick for tick in TICKS if ends[0] <= tick <= ends[1]]
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks(ticks, labels=[str(tick) for tick in ticks])
        axis.set_minor_locator(NullLocator())
    axes.set_xlabel("measured us")
    axes.set_ylabel("predicted us")
    axes.grid()
    handles = [point_of(style, "o", label=f"design {name}") for name, style in styles.items()]
    handles += [
        point_of(OTHER_PLANS[-1], marker, label=f"{tokens} tokens")
        for tokens, marker in markers.items()
    ]
    axes.legend(handles=handles, loc="upper left", fontsize=7)
    axes.set_title(
        f"Times, predicted and measured\n{table.machine}", loc="left", fontsize=TITLE_SIZE
    )
    return figure
