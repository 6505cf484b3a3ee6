"""What a roofline is drawn from: machine files, and operators with their bytes, FLOPs and times.

Operators come from results (`bench`), which have times, and from `ledger --json`, which has none.
Rows of results that differ in the length of a chain alone, "name (k 64)", are one curve.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from plot_data import Fields, Refused, plain, read

UNITS = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8")


@dataclass(frozen=True)
class Machine:
    name: str
    how: str  # "measured" or "data sheet"
    mix: str  # what bandwidth it is: "copy", or "peak" of a data sheet
    gb_per_s: float
    tflops: dict  # by unit

    def gflops_at(self, intensity: float, unit: str) -> float:
        """The roof over an arithmetic intensity, FLOP/byte."""
        return min(intensity * self.gb_per_s, 1e3 * self.tflops[unit])


@dataclass(frozen=True)
class Point:
    intensity: float  # FLOP/byte
    gflops: float | None  # None where it was not measured


@dataclass
class Series:
    """An operator's plan at one size, or a chain's at several lengths."""

    label: str
    plan: str
    points: list = field(default_factory=list)


def load_machine(path: Path) -> Machine:
    whole = Fields(read(path), f"{path}: ")
    kinds = {"measured": "measured", "data_sheet": "data sheet"}
    kind = whole.get("kind", " or ".join(kinds), lambda v: isinstance(v, str) and v in kinds)
    mix = "copy" if kind == "measured" else "peak"
    rates = whole.object("peak_tflops")
    return Machine(
        name=whole.text("name"),
        how=kinds[kind],
        mix=mix,
        gb_per_s=positive(whole.object("bandwidth_gbs"), mix),
        tflops={unit: positive(rates, unit) for unit in UNITS if unit in rates.value},
    )


def positive(fields: Fields, name: str) -> float:
    value = fields.measured(name)
    if not value:
        raise Refused(f"{fields.where}{name}: got {value}; allowed: a number above zero")
    return value


def load_series(path: Path) -> list:
    document = read(path)
    whole = Fields(document, f"{path}: ")
    if "rows" in document:
        return measured(whole.objects("rows"))
    if "cases" in document or "unfused" in document:
        return on_paper(whole.objects("cases") if "cases" in document else [whole])
    raise Refused(
        f"{path}: has neither rows nor cases; allowed: results, or the output of ledger --json"
    )


def measured(rows) -> list:
    found = {}
    for row in rows:
        flops, moved = row.whole("flops"), row.whole("bytes")
        us = row.measured("median_us")
        if not flops or not moved:
            continue  # a copy has no place under a roof that is drawn by FLOPs
        op = re.sub(r" \(k \d+\)$", "", row.text("op"))
        chain = op != row.text("op")
        dtype, plan = row.text("dtype"), row.text("plan")
        key = (op, dtype, plan, "" if chain else row.shape())
        series = found.setdefault(key, Series(f"{op}, {plan}, {dtype}", plan))
        series.points.append(Point(flops / moved, flops / us / 1e3 if us else None))
    several = {}
    for (op, dtype, plan, shape), series in found.items():
        several.setdefault(series.label, []).append((shape, series))
    for group in several.values():
        for shape, series in group:
            if len(group) > 1:  # named only where it tells series apart
                series.label += f", {shape}"
    for series in found.values():
        series.points.sort(key=lambda point: point.intensity)
    return list(found.values())


def on_paper(cases) -> list:
    found = []
    for case in cases:
        for plan in ("unfused", "fused"):
            fields = case.object(plan)
            flops, moved = fields.whole("flops"), fields.whole("moved_bytes")
            if not flops or not moved:
                continue
            arguments = case.object("args").value
            k = f", k {arguments['k']}" if "k" in arguments else ""
            label = plain(f"{case.text('op')}{k}, {plan}")
            found.append(Series(label, plan, [Point(flops / moved, None)]))
    return found
