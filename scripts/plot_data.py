"""What the figures are drawn from: results, and what the programs print with --json.

Five kinds of file are known apart by what they hold: results ("rows", as `bench` writes them), a
ledger ("cases", or one case, of `ledger --json`), one of designs ("designs", chapter 28's), cache
curves ("curves", or one curve, of `cache --json`) and predicted times ("predictions", of
`claims --json`).
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, replace
from pathlib import Path

SCHEMA = 1


class Refused(Exception):
    """Why a file cannot be drawn, in one line that names it."""


@dataclass(frozen=True)
class Share:
    """Part of a roof that was reached, as fractions; None for what was not measured."""

    roof: str
    median: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Row:
    """One plan of one operator."""

    plan: str
    ledger_bytes: int
    replay_bytes: int | None = None
    counted_bytes: int | None = None
    shares: tuple = ()


@dataclass
class Group:
    """Rows that differ in nothing but the plan; `detail` tells the group from others of its op.
    `cell` is all that they share."""

    op: str
    detail: str
    rows: list = field(default_factory=list)
    cell: tuple = ()


@dataclass
class Table:
    """Results; or a ledger, which has neither a machine nor shares."""

    machine: str
    groups: list


@dataclass(frozen=True)
class Curve:
    """Memory traffic of plans by the size of the cache. `ledger` and `traffic` go by plan."""

    op: str
    detail: str
    ledger: dict
    sizes: list
    traffic: dict


@dataclass(frozen=True)
class Design:
    """What one design moves, in bytes."""

    label: str
    payload: int
    lookup: int


@dataclass(frozen=True)
class Designs:
    detail: str
    ideal: int
    designs: list


@dataclass(frozen=True)
class Prediction:
    design: str
    tokens: int
    predicted_us: float
    measured_us: float


@dataclass(frozen=True)
class Predictions:
    machine: str
    points: list


def read(path: Path):
    """The JSON of a file; raises Refused where it is none."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise Refused(f"{path}: no such file") from None
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise Refused(f"{path}: is not JSON ({error})") from None


def load(path: Path):
    """The file as a Table, Designs, Predictions or a list of Curve; raises Refused for anything
    else."""
    document = read(path)
    whole = Fields(document, f"{path}: ")
    if "rows" in document:
        return results(whole)
    if "designs" in document:
        return designs(whole)
    if "predictions" in document:
        return predictions(whole)
    if "cases" in document or "unfused" in document:
        return ledger(whole.objects("cases") if "cases" in document else [whole])
    if "curves" in document or "points" in document:
        return [
            curve(one) for one in (whole.objects("curves") if "curves" in document else [whole])
        ]
    raise Refused(
        f"{path}: has none of rows, cases, designs, curves and predictions; allowed: results,"
        " or the output of ledger --json, cache --json or claims --json"
    )


def with_peers(table: Table, path: Path) -> Table:
    """The results of `path` with those of other libraries (scripts/peers.py) in the same cells on
    the same machine, where their file lies beside it: ch13_peers.json of ch13.json, and of the
    ch13_cuda.json that a bench leaves."""
    file = path.with_name(f"{path.stem.removesuffix('_cuda')}_peers.json")
    if not file.exists():
        return table
    peers = load(file)
    if not isinstance(peers, Table) or peers.machine != table.machine:
        return table
    rows = {group.cell: group.rows for group in peers.groups}
    groups = [replace(group, rows=group.rows + rows.get(group.cell, [])) for group in table.groups]
    return Table(table.machine, groups)


class Fields:
    """A JSON object whose fields are read by type; what is wrong is refused by the field's name."""

    def __init__(self, value, where: str):
        if not isinstance(value, dict):
            raise Refused(f"{where.rstrip(': .')}: got {brief(value)}; allowed: an object")
        self.value, self.where = value, where

    def get(self, name: str, allowed: str, good):
        if name not in self.value:
            raise Refused(f"{self.where}{name}: missing")
        value = self.value[name]
        if not good(value):
            raise Refused(f"{self.where}{name}: got {brief(value)}; allowed: {allowed}")
        return value

    def text(self, name: str) -> str:
        value = self.get(name, "a text that is not empty", lambda v: isinstance(v, str) and v)
        return plain(value)

    def whole(self, name: str) -> int:
        return self.get(name, "a whole number, zero or more", is_whole)

    def optional_whole(self, name: str):
        return self.whole(name) if name in self.value else None

    def measured(self, name: str):
        """A number, or None where it was not measured."""
        value = self.get(
            name, "a number, zero or more, or null", lambda v: v is None or is_number(v)
        )
        return value if value is not None and math.isfinite(value) else None

    def object(self, name: str) -> Fields:
        value = self.get(name, "an object", lambda v: isinstance(v, dict))
        return Fields(value, f"{self.where}{name}.")

    def objects(self, name: str) -> list:
        values = self.get(name, "a list that is not empty", lambda v: isinstance(v, list) and v)
        return [Fields(value, f"{self.where}{name}[{i}].") for i, value in enumerate(values)]

    def shape(self) -> str:
        sizes = self.get(
            "shape", "a list of sizes", lambda v: isinstance(v, list) and all(map(is_whole, v))
        )
        return " x ".join(map(str, sizes))


def plain(text: str) -> str:
    """The text as Matplotlib shows it: a dollar would start a formula."""
    return text.replace("$", r"\$")


def is_number(value) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and not value < 0


def is_whole(value) -> bool:
    return isinstance(value, int) and is_number(value)


def brief(value) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


# --- the kinds of file ----------------------------------------------------------------------


def results(whole: Fields) -> Table:
    if whole.whole("schema") != SCHEMA:
        raise Refused(f"{whole.where}schema: got {whole.value['schema']}; allowed: {SCHEMA}")
    machine = whole.object("machine").text("name")
    rows = whole.objects("rows")
    # Named only where they tell rows apart.
    varying = [
        name for name in ("device", "temperature") if len({row.text(name) for row in rows}) > 1
    ]
    groups = {}
    for row in rows:
        detail = ", ".join([row.text("dtype"), row.shape(), *map(row.text, varying)])
        cell = (*map(row.text, ("op", "dtype", "device", "temperature")), row.shape())
        group = groups.setdefault(cell, Group(row.text("op"), detail, cell=cell))
        group.rows.append(result_row(row))
    return Table(machine, list(groups.values()))


def result_row(row: Fields) -> Row:
    shares = [(row.text("roof"), "share_of_roof", "share_lo", "share_hi")]
    name = "share_of_converting_copy"
    if name in row.value:
        shares.append(("converting copy", name, f"{name}_lo", f"{name}_hi"))
    replay = [row.optional_whole(f"replay_{way}_bytes") for way in ("read", "write")]
    return Row(
        plan=row.text("plan"),
        ledger_bytes=row.whole("bytes"),
        replay_bytes=None if None in replay else sum(replay),
        counted_bytes=row.optional_whole("dram_bytes"),
        shares=tuple(Share(roof, *map(row.measured, names)) for roof, *names in shares),
    )


def ledger(cases) -> Table:
    groups = []
    for case in cases:
        arguments = dict(case.object("args").value)
        dtype = [str(arguments.pop("dtype"))] if "dtype" in arguments else []
        sizes = [f"{name} {value}" for name, value in arguments.items()]
        detail = plain(", ".join(dtype + sizes))
        plans = [(plan, case.object(plan)) for plan in ("unfused", "fused")]
        rows = [Row(name, plan.whole("moved_bytes")) for name, plan in plans]
        groups.append(Group(case.text("op"), detail, rows))
    return Table("", groups)


def curve(one: Fields) -> Curve:
    points = sorted(one.objects("points"), key=lambda point: point.whole("cache_bytes"))
    plans = ("unfused", "fused")
    return Curve(
        op=one.text("op"),
        detail=f"{one.text('dtype')}, {one.shape()}",
        ledger={plan: one.whole(f"ledger_{plan}_bytes") for plan in plans},
        sizes=[point.whole("cache_bytes") for point in points],
        traffic={plan: [point.whole(f"{plan}_bytes") for point in points] for plan in plans},
    )


def designs(whole: Fields) -> Designs:
    arguments = whole.object("args").value
    detail = plain(", ".join(f"{name} {value}" for name, value in list(arguments.items())[:4]))
    made = []
    for one in [*whole.objects("designs"), whole.object("D")]:
        rows = one.whole("rows_per_block")
        label = f"{one.text('design')}, {rows} row{'' if rows == 1 else 's'} a block"
        made.append(Design(label, one.whole("payload_bytes"), one.whole("lookup_bytes")))
    return Designs(detail, whole.object("ledger").whole("ideal_bytes"), made)


def predictions(whole: Fields) -> Predictions:
    def time(one: Fields, name: str) -> float:
        return one.get(name, "a number above zero", lambda v: is_number(v) and v > 0)

    points = [
        Prediction(
            one.text("design"),
            one.whole("tokens"),
            time(one, "predicted_us"),
            time(one, "measured_us"),
        )
        for one in whole.objects("predictions")
    ]
    return Predictions(whole.text("machine"), points)
