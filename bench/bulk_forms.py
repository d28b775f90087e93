#!/usr/bin/env python3
"""Writes a kernel for every form of bulk and tensor copies, and a manifest of their launches: `bench/bulk_forms.py FOLDER`.

The kernels need no tensor maps from outside: a map is a variable of the module, laid out as the driver does it, and the kernel puts the
address of its buffer in. What a kernel leaves in its buffers is compared between assemblers on the chip (`xtask gpu launches`), and between
emulator and interpreter without one (`xtask emulate`).
"""

import json
import sys
from pathlib import Path

HEAD = ".version 8.6\n.target sm_90a\n.address_size 64\n"

#: Element types of tensor maps: number, bytes.
TYPES = {"u8": (0, 1), "u16": (1, 2), "u32": (2, 4), "s32": (3, 4), "u64": (4, 8), "s64": (5, 8), "f16": (6, 2), "f32": (7, 4), "f64": (9, 8), "bf16": (10, 2)}


def tensor_map(kind, dims, box, steps=None, swizzle=0, fill=0, pixels=None):
    """The 32 words of a map, without its address. `pixels` is (lower, upper, channels, count) of an im2col map."""
    number, size = TYPES[kind]
    rank = len(dims)
    steps = steps or [1] * rank
    words = [0] * 32
    words[2] = (pixels is not None) | (rank - 1) << 4 | number << 7 | swizzle << 13 | fill << 15
    stride = size
    for at, dim in enumerate(dims):
        words[8 + at] = dim - 1
        words[13] |= (steps[at] - 1) << (3 * at)
        if at:
            words[2 + at] = stride >> 4
        stride = (stride * dim + 15) // 16 * 16 if at == 0 else stride * dim
    if pixels is None:
        words[13] |= (box[0] - 1) << 24
        for at, extent in enumerate(box[1:]):
            words[14] |= (extent - 1) << (8 * at)
    else:
        lower, upper, channels, count = pixels
        width = {3: 16, 4: 8, 5: 5}[rank]
        words[13] |= (channels - 1) << 24
        for at in range(rank - 2):
            words[14] |= (lower[at] & ((1 << width) - 1)) << (width * at) | (upper[at] & ((1 << width) - 1)) << (16 + width * at)
        words[15] = count - 1
    return words


class Suite:
    def __init__(self):
        self.text, self.tests, self.count = {}, {}, 0

    def add(self, file, name, body, args, shared=2048, block=64, grid=1, cluster=0, maps=(), parameters=("in", "out")):
        """A kernel: `body` may use %rd0… for its parameters, %r0 for the thread, `tile` and `bar` in shared memory."""
        lines = []
        for number, words in enumerate(maps):
            lines.append(f".global .align 128 .b32 {name}_map{number}[32] = {{{', '.join(map(str, words))}}};")
        head = ", ".join(f".param .u64 {p}" for p in parameters)
        lines.append(f".visible .entry {name}({head})")
        if cluster:
            lines.append(f".reqnctapercluster {cluster}, 1, 1")
        lines.append("{")
        lines.append("    .reg .b32 %r<40>;\n    .reg .b64 %rd<40>;\n    .reg .b16 %h<8>;\n    .reg .pred %p<8>;")
        lines.append(f"    .shared .align 1024 .b8 tile[{shared}];\n    .shared .align 8 .b64 bar;")
        for number, parameter in enumerate(parameters):
            lines.append(f"    ld.param.u64 %rd{number}, [{parameter}];")
        lines.append("    mov.u32 %r0, %tid.x;\n    setp.ne.u32 %p0, %r0, 0;")
        lines += ["    " + line for line in body.strip("\n").split("\n")]
        lines.append("    ret;\n}\n")
        self.text.setdefault(file, [HEAD]).append("\n".join(lines))
        test = {"name": f"{file}.{name}", "ptx": f"{file}.ptx", "kernel": name, "grid": [grid, 1, 1], "block": [block, 1, 1], "smem": 0, "args": args, "esize": 4, "tags": ["bulk"]}
        self.tests.setdefault(file, []).append(test)

    def write(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        for file, parts in self.text.items():
            (folder / f"{file}.ptx").write_text("\n".join(parts))
        tests = [test for tests in self.tests.values() for test in tests]
        (folder / "manifest.json").write_text(json.dumps({"tests": tests}, indent=1) + "\n")
        print(f"{len(tests)} kernels in {len(self.text)} modules")


def fill(count, block=64):
    """Every thread writes its part of the first `count` bytes of the tile: words that differ."""
    return f"""
mov.u32 %r10, %r0;
FILL:
mul.lo.u32 %r11, %r10, 0x01010107;
and.b32 %r11, %r11, 0x3fff3fff;
shl.b32 %r12, %r10, 2;
mov.u32 %r13, tile;
add.u32 %r13, %r13, %r12;
st.shared.u32 [%r13], %r11;
add.u32 %r10, %r10, {block};
setp.lt.u32 %p1, %r10, {count // 4};
@%p1 bra FILL;
fence.proxy.async.shared::cta;
bar.sync 0;
"""


def spill(count, block=64, offset="0"):
    """Every thread stores its part of the first `count` bytes of the tile to the second parameter."""
    return f"""
mov.u32 %r14, %r0;
mov.u32 %r19, {offset};
SPILL:
shl.b32 %r15, %r14, 2;
mov.u32 %r16, tile;
add.u32 %r16, %r16, %r15;
ld.shared.u32 %r17, [%r16];
add.u32 %r15, %r15, %r19;
cvt.u64.u32 %rd20, %r15;
add.u64 %rd20, %rd1, %rd20;
st.global.u32 [%rd20], %r17;
add.u32 %r14, %r14, {block};
setp.lt.u32 %p2, %r14, {count // 4};
@%p2 bra SPILL;
"""


def barrier(arrivals=1):
    return f"""
@%p0 bra READY;
mbarrier.init.shared::cta.b64 [bar], {arrivals};
fence.mbarrier_init.release.cluster;
READY:
bar.sync 0;
"""


def wait(parity=0):
    return f"""
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 %p3, [bar], {parity};
@!%p3 bra WAIT;
"""


POLICY = "createpolicy.fractional.L2::evict_first.b64 %rd9, 1.0;\n"


def rand(kind, n, seed):
    return {"rand": kind, "n": n, "seed": seed}


def bulk(suite):
    load = "cp.async.bulk.{to}.global.mbarrier::complete_tx::bytes{more}"
    for number, (to, more, extra) in enumerate([
        ("shared::cta", "", ""), ("shared::cluster", "", ""),
        ("shared::cta", ".L2::cache_hint", ", %rd9"), ("shared::cluster", ".L2::cache_hint", ", %rd9"),
        ("shared::cluster", ".multicast::cluster", ", 1"), ("shared::cluster", ".multicast::cluster.L2::cache_hint", ", %h1, %rd9"),
    ]):  # fmt: skip
        op = load.format(to=to, more=more)
        body = POLICY + "mov.u16 %h1, 1;\n" + fill(2048) + barrier() + f"""
@%p0 bra LOADED;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 1040;
{op} [tile], [%rd0], 1024, [bar]{extra};
mov.u32 %r20, 16;
{op} [tile+1536], [%rd0+1024], %r20, [bar]{extra};
LOADED:
""" + wait() + spill(2048)
        suite.add("bulk", f"load_{number}", body, [rand("i32", 512, 7 + number), {"poison": 2048}])
    # Every thread a copy of its own, some of them none.
    body = fill(2048) + barrier(64) + """
mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16;
shl.b32 %r20, %r0, 4;
mov.u32 %r21, tile;
add.u32 %r21, %r21, %r20;
xor.b32 %r22, %r20, 48;
cvt.u64.u32 %rd10, %r22;
add.u64 %rd10, %rd0, %rd10;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r21], [%rd10], 16, [bar];
""" + wait() + spill(2048)
    suite.add("bulk", "load_each", body, [rand("i32", 512, 3), {"poison": 2048}])
    body = fill(2048) + barrier() + """
mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 0;
elect.sync _|%p4, -1;
setp.gt.u32 %p5, %r0, 31;
@%p5 bra LOADED;
@!%p4 bra LOADED;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 512;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd0], 512, [bar];
LOADED:
""" + wait() + spill(2048)
    suite.add("bulk", "load_elected", body, [rand("i32", 512, 4), {"poison": 2048}])
    for number, (more, extra) in enumerate([("", ""), (".L2::cache_hint", ", %rd9")]):
        op = f"cp.async.bulk.global.shared::cta.bulk_group{more}"
        body = POLICY + fill(2048) + f"""
@%p0 bra STORED;
{op} [%rd1], [tile], 1024{extra};
cp.async.bulk.commit_group;
{op} [%rd1+1024], [tile+512], 512{extra};
cp.async.bulk.commit_group;
cp.async.bulk.wait_group.read 1;
cp.async.bulk.wait_group 0;
STORED:
"""
        suite.add("bulk", f"store_{number}", body, [rand("i32", 16, 1), {"poison": 2048}])
        body = POLICY + fill(2048) + f"""
shl.b32 %r20, %r0, 4;
mov.u32 %r21, tile;
add.u32 %r21, %r21, %r20;
cvt.u64.u32 %rd10, %r20;
add.u64 %rd10, %rd1, %rd10;
{op} [%rd10], [%r21], 16{extra};
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
"""
        suite.add("bulk", f"store_each_{number}", body, [rand("i32", 16, 1), {"poison": 2048}])
        body = POLICY + f"""
cp.async.bulk.prefetch.L2.global{more} [%rd0], 1024{extra};
st.global.u32 [%rd1], %r0;
"""
        suite.add("bulk", f"prefetch_{number}", body, [rand("i32", 512, 1), {"poison": 64}], block=1)


REDUCTIONS = [
    ("add", ["u32", "s32", "u64", "f16", "bf16", "f32", "f64"]), ("min", ["u32", "s32", "u64", "s64", "f16", "bf16"]),
    ("max", ["u32", "s32", "u64", "s64", "f16", "bf16"]), ("inc", ["u32"]), ("dec", ["u32"]),
    ("and", ["b32", "b64"]), ("or", ["b32", "b64"]), ("xor", ["b32", "b64"]),
]  # fmt: skip

SHARED_REDUCTIONS = [("add", ["u32", "s32", "u64"]), ("min", ["u32", "s32"]), ("max", ["u32", "s32"]), ("inc", ["u32"]), ("dec", ["u32"]), ("and", ["b32"]), ("or", ["b32"]), ("xor", ["b32"])]


def reductions(suite):
    for op, kinds in REDUCTIONS:
        for kind in kinds:
            noftz = ".noftz" if op == "add" and kind in ("f16", "bf16") else ""
            for number, (more, extra) in enumerate([("", ""), (".L2::cache_hint", ", %rd9")]):
                if number and kind not in ("u32", "f16"):
                    continue
                body = POLICY + fill(1024) + f"""
@%p0 bra STORED;
cp.reduce.async.bulk.global.shared::cta.bulk_group{more}.{op}{noftz}.{kind} [%rd1], [tile], 1024{extra};
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
STORED:
"""
                data = {"uniform": kind, "n": 1024 // TYPES[kind][1], "seed": 9} if kind[0] in "fb" and kind[1:] not in ("32", "64") or kind in ("f32", "f64") else rand("i32", 256, 9)
                suite.add("reduce", f"to_global_{op}_{kind}_{number}", body, [rand("i32", 16, 1), data])
    # Four warps add the same: every lane's counts.
    body = fill(1024, 128) + """
cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd1], [tile], 64;
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
"""
    suite.add("reduce", "each_lane", body, [rand("i32", 16, 1), {"zero": 64}], block=128)


def set_map(name, parameter="%rd0"):
    """Puts the address of a buffer into the kernel's map, and makes it known to the copy engine."""
    return f"""
mov.u64 %rd30, {name}_map0;
@%p0 bra MAPPED;
tensormap.replace.tile.global_address.global.b1024.b64 [%rd30], {parameter};
fence.proxy.tensormap::generic.release.gpu;
MAPPED:
bar.sync 0;
fence.proxy.tensormap::generic.acquire.gpu [%rd30], 128;
"""


DIMS = [16, 6, 5, 4, 3]
BOX = [8, 3, 2, 2, 2]


def coordinates(values):
    return "{" + ", ".join(map(str, values)) + "}"


def product(values):
    total = 1
    for value in values:
        total *= value
    return total


def tile_load(suite, name, kind, dims, box, start, more="", extra="", to="shared::cluster", **shape):
    size = TYPES[kind][1]
    steps = shape.get("steps") or [1] * len(box)
    taken = [-(-extent // (step if at else 1)) for at, (extent, step) in enumerate(zip(box, steps))]
    total = product(taken) * size
    room = -(-total // 256) * 256
    rank = len(dims)
    op = f"cp.async.bulk.tensor.{rank}d.{to}.global.tile.mbarrier::complete_tx::bytes{more}"
    body = POLICY + "mov.u16 %h1, 1;\n" + set_map(name) + fill(room) + barrier() + f"""
@%p0 bra LOADED;
prefetch.tensormap [%rd30];
mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {total};
{op} [tile], [%rd30, {coordinates(start)}], [bar]{extra};
LOADED:
""" + wait() + spill(room)
    elements = product([-(-dims[0] * size // 16) * 16, *dims[1:]]) // 4
    suite.add("tile", name, body, [rand("i32", elements, 5), {"poison": room}], shared=max(room, 1024), maps=[tensor_map(kind, dims, box, **shape)])


def tiles(suite):
    for rank in range(1, 6):
        dims, box = DIMS[:rank], BOX[:rank]
        tile_load(suite, f"load_{rank}d", "f32", dims, box, [4, 1, 2, 1, 1][:rank])
        tile_load(suite, f"load_{rank}d_cta", "f32", dims, box, [0, 1, 0, 1, 0][:rank], to="shared::cta")
        tile_load(suite, f"load_{rank}d_outside", "f32", dims, box, [12, 5, 4, 3, 2][:rank])
        tile_load(suite, f"load_{rank}d_before", "s32", dims, box, [-4, -1, 0, -1, 0][:rank])
        tile_load(suite, f"load_{rank}d_hint", "u32", dims, box, [0] * rank, more=".L2::cache_hint", extra=", %rd9")
        tile_load(suite, f"load_{rank}d_multicast", "u32", dims, box, [0] * rank, more=".multicast::cluster", extra=", 1")
        tile_load(suite, f"load_{rank}d_multicast_hint", "u32", dims, box, [0] * rank, more=".multicast::cluster.L2::cache_hint", extra=", %h1, %rd9")
        tile_store(suite, f"store_{rank}d", "u32", dims, box, [4, 1, 2, 1, 1][:rank])
        tile_store(suite, f"store_{rank}d_outside", "f32", dims, box, [12, 5, 4, 3, 2][:rank], more=".L2::cache_hint", extra=", %rd9")
        tile_prefetch(suite, f"prefetch_{rank}d", dims, box)
    for kind in TYPES:
        size = TYPES[kind][1]
        tile_load(suite, f"load_{kind}", kind, [64, 8], [16, 4], [48 + 8 // size * 2 % 16, 6])
        if kind[0] in "fb":
            tile_load(suite, f"load_{kind}_nan", kind, [60 if size > 1 else 64, 8], [16, 4], [48, 6], fill=1)
    for swizzle in (1, 2, 3):
        inner = 16 << swizzle
        # A row of a swizzled tile fills the swizzle's span, however short it is.
        for size, kind in ((1, "u8"), (2, "f16"), (4, "u32")):
            tile_load(suite, f"load_swizzle{swizzle}_{kind}", kind, [256, 24], [inner // size, 16], [16 // size, 1], swizzle=swizzle)
        tile_load(suite, f"load_swizzle{swizzle}_narrow", "u32", [64, 24], [4, 8], [4, 1], swizzle=swizzle)
        tile_store(suite, f"store_swizzle{swizzle}", "u32", [64, 24], [inner // 4, 16], [4, 1], swizzle=swizzle)
    for step in (2, 3, 8):
        tile_load(suite, f"load_step{step}", "u32", [16, 40], [8, 17], [0, 2], steps=[1, step])
    for op, kinds in [("add", ["u32", "s32", "u64", "f16", "bf16", "f32"]), ("min", ["u32", "s32", "f16"]), ("max", ["u32", "s32", "bf16"]), ("inc", ["u32"]), ("dec", ["u32"]), ("and", ["u32"]), ("or", ["u64"]), ("xor", ["u32"])]:
        for kind in kinds:
            tile_store(suite, f"reduce_{op}_{kind}", kind, [32, 8], [16, 4], [8, 6], reduce=op)
    for rank in range(1, 6):
        tile_store(suite, f"reduce_{rank}d", "u32", DIMS[:rank], BOX[:rank], [4, 1, 2, 1, 1][:rank], reduce="add", more=".L2::cache_hint", extra=", %rd9")


def tile_store(suite, name, kind, dims, box, start, more="", extra="", reduce="", **shape):
    size = TYPES[kind][1]
    total = product(box) * size
    room = -(-total // 256) * 256
    rank = len(dims)
    op = f"cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group{more}"
    if reduce:
        op = f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{reduce}.tile.bulk_group{more}"
    body = POLICY + set_map(name, "%rd1") + fill(room) + f"""
@%p0 bra STORED;
{op} [%rd30, {coordinates(start)}], [tile]{extra};
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
STORED:
"""
    elements = product([-(-dims[0] * size // 16) * 16, *dims[1:]]) // 4
    data = {"uniform": kind, "n": elements * 4 // size, "seed": 9} if kind[0] in "fb" else rand("i32", elements, 6)
    suite.add("tile", name, body, [rand("i32", 16, 1), data], shared=max(room, 1024), maps=[tensor_map(kind, dims, box, **shape)])


def tile_prefetch(suite, name, dims, box):
    rank = len(dims)
    body = POLICY + set_map(name) + f"""
cp.async.bulk.prefetch.tensor.{rank}d.L2.global.tile [%rd30, {coordinates([0] * rank)}];
cp.async.bulk.prefetch.tensor.{rank}d.L2.global.tile.L2::cache_hint [%rd30, {coordinates([4] + [1] * (rank - 1))}], %rd9;
st.global.u32 [%rd1], %r0;
"""
    suite.add("tile", name, body, [rand("i32", 8192, 1), {"poison": 64}], block=1, maps=[tensor_map("u32", dims, box)])


def columns(suite):
    shapes = {
        3: ([16, 9, 3], [-1], [0], [2, 1]), 4: ([16, 7, 6, 3], [-1, -1], [-1, 0], [1, 1, 1]), 5: ([16, 5, 4, 4, 2], [-1, 0, -1], [0, -1, 0], [0, 1, 1, 0]),
    }  # fmt: skip
    for rank, (dims, lower, upper, _) in shapes.items():
        for number, (count, channels, start, offsets, steps) in enumerate([
            (8, 8, [0, -1, 0, 0, 0], [0, 0, 0], 1), (20, 8, [4, 1, 2, 1, 0], [1, 2, 1], 1), (12, 4, [12, 2, 1, 0, 1], [2, 1, 0], 2), (33, 8, [0, 0, 0, 0, 0], [1, 1, 1], 1),
        ]):  # fmt: skip
            start = [*start[: rank - 1], start[4]]
            for form, (more, extra) in enumerate([("", ""), (".L2::cache_hint", ", %rd9"), (".multicast::cluster", ", %h1"), (".multicast::cluster.L2::cache_hint", ", 1, %rd9")]):
                if form and number != 1:
                    continue
                name = f"load_{rank}d_{number}_{form}"
                total = count * channels * 4
                room = -(-total // 256) * 256
                op = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes{more}"
                body = POLICY + "mov.u16 %h1, 1;\n" + set_map(name) + fill(room) + barrier() + f"""
@%p0 bra LOADED;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {total};
{op} [tile], [%rd30, {coordinates(start)}], [bar], {coordinates(offsets[: rank - 2])}{extra};
LOADED:
""" + wait() + spill(room)
                pixels = (lower, upper, channels, count)
                step = [1] + [steps] * (rank - 2) + [1]
                suite.add("im2col", name, body, [rand("i32", product(dims), 5), {"poison": room}], shared=max(room, 1024), maps=[tensor_map("f32", dims, None, steps=step, pixels=pixels)])
        pixels = ([0] * (rank - 2), [0] * (rank - 2), 8, 20)
        start = [8, 0, 0, 0, 0][: rank - 1] + [0]
        for op, what in (("cp.async.bulk.tensor.{}d.global.shared::cta.im2col_no_offs.bulk_group", "store"), ("cp.reduce.async.bulk.tensor.{}d.global.shared::cta.add.im2col_no_offs.bulk_group", "reduce")):
            name = f"{what}_{rank}d"
            body = set_map(name, "%rd1") + fill(640) + f"""
@%p0 bra STORED;
{op.format(rank)} [%rd30, {coordinates(start)}], [tile];
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
STORED:
"""
            suite.add("im2col", name, body, [rand("i32", 16, 1), rand("i32", product(dims), 5)], maps=[tensor_map("u32", dims, None, pixels=pixels)])
        name = f"prefetch_{rank}d"
        body = POLICY + set_map(name) + f"""
cp.async.bulk.prefetch.tensor.{rank}d.L2.global.im2col [%rd30, {coordinates(start)}], {coordinates([1] * (rank - 2))};
cp.async.bulk.prefetch.tensor.{rank}d.L2.global.im2col.L2::cache_hint [%rd30, {coordinates(start)}], {coordinates([1] * (rank - 2))}, %rd9;
st.global.u32 [%rd1], %r0;
"""
        suite.add("im2col", name, body, [rand("i32", product(dims), 1), {"poison": 64}], block=1, maps=[tensor_map("f32", dims, None, pixels=pixels)])


def clusters(suite):
    """Two blocks: a copy to the other one, a multicast, a reduction in the other's memory."""
    start = """
barrier.cluster.arrive.aligned;
barrier.cluster.wait.aligned;
mov.u32 %r30, %cluster_ctarank;
xor.b32 %r31, %r30, 1;
mov.u32 %r32, tile;
mov.u32 %r33, bar;
mapa.shared::cluster.u32 %r34, %r32, %r31;
mapa.shared::cluster.u32 %r35, %r33, %r31;
shl.b32 %r36, %r30, 11;
"""
    end = wait() + spill(2048, offset="%r36") + "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"
    forms = {
        "copy": ("512", "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r34], [tile+1024], 512, [%r35];"),
        "load": ("512", "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r34], [%rd10], 512, [%r35];"),
        **{
            f"reduce_{op}_{kind}": ("256", f"cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.{op}.{kind} [%r34], [tile+1024], 256, [%r35];")
            for op, kinds in SHARED_REDUCTIONS for kind in kinds
        },
        "multicast": ("1024", "@!%p6 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [tile], [%rd0], 1024, [bar], 3;"),
    }
    for name, (bytes_, op) in forms.items():
        body = fill(2048) + barrier() + start + f"""
setp.ne.u32 %p6, %r30, 0;
cvt.u64.u32 %rd10, %r36;
add.u64 %rd10, %rd0, %rd10;
@%p0 bra LOADED;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {bytes_};
LOADED:
barrier.cluster.arrive.aligned;
barrier.cluster.wait.aligned;
@%p0 bra SENT;
{op}
SENT:
""" + end
        suite.add("pairs", name, body, [rand("i32", 2048, 8), {"poison": 4096}], grid=2, cluster=2)
    name = "tile_multicast"
    body = set_map(name) + fill(2048) + barrier() + start + f"""
setp.ne.u32 %p6, %r30, 0;
@%p0 bra LOADED;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 512;
LOADED:
barrier.cluster.arrive.aligned;
barrier.cluster.wait.aligned;
@%p0 bra SENT;
@!%p6 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [tile], [%rd30, {{4, 1}}], [bar], 3;
SENT:
""" + end
    suite.add("pairs", name, body, [rand("i32", 2048, 8), {"poison": 4096}], grid=2, cluster=2, maps=[tensor_map("u32", [32, 16], [16, 8])])


def maps(suite):
    """Every field of a map replaced, in global and in shared memory, and a map copied by the warp."""
    fields = [
        ("rank", "b32", "3"), ("box_dim", "b32", "0, 16"), ("box_dim", "b32", "3, %r20"), ("global_dim", "b32", "1, %r20"), ("global_stride", "b64", "2, %rd10"),
        ("element_stride", "b32", "4, 3"), ("elemtype", "b32", "6"), ("elemtype", "b32", "12"), ("interleave_layout", "b32", "1"), ("swizzle_mode", "b32", "3"), ("fill_mode", "b32", "1"),
        ("global_address", "b64", "%rd10"),
    ]  # fmt: skip
    for number, (field, width, value) in enumerate(fields):
        for space, address in (("global", "[%rd1]"), ("shared::cta", "[tile]"), ("", "[%rd1]")):
            dot = f".{space}" if space else ""
            body = fill(128, 32) + f"""
mov.u32 %r20, 37;
mov.u64 %rd10, 0x7f12345670;
@%p0 bra DONE;
tensormap.replace.tile.{field}{dot}.b1024.{width} {address}, {value};
DONE:
bar.sync 0;
""" + (spill(128, 32) if space == "shared::cta" else "")
            name = f"{field}_{number}_{(space or 'generic').replace('::', '_')}"
            suite.add("maps", name, body, [rand("i32", 16, 1), rand("i32", 32, 3)], block=32)
    for scope in ("cta", "cluster", "gpu", "sys"):
        body = fill(128, 32) + f"""
setp.gt.u32 %p4, %r0, 31;
@%p4 bra DONE;
tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.{scope}.sync.aligned [%rd1], [tile], 128;
DONE:
"""
        suite.add("maps", f"copied_{scope}", body, [rand("i32", 16, 1), {"poison": 128}], block=32)


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    suite = Suite()
    for part in (bulk, reductions, tiles, columns, clusters, maps):
        part(suite)
    suite.write(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
