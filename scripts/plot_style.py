"""How the figures look: one colour and one pattern a plan, the same in every figure."""

from matplotlib.lines import Line2D
from matplotlib.patches import Patch

# Colours are Okabe and Ito's, which colour-blind readers tell apart; hatches and fills, and light
# beside dark, are for print in black and white.
PLANS = {
    "unfused": {"color": "#E69F00", "hatch": "////", "fill": "full"},
    "fused": {"color": "#0072B2", "hatch": "", "fill": "full"},
}
OTHER_PLANS = (
    {"color": "#009E73", "hatch": "....", "fill": "left"},
    {"color": "#CC79A7", "hatch": "xxxx", "fill": "bottom"},
    {"color": "#56B4E9", "hatch": "----", "fill": "right"},
    {"color": "#D55E00", "hatch": "++++", "fill": "top"},
    {"color": "#F0E442", "hatch": "", "fill": "full"},
    {"color": "#000000", "hatch": "", "fill": "full"},
)
INK = "#222222"

SETTINGS = {
    "font.family": "DejaVu Sans",  # which Matplotlib brings along
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#999999",
    "axes.axisbelow": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "legend.borderpad": 0.2,
    "svg.hashsalt": "opbook",  # names inside an SVG are random without
}
TITLE_SIZE = 10


def in_order(values) -> list:
    """Each value once, where it comes first."""
    return list(dict.fromkeys(values))


def plan_styles(plans) -> dict:
    plans = in_order(plans)
    others = [plan for plan in plans if plan not in PLANS]
    styles = {plan: OTHER_PLANS[i % len(OTHER_PLANS)] for i, plan in enumerate(others)}
    return {plan: PLANS.get(plan) or styles[plan] for plan in plans}


def bar_of(style, label=None) -> Patch:
    """A bar as the legend shows it."""
    return Patch(
        facecolor=style["color"], edgecolor=INK, linewidth=0.5, hatch=style["hatch"], label=label
    )


def point_of(style, marker: str, label=None) -> Line2D:
    """A point as the legend shows it."""
    return Line2D(
        [],
        [],
        linestyle="",
        marker=marker,
        markersize=6,
        color=style["color"],
        markerfacecoloralt="w",
        markeredgecolor=INK,
        markeredgewidth=0.8,
        fillstyle=style["fill"],
        label=label,
        zorder=3,
    )
