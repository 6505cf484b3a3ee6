"""Figures that have a line for each row of the results: bytes per plan, share of the roof."""

import textwrap

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from plot_style import INK, TITLE_SIZE, bar_of, in_order, plan_styles, point_of

# All in inches: figures grow with what they show, so that no label meets another.
LINE = 0.17  # a bar, or a point with its bounds
LABEL_LINE = 0.14
GAP = 0.14  # between groups
WIDTH = 4.6  # of the axes; labels stand outside

DETAIL_CHARACTERS = 30
LEGEND_COLUMNS = 2
ROOF_MARKERS = ("o", "s", "^", "D")
REPLAY = {"marker": "|", "linestyle": "", "color": INK, "markersize": 11, "markeredgewidth": 1.6}
COUNTED = {"marker": "D", "linestyle": "", "color": INK, "markersize": 4.5, "markerfacecolor": "w"}


# --- the frame: groups, one below the other -------------------------------------------------------


def group_axes(groups, lines_of):
    """Figure and axes with room for lines_of(group) lines a group, an inch being 1 on the y axis.

    Returns them and, for each group, where its lines are.
    """
    labels, places, y = [], [], GAP
    for group in groups:
        label = [group.op, *wrapped(group.detail)]
        count = lines_of(group)
        height = max(count * LINE, len(label) * LABEL_LINE)
        middle = y + height / 2
        labels.append((middle, "\n".join(label)))
        places.append([middle + (i - (count - 1) / 2) * LINE for i in range(count)])
        y += height + GAP
    figure = Figure(figsize=(WIDTH, y))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_ylim(y, 0)
    axes.set_yticks([middle for middle, _ in labels])
    axes.set_yticklabels([label for _, label in labels])
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")
    return figure, axes, places


def wrapped(detail: str) -> list:
    """Lines that break at commas alone."""
    lines = textwrap.wrap(detail.replace(" ", "\xa0").replace(",\xa0", ", "), DETAIL_CHARACTERS)
    return [line.replace("\xa0", " ") for line in lines]


def head(axes, title: str, handles) -> None:
    """Title and legend above the axes."""
    axes.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1), ncol=LEGEND_COLUMNS)
    rows = -(-len(handles) // LEGEND_COLUMNS)
    axes.set_title(title, loc="left", pad=10 + 12 * rows, fontsize=TITLE_SIZE)


def beside(axes, y: float, text: str) -> None:
    """A line's figures, in a column to the right of the axes."""
    axes.text(1.02, y, text, transform=axes.get_yaxis_transform(), va="center", fontsize=7)


# --- bytes per plan -------------------------------------------------------------------------------


def bytes_per_plan(table) -> Figure:
    """What each plan moves: on paper, replayed, and by hardware counters where there are any."""
    rows = [row for group in table.groups for row in group.rows]
    styles = plan_styles(row.plan for row in rows)
    most = max(max(row.ledger_bytes, row.replay_bytes or 0, row.counted_bytes or 0) for row in rows)
    unit, name = unit_of(most)
    figure, axes, places = group_axes(table.groups, lambda group: len(group.rows))
    axes.set_xlim(0, 1.02 * most / unit or 1)
    axes.set_xlabel(name)
    for group, ys in zip(table.groups, places):
        for row, y in zip(group.rows, ys):
            draw_bytes(axes, row, y, styles[row.plan], unit)
            beside(axes, y, bytes_text(row, group.rows[0]))

    handles = [bar_of(style, label=f"ledger, {plan}") for plan, style in styles.items()]
    if any(row.replay_bytes is not None for row in rows):
        handles.append(Line2D([], [], **REPLAY, label="replay"))
    if any(row.counted_bytes is not None for row in rows):
        handles.append(Line2D([], [], **COUNTED, label="hardware counters"))
    head(axes, "Bytes moved by each plan", handles)
    return figure


def draw_bytes(axes, row, y: float, style, unit: int) -> None:
    axes.barh(
        y,
        row.ledger_bytes / unit,
        height=0.85 * LINE,
        color=style["color"],
        edgecolor=INK,
        linewidth=0.5,
        hatch=style["hatch"],
    )
    if row.replay_bytes is not None:
        axes.plot(row.replay_bytes / unit, y, **REPLAY, clip_on=False)
    if row.counted_bytes is not None:
        axes.plot(row.counted_bytes / unit, y, **COUNTED, clip_on=False)


def bytes_text(row, first) -> str:
    text = in_unit(row.ledger_bytes)
    if 0 < row.ledger_bytes < first.ledger_bytes:
        text += f", {first.ledger_bytes / row.ledger_bytes:.2f}x less"
    if row.counted_bytes is not None:
        text += f"; counted {in_unit(row.counted_bytes)}"
    return text


def in_unit(count: int) -> str:
    unit, name = unit_of(count)
    return f"{count / unit:,.{0 if unit == 1 else 2}f} {name}"


def unit_of(count: int) -> tuple:
    """Megabytes from 1 MB to 10 GB, as in the programs' tables."""
    for least, unit, name in ((10**10, 10**9, "GB"), (10**6, 10**6, "MB"), (10**3, 10**3, "kB")):
        if count >= least:
            return unit, name
    return 1, "bytes"


# --- share of the roof ----------------------------------------------------------------------------


def share_of_roof(table) -> Figure:
    """How close each plan comes to each roof it was measured against, with confidence bounds."""
    rows = [row for group in table.groups for row in group.rows]
    styles = plan_styles(row.plan for row in rows)
    roofs = in_order(share.roof for row in rows for share in row.shares)
    markers = {roof: ROOF_MARKERS[i % len(ROOF_MARKERS)] for i, roof in enumerate(roofs)}
    figure, axes, places = group_axes(
        table.groups, lambda group: sum(len(row.shares) for row in group.rows)
    )
    axes.set_xlim(0, 100 * largest_shown([share for row in rows for share in row.shares]))
    axes.set_xlabel("% of the roof: median of paired samples, 95 % bounds")
    axes.axvline(100, color=INK, linewidth=1, linestyle="--")
    for group, ys in zip(table.groups, places):
        points = [(row, share) for row in group.rows for share in row.shares]
        for (row, share), y in zip(points, ys):
            draw_share(axes, share, y, styles[row.plan], markers[share.roof])
            beside(axes, y, share_text(share))

    pairs = in_order((row.plan, share.roof) for row in rows for share in row.shares)
    handles = [
        point_of(styles[plan], markers[roof], label=f"{plan}, of the {roof}")
        for plan, roof in sorted(pairs, key=lambda pair: list(styles).index(pair[0]))
    ]
    head(axes, f"Share of the roof on {table.machine}", handles)
    return figure


def largest_shown(shares) -> float:
    """Where the axis ends. Bounds beyond 200 % run off it, so as not to squeeze the others."""
    medians = [share.median for share in shares if share.median is not None]
    highest = max((share.high for share in shares if share.high is not None), default=0)
    return max(1.05, 1.05 * max(medians, default=0), min(2, 1.03 * highest))


def draw_share(axes, share, y: float, style, marker: str) -> None:
    if share.median is None:
        return
    if share.low is not None and share.high is not None:
        ends = [100 * share.low, 100 * share.high]
        axes.plot(ends, [y, y], color=INK, linewidth=1, marker="|", markersize=5)
    point = point_of(style, marker)
    point.set_data([100 * share.median], [y])
    axes.add_line(point)


def share_text(share) -> str:
    if share.median is None:
        return "not measured"
    text = f"{100 * share.median:.0f}"
    if share.low is not None and share.high is not None:
        text += f" [{100 * share.low:.0f}, {100 * share.high:.0f}]"
    return text
