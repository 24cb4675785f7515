"""The rules of ../vectors/README.md once more, in Python: what the reference implementation answers.

    reference.py check FOLDER       answers every vector of FOLDER and compares
    reference.py make SEED N OUT    writes N random setups of each kind, and vectors of them, to folder OUT
"""

import json
import pathlib
import random
import sys

NEWEST_SIZES = [1, 2, 4, 8, 16, 32, 64]


class Raises(Exception):
    pass


def split(total, n):
    if n == 0:
        raise Raises("ZeroDivisionError")
    if n < 0:
        raise Raises("IndexError")
    lens = [total // n] * n
    lens[0] += total - total // n * n
    return lens


# Whole forwards


def replayed(c):
    return c.get("replay_walks") or [c["capture_walk"]]


def totals(c, bs):
    if c["kind"] == "packed":
        return c["token_lengths"]
    return [c.get("input_seq_len", 1) * bs * c.get("multiplier", 1)]


def rows(c, bs, tokens):
    if c["kind"] == "packed":
        return split(tokens, bs)
    return [c.get("input_seq_len", 1)] * max(bs, 0)


def sizes(s, c):
    return c.get("batch_sizes") or s["default_batch_sizes"]


def newest(s):
    return s["default_batch_sizes"] == NEWEST_SIZES


def capture_order(s):
    every = [
        (i, bs, tokens, slot)
        for i, c in enumerate(s["configs"])
        for bs in sizes(s, c)
        for tokens in totals(c, bs)
        for slot in range(s["num_slots"])
    ]
    return sorted(every, key=lambda e: (-e[1], -e[2]))


def captures(s):
    """The captures that go through, and the keys of those that do not."""
    failed = {tuple(f) for f in s["failed"]}
    buffers, through, lost = {}, [], set()
    for i, bs, tokens, slot in capture_order(s):
        fails = (i, bs, tokens, slot) in failed
        if not (fails and s.get("fail_stage") == "before_buffers"):
            fails |= tokens > buffers.setdefault(i, tokens)
        if fails:
            lost.add((i, bs, tokens))
        else:
            through.append((i, bs, tokens, slot))
    return through, lost


def registered(s):
    through, lost = captures(s)
    by_key = {}
    for i, bs, tokens, slot in through:
        c = s["configs"][i]
        if not newest(s):
            by_key[(i, bs, tokens, slot)] = [(i, bs, tokens, slot)]
        elif (i, bs, tokens) not in lost:
            # The last capture of a key owns each slot.
            mine = by_key.setdefault((c["capture_walk"], bs, tokens, c.get("key")), [])
            mine[:] = [e for e in mine if e[3] != slot] + [(i, bs, tokens, slot)]
    found = {}
    for i, bs, tokens, slot in (e for mine in by_key.values() for e in mine):
        c = s["configs"][i]
        for walk in [c["capture_walk"]] + [w for w in replayed(c) if w != c["capture_walk"]]:
            bucket = {"walk": walk, "bs": bs, "tokens": tokens, "key": c.get("key")}
            entry = found.setdefault(tuple(bucket.values()), {**bucket, "slots": [], "config": i})
            entry["slots"].append([i, slot])
    return list(found.values())


def bucket_of(entry):
    return {k: entry[k] for k in ("walk", "bs", "tokens", "key")}


def search(s, walk, bs, tokens, key):
    mine = [b for b in s["buckets"] if b["walk"] == walk and b["key"] == key and b["bs"] >= bs]
    if tokens is not None:
        return min((b for b in mine if b["tokens"] >= tokens), key=lambda b: (b["tokens"], b["bs"]), default=None)
    config = lambda b: s["configs"][b["config"]]
    mine = [b for b in mine if config(b)["kind"] == "batched" and b["tokens"] in totals(config(b), b["bs"])]
    return min(mine, key=lambda b: (b["bs"], b["tokens"]), default=None)


def lease(s, call, slot):
    entry = search(s, call["walk"], call["bs"], call["num_tokens"], call["key"])
    if entry is None:
        return None
    walk = s["configs"][entry["config"]]["capture_walk"]
    return {"slot": slot() % len(entry["slots"]), "bucket": {**bucket_of(entry), "walk": walk}}


def lease_sequence(s, calls):
    counter = iter(range(10**9))
    return [lease(s, c, lambda c=c: next(counter) % s["num_slots"] if c["slot"] is None else c["slot"]) for c in calls]


def max_batch_size_for(s, walk):
    mine = [c for c in s["configs"] if walk in replayed(c) and c.get("caps", True)]
    return max((max(sizes(s, c)) for c in mine), default=None)


def entry_of(s, bucket):
    return next(b for b in s["buckets"] if bucket_of(b) == bucket)


def pad_inputs(s, bucket, real_lens):
    missing = bucket["bs"] - len(real_lens)
    if missing <= 0:
        return real_lens
    left = 0 if newest(s) else max(0, bucket["tokens"] - sum(real_lens))
    return real_lens + rows(s["configs"][entry_of(s, bucket)["config"]], missing, left)


def step_ids(s, lease, request_ids):
    config, slot = entry_of(s, lease["bucket"])["slots"][lease["slot"]]
    bs = lease["bucket"]["bs"]
    return request_ids + [f"__cg_node_{config}_slot{slot}_{i}__" for i in range(len(request_ids), bs)]


def guess(shape, seq_len):
    return next((i for i, n in enumerate(shape) if n == seq_len), 0)


def stage(inputs, captured_seq_dims):
    writes = [
        {"op": "copy", "dim": dim, "start": 0, "rows": inputs[name][dim]}
        for name, dim in captured_seq_dims.items()
        if name in inputs
    ]
    return {"writes": writes, "rest": "not written"}


def dropped(s):
    kept = {(b["walk"], b["bs"], b["tokens"], b["key"]) for b in s["buckets"]}
    gone = {}
    for i, bs, tokens, _ in capture_order(s):
        c = s["configs"][i]
        key = (c["capture_walk"], bs, tokens, c.get("key"))
        if key not in kept:
            gone[key] = dict(zip(("walk", "bs", "tokens", "key"), key))
    return list(gone.values())


# Regions


def shapes(kind, seq_len, total_tokens, batch_sizes):
    if kind == "batched":
        return [{"bs": b, "seq_lens": [seq_len] * b, "total_tokens": b * seq_len} for b in batch_sizes]
    return [{"bs": b, "seq_lens": split(t, b), "total_tokens": t} for b in batch_sizes for t in total_tokens]


def replay_seq_lens(kind, shape, seq_lens, real_bs):
    if kind == "batched":
        return shape["seq_lens"]
    if seq_lens is None:
        raise Raises("ValueError")
    return seq_lens + [0] * max(0, shape["bs"] - real_bs)


def piecewise_sizes(s):
    return sorted(s["capture_batch_sizes"] or s["default_batch_sizes"])


def piecewise_shapes(s):
    every = shapes(s["kind"], s.get("seq_len", 0), s.get("total_tokens", []), piecewise_sizes(s))
    every = sorted(every, key=lambda p: (-p["bs"], -p["total_tokens"]))
    return list({(p["bs"], p["total_tokens"]): p for p in every}.values())


def used_slots(s):
    return s["num_slots"] if s.get("force_double_buffer") else 1


def captured(s):
    failed = {tuple(f) for f in s["failed"]}
    of = [[p["bs"], p["total_tokens"]] for p in piecewise_shapes(s)]
    if "num_slots" not in s:
        return [p for p in of if tuple(p) not in failed]
    slots = range(used_slots(s))
    whole = [p for p in of if not any((*p, slot) in failed for slot in slots)]
    return [[*p, slot] for p in whole for slot in slots]


def resolve(s, n, tokens):
    padded = next((b for b in piecewise_sizes(s) if b >= n), None)
    mine = [p for p in piecewise_shapes(s) if p["bs"] == padded]
    mine = [p for p in mine if any(c[:2] == [p["bs"], p["total_tokens"]] for c in s["captured"])]
    if s["kind"] == "packed":
        mine = [p for p in mine if tokens is not None and p["total_tokens"] >= tokens]
    return min(mine, key=lambda p: p["total_tokens"], default=None)


def run(s, static_inputs, request_ids, seq_lens, real_bs):
    n = next((n for n in (real_bs, request_ids and len(request_ids), seq_lens and len(seq_lens)) if n is not None), None)
    if n is None:
        raise Raises("ValueError")
    shape = resolve(s, n, None if seq_lens is None else sum(seq_lens))
    if shape is None:
        raise Raises("RuntimeError")
    bs, tokens = shape["bs"], shape["total_tokens"]
    batched = s["kind"] == "batched"
    rows = bs if batched else tokens
    writes = []
    for name in ["x", "scale" if batched else "pos"]:
        if name in static_inputs:
            real = static_inputs[name][0]
            if real > rows:
                raise Raises("RuntimeError")
            writes.append({"op": "copy", "name": name, "start": 0, "rows": real})
            if real < rows:
                writes.append({"op": "zero", "name": name, "start": real, "rows": rows - real})
    padding = [f"__cg_pw_blk_{bs}_{tokens}_{i}__" for i in range(n, bs)]
    declared = None
    if request_ids is not None and s.get("declares", True):
        declared = {"ids": request_ids + padding, "seq_lens": replay_seq_lens(s["kind"], shape, seq_lens, n)}
    real = n if batched else sum(seq_lens)
    return {"bucket": [bs, tokens], "writes": writes, "declared": declared, "reset": padding, "output_rows": real}


def piecewise_lease(s, set_slot, n, tokens):
    shape = resolve(s, n, tokens)
    if shape is None:
        return None
    bucket = {"walk": "__piecewise__", "bs": shape["bs"], "tokens": shape["total_tokens"], "key": "blk"}
    return {"slot": set_slot % used_slots(s), "bucket": bucket}


# Everything by name

WHOLE = {
    "capture_order": lambda s: [
        [i, s["configs"][i]["capture_walk"], bs, tokens, slot] for i, bs, tokens, slot in capture_order(s)
    ],
    "runner_max_bs": lambda s: max(max(sizes(s, c)) for c in s["configs"]),
    "select_bucket": lambda s, walk, bs, num_tokens, key: (b := search(s, walk, bs, num_tokens, key)) and bucket_of(b),
    "select_batched_bucket": lambda s, walk, bs, key: (b := search(s, walk, bs, None, key)) and bucket_of(b),
    "max_batch_size_for": max_batch_size_for,
    "captures_walk": lambda s, walk: any(walk in replayed(c) for c in s["configs"]),
    "lease_sequence": lease_sequence,
    "lease_slot": lambda s, slot, **call: lease(s, call, lambda: slot),
    "pad_inputs": pad_inputs,
    "step_ids": step_ids,
    "stage": lambda s, lease, inputs, captured_seq_dims: stage(inputs, captured_seq_dims),
    "dropped_buckets": dropped,
    "captured_order": lambda s: s["captured"],
    "piecewise_dropped_shapes": lambda s: [
        [p["bs"], p["total_tokens"]]
        for p in piecewise_shapes(s)
        if not any(c[:2] == [p["bs"], p["total_tokens"]] for c in s["captured"])
    ],
    "padded_bs": lambda s, batch_size: next((b for b in piecewise_sizes(s) if b >= batch_size), None),
    "resolve": lambda s, batch_size, total_tokens: resolve(s, batch_size, total_tokens),
    "piecewise_lease_slot": lambda s, set_slot, batch_size, total_tokens: piecewise_lease(
        s, set_slot, batch_size, total_tokens
    ),
    "run": run,
}

DEFAULTS = {
    "replay_graph_walks": ["w"],
    "additional_key_info": None,
    "compile": True,
    "capture_batch_sizes": None,
    "capture_forward_method": "forward_batched",
    "caps_eager_batch_size": True,
}
OWN_DEFAULTS = {
    "batched": {"config_type": "basic_batched", "total_tokens_multiplier": 1},
    "packed": {"config_type": "flash_infer_packed"},
}

PLAIN = {
    "distribute_tokens": lambda total_tokens, bs: split(total_tokens, bs),
    "default_batch_sizes": lambda: NEWEST_SIZES,
    "seq_dim": guess,
    "replay_graph_walks": lambda **c: replayed(c),
    "defaults": lambda kind: {**DEFAULTS, **OWN_DEFAULTS[kind]},
    "get_total_tokens": lambda bs, **c: totals(c, bs),
    "get_node_inputs": lambda bs, num_tokens, **c: rows(c, bs, num_tokens),
    "get_capture_shapes": lambda kind, batch_sizes, seq_len=0, total_tokens=(): shapes(
        kind, seq_len, total_tokens, batch_sizes
    ),
    "replay_seq_lens": replay_seq_lens,
}


def answer(setups, fn, args):
    try:
        if fn in PLAIN:
            return {"want": PLAIN[fn](**args)}
        args = dict(args)
        return {"want": WHOLE[fn](setups[args.pop("setup")], **args)}
    except Raises as e:
        return {"error": str(e)}


def check(folder):
    asked = wrong = 0
    for path in sorted(pathlib.Path(folder).glob("*.json")):
        file = json.loads(path.read_text())
        for name, s in file["setups"].items():
            outcome = "buckets" if "configs" in s else "captured"
            again = registered(s) if outcome == "buckets" else captured(s)
            if again != s[outcome]:
                print(path.name, "setup", name, "has another outcome")
                wrong += 1
        for i, v in enumerate(file["vectors"]):
            got = answer(file["setups"], v["fn"], v["args"])
            want = {k: v[k] for k in ("want", "error") if k in v}
            asked += 1
            if got != want:
                print(path.name, i, json.dumps(v)[:300], "got", json.dumps(got)[:300])
                wrong += 1
    print(f"{asked} vectors, {wrong} wrong")
    return wrong == 0


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["check", folder]:
            sys.exit(not check(folder))
        case ["make", seed, n, out]:
            import random_vectors

            random_vectors.make(random.Random(int(seed)), int(n), pathlib.Path(out))
        case _:
            sys.exit(__doc__)
