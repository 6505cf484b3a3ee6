"""The figure of memory traffic by the size of the cache: a panel an operator."""

from matplotlib.figure import Figure

from plot_style import INK, PLANS, TITLE_SIZE

# All in inches.
PANEL = (2.3, 1.7)
GAP = (0.65, 0.85)
LEGEND = 0.42  # above the panels
TITLE = 0.95

MOST_TICKS = 5


def cache_curves(curves) -> Figure:
    columns = min(len(curves), 2 if len(curves) <= 4 else 3)
    rows = -(-len(curves) // columns)
    width = columns * (PANEL[0] + GAP[0]) - GAP[0]
    height = rows * (PANEL[1] + GAP[1]) - GAP[1]
    figure = Figure(figsize=(width, height))
    handles = []
    for i, curve in enumerate(curves):
        row, column = divmod(i, columns)
        left = column * (PANEL[0] + GAP[0])
        bottom = height - row * (PANEL[1] + GAP[1]) - PANEL[1]
        place = (left / width, bottom / height, PANEL[0] / width, PANEL[1] / height)
        handles = draw_panel(figure.add_axes(place), curve)
    title = "Memory traffic by the size of the cache"
    figure.text(0, 1 + TITLE / height, title, fontsize=TITLE_SIZE)
    above = (0, 1 + LEGEND / height)
    figure.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=above,
        bbox_transform=figure.transFigure,
        ncol=2,
    )
    return figure


def draw_panel(axes, curve) -> list:
    """Returns what the legend names."""
    xs = list(range(len(curve.sizes)))  # sizes double from point to point
    handles = []
    for (plan, traffic), marker, dashes in zip(curve.traffic.items(), "os", ("--", ":")):
        handles += axes.plot(
            xs,
            [count / 1e6 for count in traffic],
            color=PLANS[plan]["color"],
            linewidth=1.6,
            marker=marker,
            markersize=4,
            markeredgecolor=INK,
            markeredgewidth=0.6,
            label=plan,
        )
        paper = curve.ledger[plan] / 1e6
        label = f"{plan}, by the ledger"
        handles.append(axes.axhline(paper, color=INK, linewidth=0.9, linestyle=dashes, label=label))
    axes.set_title(f"{curve.op}\n{curve.detail}", loc="left")
    axes.set_ylim(bottom=0)
    axes.set_ylabel("MB")
    axes.set_xlabel("size of the cache")
    every = -(-len(xs) // MOST_TICKS)
    axes.set_xticks(xs[::every])
    axes.set_xticklabels([size_text(size) for size in curve.sizes[::every]])
    axes.grid()
    return handles


def size_text(size: int) -> str:
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:.4g} {name}"
    return f"{size} B" if size else "none"
