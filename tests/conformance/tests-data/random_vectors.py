"""Random setups and vectors of them; used by reference.py."""

import json

import reference as ref

WALKS = ["decode", "prefill", "denoise", "decode_cfg"]
LENGTHS = [3, 8, 16, 32, 33, 64, 100, 128]


def batch_sizes(rng):
    return rng.choice([None, None, sorted(rng.sample([1, 2, 3, 4, 6, 8, 12], 3)), rng.sample(range(1, 24), 4)])


def config(rng, keys=(None, None, "cfg", "nocfg")):
    walk = rng.choice(WALKS)
    c = {"kind": rng.choice(["batched", "packed"]), "capture_walk": walk, "key": rng.choice(keys)}
    c["replay_walks"] = rng.choice([None, [], [walk], rng.sample(WALKS, 2), [walk] + rng.sample(WALKS, 1)])
    c["batch_sizes"] = batch_sizes(rng)
    c["caps"] = rng.random() < 0.6
    if c["kind"] == "batched":
        c |= {"input_seq_len": rng.choice([0, 1, 1, 2, 4, 7, 16]), "multiplier": rng.choice([1, 1, 2, 3])}
    else:
        c["token_lengths"] = rng.sample(LENGTHS, rng.randint(1, 3))
    return c


def finish(rng, s, failing):
    """Failures, and the outcome."""
    every = sorted({(i, bs, tokens, slot) for i, bs, tokens, slot in ref.capture_order(s)})
    whole = sorted({e[:3] for e in every})
    s["failed"] = []
    for e in whole if failing else []:
        if rng.random() < 0.15:
            slots = range(s["num_slots"])
            s["failed"] += [[*e, slot] for slot in slots if rng.random() < 0.6]
    if failing and rng.random() < 0.3:
        s["fail_stage"] = rng.choice(["before_buffers", "in_forward"])
    s["buckets"] = ref.registered(s)
    return s


def whole(rng, default, keys=(None, None, "cfg", "nocfg")):
    s = {"num_slots": rng.randint(1, 3), "default_batch_sizes": default}
    s["configs"] = [config(rng, keys) for _ in range(rng.randint(1, 3))]
    return finish(rng, s, rng.random() < 0.6)


def special(rng, default):
    """What random setups rarely have."""
    one = {"kind": "batched", "capture_walk": "decode", "input_seq_len": 1, "batch_sizes": [1, 2, 4]}
    packed = {"kind": "packed", "capture_walk": "p", "token_lengths": [64, 512, 8], "batch_sizes": [1, 4, 2]}
    made = {
        "alias_collides": [one, {**one, "capture_walk": "talk", "replay_walks": ["decode"]}],
        "dup_sizes": [{**one, "batch_sizes": [4, 1, 4, 2, 2]}, {**packed, "token_lengths": [64, 64]}],
        "empty_sizes": [{**one, "batch_sizes": []}],
        "typed_keys": [{**one, "key": True}, {**packed, "capture_walk": "decode", "key": 1}],
        "typed_keys2": [{**one, "key": 1}, {**one, "key": True, "batch_sizes": [3, 4]}],
        "capture_walk_only": [{**one, "replay_walks": ["talk"]}, {**packed, "replay_walks": ["talk"]}],
        "three": [{**packed, "token_lengths": [3]}],
    }
    made = {n: finish(rng, {"num_slots": 2, "default_batch_sizes": default, "configs": c}, False) for n, c in made.items()}
    cascade = {"num_slots": 2, "default_batch_sizes": default, "configs": [packed, one], "fail_stage": "before_buffers"}
    cascade["failed"] = [[0, 4, 512, 0], [0, 4, 512, 1]]
    made["cascade2"] = {**cascade, "buckets": ref.registered(cascade)}
    half = {"num_slots": 2, "default_batch_sizes": default, "configs": [one], "failed": [[0, 2, 2, 0]]}
    made["half"] = {**half, "buckets": ref.registered(half)}
    return made


def query(rng, s):
    b = rng.choice(s["buckets"]) if s["buckets"] else {"walk": "nosuch", "bs": 1, "tokens": 1, "key": None}
    near = lambda n: max(0, n + rng.choice([-1, 0, 0, 0, 1, 5]))
    key = rng.choice([b["key"]] * 6 + [None, "other", True, 1])
    walk = rng.choice([b["walk"]] * 6 + ["nosuch", rng.choice(WALKS)])
    return {"walk": walk, "bs": near(b["bs"]), "num_tokens": near(b["tokens"]), "key": key}


def whole_vectors(rng, name, s):
    newest = ref.newest(s)
    yield ("dropped_buckets" if newest else "capture_order"), {}
    if not newest:
        yield "runner_max_bs", {}
    for walk in WALKS + ["talk", "p", "nosuch"]:
        yield ("captures_walk" if newest else "max_batch_size_for"), {"walk": walk}
    for _ in range(12):
        q = query(rng, s)
        yield "select_bucket", q
        if newest:
            q["num_tokens"] = rng.choice([None, q["num_tokens"]])
            yield "lease_slot", {**q, "slot": rng.randint(0, 5)}
        else:
            yield "select_batched_bucket", {k: q[k] for k in ("walk", "bs", "key")}
    for b in rng.sample(s["buckets"], min(6, len(s["buckets"]))):
        bucket = ref.bucket_of(b)
        n = rng.randint(1, b["bs"] + 1)
        yield "pad_inputs", {"bucket": bucket, "real_lens": [rng.randint(0, 9) for _ in range(n)]}
        captured = s["configs"][b["config"]]["capture_walk"] == b["walk"]
        if newest or not captured:
            continue
        lease = {"slot": rng.randrange(len(b["slots"])), "bucket": bucket}
        yield "step_ids", {"lease": lease, "request_ids": [f"req{i}" for i in range(rng.randint(1, b["bs"]))]}
        first = next(t for i, _, t, _ in ref.captures(s)[0] if i == b["config"])
        rows = rng.choice([b["tokens"], rng.randint(0, b["tokens"]), b["tokens"] + 1])
        dims = {"x": ref.guess([first, 8], first), "pos3": ref.guess([3, first], first)}
        inputs = {"x": [rows, 8], "pos3": [3, rows], **rng.choice([{}, {"extra": [rows]}])}
        yield "stage", {"lease": lease, "inputs": inputs, "captured_seq_dims": dims}
    if not newest:
        for _ in range(4):
            calls = [{**query(rng, s), "slot": rng.choice([None, 0, 1, 5])} for _ in range(3)]
            for call in calls:
                call["num_tokens"] = rng.choice([None, call["num_tokens"]])
            yield "lease_sequence", {"calls": calls}
        given = [{**query(rng, s), "slot": rng.randint(0, 5)} for _ in range(3)]
        yield "lease_sequence", {"calls": given}


def piecewise(rng, newest):
    s = {"kind": rng.choice(["batched", "packed"]), "capture_batch_sizes": batch_sizes(rng)}
    s["default_batch_sizes"] = [1, 2, 4, 8]
    if s["kind"] == "batched":
        s["seq_len"] = rng.choice([0, 1, 2, 4, 17])
    else:
        s["total_tokens"] = rng.sample(LENGTHS, rng.randint(1, 3)) * rng.choice([1, 1, 2])
    if newest:
        s |= {"num_slots": rng.randint(1, 3), "force_double_buffer": rng.random() < 0.6}
    s["failed"] = []
    failing = rng.random() < 0.6
    for p in ref.piecewise_shapes(s) if failing else []:
        slots = [[slot] for slot in range(s["num_slots"])] if newest else [[]]
        s["failed"] += [[p["bs"], p["total_tokens"], *slot] for slot in slots if rng.random() < 0.2]
    s["captured"] = ref.captured(s)
    if not newest and rng.random() < 0.2:
        s["declares"] = False
    return s


def lengths(rng, n, s):
    if s["kind"] == "batched":
        return [rng.randint(0, s["seq_len"]) for _ in range(n)]
    most = max(s["total_tokens"]) + 3
    return ref.split(rng.randint(0, most), n) if n else []


def run_args(rng, s):
    n = rng.randint(1, max(ref.piecewise_sizes(s)) + 1)
    lens = lengths(rng, n, s)
    given = rng.choice(["ids", "ids", "lens", "bs", "none", "off"])
    rows = n if s["kind"] == "batched" else sum(lens)
    rows = max(0, rows + rng.choice([0] * 8 + [-1, 1]))
    x = [rows, s["seq_len"], 8] if s["kind"] == "batched" else [rows, 8]
    other = "scale" if s["kind"] == "batched" else "pos"
    inputs = {"x": x, **rng.choice([{other: [rows]}] * 4 + [{}]), **rng.choice([{}, {"unknown": [rows]}])}
    args = {"static_inputs": inputs, "request_ids": None, "seq_lens": lens, "real_bs": None}
    if given == "ids":
        args["request_ids"] = [f"r{i}" for i in range(n)]
    if given == "bs":
        args["real_bs"] = n
    if given == "none":
        args["seq_lens"] = None
    if given == "off":
        args["real_bs"] = n + rng.choice([0, 1])
        args["request_ids"] = rng.choice([None, [f"r{i}" for i in range(n + 1)], [f"r{i}" for i in range(n)]])
    if rng.random() < 0.1:
        args |= {"seq_lens": None, "request_ids": [f"r{i}" for i in range(n)]}
    return args


def piecewise_vectors(rng, name, s):
    newest = "num_slots" in s
    yield ("piecewise_dropped_shapes" if newest else "captured_order"), {}
    most = max(ref.piecewise_sizes(s))
    for _ in range(12):
        n = rng.randint(0, most + 1)
        tokens = rng.choice([None, 0, n, n * s.get("seq_len", 1), rng.choice(LENGTHS), 300])
        if newest:
            yield "piecewise_lease_slot", {"set_slot": rng.randint(0, 7), "batch_size": n, "total_tokens": tokens}
            continue
        yield "padded_bs", {"batch_size": n}
        yield "resolve", {"batch_size": n, "total_tokens": tokens}
        yield "run", run_args(rng, s)


def plain_vectors(rng):
    for _ in range(20):
        yield "distribute_tokens", {"total_tokens": rng.randint(-3, 60), "bs": rng.randint(-1, 9)}
        shape = [rng.choice([1, 2, 3, 8, 64]) for _ in range(rng.randint(1, 4))]
        yield "seq_dim", {"shape": shape, "seq_len": rng.choice([1, 3, 64])}
        c = {k: v for k, v in config(rng).items() if k in ("kind", "capture_walk", "input_seq_len", "multiplier", "token_lengths")}
        yield "get_total_tokens", {**c, "bs": rng.randint(0, 9)}
        yield "get_node_inputs", {**c, "bs": rng.randint(0, 9), "num_tokens": rng.randint(0, 50)}
        p = piecewise(rng, False)
        own = {k: p[k] for k in ("kind", "seq_len", "total_tokens") if k in p}
        yield "get_capture_shapes", {**own, "batch_sizes": rng.sample(range(9), 3)}
        shape = ref.shapes("packed", 0, [rng.randint(1, 20)], [rng.randint(1, 6)])[0]
        n = rng.randint(0, 7)
        lens = rng.choice([None, [rng.randint(0, 5) for _ in range(rng.choice([n, n, n + 1]))]])
        yield "replay_seq_lens", {"kind": rng.choice(["batched", "packed"]), "shape": shape, "seq_lens": lens, "real_bs": n}
    yield "default_batch_sizes", {}
    for kind in ("batched", "packed"):
        yield "defaults", {"kind": kind}
    for walks in (None, [], ["a"], ["decode", "a"]):
        yield "replay_graph_walks", {"kind": "batched", "capture_walk": "decode", "replay_walks": walks, "input_seq_len": 1}


def asked(setups, questions):
    return [{"fn": fn, "args": args, **ref.answer(setups, fn, args)} for fn, args in questions]


def make(rng, n, out):
    out.mkdir(parents=True, exist_ok=True)
    old, new = [1, 2, 4, 8, 16], ref.NEWEST_SIZES
    keys = (None, True, 1, 0, False, "cfg")
    setups = {
        "plain": {},
        "whole": special(rng, old) | {f"s{i}": whole(rng, old, keys if i % 4 == 0 else (None, "cfg")) for i in range(n)},
        "piecewise": {f"s{i}": piecewise(rng, False) for i in range(n)},
        "newest": {f"s{i}": whole(rng, new) for i in range(n)} | {f"p{i}": piecewise(rng, True) for i in range(n)},
    }
    setups["newest"] |= {name: s for name, s in special(rng, new).items() if "typed" not in name}
    for name, mine in setups.items():
        questions = list(plain_vectors(rng)) if name == "plain" else []
        for of, s in mine.items():
            vectors = whole_vectors if "configs" in s else piecewise_vectors
            questions += [(fn, {"setup": of, **args}) for fn, args in vectors(rng, of, s)]
        file = {"about": "made by reference.py", "setups": mine, "vectors": asked(mine, questions)}
        (out / f"{name}.json").write_text(json.dumps(file, separators=(",", ":")) + "\n")
