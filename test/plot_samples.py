"""Made-up files as plot_results.py takes them, of any number of rows."""

OPS = ("scale_add", "rms_norm", "rms_norm_rope_quant", "multiply_add_chain")
DTYPES = ("float32", "float16", "bfloat16")


def row(i: int, plan: str) -> dict:
    low = 0.3 + 0.02 * (i % 30)
    share = {"share_of_roof": low + 0.1, "share_lo": low, "share_hi": low + 0.15 * (1 + i % 7)}
    dtype = DTYPES[i % 3]
    made = {
        "op": OPS[i // 3 % 4],
        "shape": [4096 + i, 4096],
        "dtype": dtype,
        "plan": plan,
        "device": "cpu",
        "temperature": "cold",
        "bytes": (350 if plan == "unfused" else 100 + i) * 10**6,
        "roof": "copy",
        **share,
    }
    if dtype != "float32":
        names = ("", "_lo", "_hi")
        made.update({f"share_of_converting_copy{n}": v for n, v in zip(names, share.values())})
    if i % 2:
        made["dram_bytes"] = made["bytes"] + 10**6 * i
        made["replay_read_bytes"] = made["replay_write_bytes"] = made["bytes"] // 2
    return made


def results(count: int, plans=("unfused", "fused")) -> dict:
    """`count` rows; with one plan each row is a group of its own."""
    rows = [row(i // len(plans), plans[i % len(plans)]) for i in range(count)]
    return {"schema": 1, "machine": {"name": "A CPU that cost $5 or $6"}, "rows": rows}


def curves(count: int) -> dict:
    return {"curves": [curve(i) for i in range(count)]}


def curve(i: int) -> dict:
    sizes = [0, *(1 << k for k in range(14, 24 + i % 5))]
    points = [
        {"cache_bytes": size, "unfused_bytes": 9 * 10**6 // k, "fused_bytes": 5 * 10**6 // k}
        for k, size in enumerate(sizes, 1)
    ]
    return {
        "op": OPS[i % 4],
        "dtype": "bfloat16",
        "shape": [488, 4096],
        "ledger_unfused_bytes": 4 * 10**6,
        "ledger_fused_bytes": 2 * 10**6,
        "points": points,
    }


def ledger(count=1) -> dict:
    sizes = {"m": 4096, "n": 4096, "rope_dim": 128}
    arguments = {**sizes, "dtype": "bfloat16", "out_dtype": "float8_e4m3fn"}
    plans = {"unfused": {"moved_bytes": 185617408}, "fused": {"moved_bytes": 51396608}}
    return {"cases": [{"op": "norm_rope_quant", "args": arguments, **plans}] * count}


def designs() -> dict:
    def design(name: str, rows: int, lookup: int) -> dict:
        return {
            "design": name,
            "rows_per_block": rows,
            "payload_bytes": 63569920,
            "lookup_bytes": lookup,
        }

    return {
        "args": {"tokens": 4096, "q_heads": 32, "kv_heads": 8, "head_dim": 128, "sm_count": 132},
        "ledger": {"ideal_bytes": 67764736},
        "designs": [design("A", 1, 251658240), design("C", 40, 6291456)],
        "D": design("D", 16, 17825792),
    }


def predictions() -> dict:
    points = [("A", 4096, 45.0, 48.0), ("D", 4096, 20.0, 19.5), ("D", 32768, 135.0, 140.0)]
    names = ("design", "tokens", "predicted_us", "measured_us")
    return {
        "machine": "NVIDIA H200",
        "claims": [],
        "predictions": [dict(zip(names, point)) for point in points],
    }
