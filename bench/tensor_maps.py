#!/usr/bin/env python3
"""Records the 128 bytes that CUDA's driver makes of tensor maps: `bench/tensor_maps.py OUT`.

Every field is varied by itself around a few plain maps, then pairs of fields at random. A line of OUT is one call:

    tiled type rank address dims strides box steps interleave swizzle promotion fill = 32 words in hexadecimal
    im2col type rank address dims strides lower upper channels pixels steps interleave swizzle promotion fill = …

Lists have commas between their numbers, the innermost dimension first, as the driver takes them; strides are bytes. A call
that the driver refuses ends with `= refused CODE`. Encoding reads no memory, so addresses are made up.
"""

import ctypes
import random
import sys

U32, U64 = ctypes.c_uint32, ctypes.c_uint64
#: Bytes of an element of each data type, in the driver's order: u8 u16 u32 s32 u64 s64 f16 f32 f64 bf16 f32.ftz tf32 tf32.ftz.
SIZES = [1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4]
BASE = 0x7F12_3456_7000


def numbers(values):
    return ",".join(map(str, values)) or "-"


class Driver:
    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.checked(self.cuda.cuInit(0))
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.checked(self.cuda.cuDeviceGet(ctypes.byref(device), 0))
        self.checked(self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
        self.checked(self.cuda.cuCtxSetCurrent(context))
        # The driver wants the map itself at a multiple of 64 bytes.
        self.room = ctypes.create_string_buffer(256)
        self.map = (ctypes.addressof(self.room) + 63) // 64 * 64

    def checked(self, code):
        if code:
            raise SystemExit(f"the driver says {code}")

    def answer(self, code):
        if code:
            return f"refused {code}"
        words = ctypes.cast(self.map, ctypes.POINTER(U32))
        return " ".join(f"{words[at]:08x}" for at in range(32))

    def array(self, kind, values):
        return (kind * max(len(values), 1))(*values)

    def tiled(self, m):
        ctypes.memset(self.map, 0xA5, 128)
        return self.answer(
            self.cuda.cuTensorMapEncodeTiled(
                ctypes.c_void_p(self.map), U32(m["type"]), U32(len(m["dims"])), ctypes.c_void_p(m["address"]),
                self.array(U64, m["dims"]), self.array(U64, m["strides"]), self.array(U32, m["box"]), self.array(U32, m["steps"]),
                U32(m["interleave"]), U32(m["swizzle"]), U32(m["promotion"]), U32(m["fill"]),
            )
        )  # fmt: skip

    def im2col(self, m):
        ctypes.memset(self.map, 0xA5, 128)
        return self.answer(
            self.cuda.cuTensorMapEncodeIm2col(
                ctypes.c_void_p(self.map), U32(m["type"]), U32(len(m["dims"])), ctypes.c_void_p(m["address"]),
                self.array(U64, m["dims"]), self.array(U64, m["strides"]),
                self.array(ctypes.c_int, m["lower"]), self.array(ctypes.c_int, m["upper"]), U32(m["channels"]), U32(m["pixels"]),
                self.array(U32, m["steps"]), U32(m["interleave"]), U32(m["swizzle"]), U32(m["promotion"]), U32(m["fill"]),
            )
        )  # fmt: skip


def tail(m):
    return f"{m['interleave']} {m['swizzle']} {m['promotion']} {m['fill']}"


def line(driver, m):
    head = f"{m['type']} {len(m['dims'])} {m['address']:#x} {numbers(m['dims'])} {numbers(m['strides'])}"
    if "box" in m:
        return f"tiled {head} {numbers(m['box'])} {numbers(m['steps'])} {tail(m)} = {driver.tiled(m)}"
    corners = f"{numbers(m['lower'])} {numbers(m['upper'])} {m['channels']} {m['pixels']} {numbers(m['steps'])}"
    return f"im2col {head} {corners} {tail(m)} = {driver.im2col(m)}"


def packed(dims, size):
    """Strides of a tensor without gaps, each rounded up to 16 bytes."""
    strides, at = [], size
    for dim in dims[:-1]:
        at = (at * dim + 15) // 16 * 16
        strides.append(at)
    return strides


def plain(rank, kind=7):
    dims = [64, 48, 32, 24, 16][:rank]
    return {
        "type": kind, "address": BASE, "dims": dims, "strides": packed(dims, SIZES[kind]), "box": [8, 6, 5, 4, 3][:rank],
        "steps": [1] * rank, "interleave": 0, "swizzle": 0, "promotion": 0, "fill": 0,
    }  # fmt: skip


def columns(rank, kind=7):
    m = plain(rank, kind)
    del m["box"]
    return m | {"lower": [0] * (rank - 2), "upper": [0] * (rank - 2), "channels": 8, "pixels": 6}


def put(m, field, at, value):
    m = dict(m)
    if at is None:
        m[field] = value
    else:
        m[field] = list(m[field])
        m[field][at] = value
    return m


def bits(low, high):
    """Each power of two from 2^low to 2^high, and the numbers around it."""
    out = []
    for at in range(low, high + 1):
        out += [(1 << at) - 1, 1 << at, (1 << at) + 1]
    return sorted(set(out))


def tiled_maps():
    for rank in range(1, 6):
        for kind in range(14):
            yield plain(rank, kind if kind < 13 else 7) | {"type": kind}
    for rank in range(1, 6):
        base = plain(rank)
        for at in range(rank):
            for value in [0, *bits(0, 32)]:
                yield put(base, "dims", at, value)
            for value in range(0, 260):
                if at == 0 or value < 10 or value > 250 or value & (value - 1) == 0:
                    yield put(base, "box", at, value)
            for value in range(0, 11):
                yield put(base, "steps", at, value)
        for at in range(rank - 1):
            for exponent in range(0, 42):
                yield put(base, "strides", at, 1 << exponent)
            for value in (16 * 3, 16 * 5, 48 + 8, (1 << 40) - 16, (1 << 36) - 16, (1 << 36) + 16):
                yield put(base, "strides", at, value)
        for interleave in range(3):
            for swizzle in range(8):
                yield base | {"interleave": interleave, "swizzle": swizzle}
                yield base | {"interleave": interleave, "swizzle": swizzle, "type": 0, "box": [16, *base["box"][1:]]}
        for promotion in range(5):
            for fill in range(3):
                yield base | {"promotion": promotion, "fill": fill}
        for exponent in range(0, 58):
            yield base | {"address": 1 << exponent}
        yield base | {"address": 0}
        yield base | {"address": (1 << 57) - 16}
    two = plain(2)
    for kind in range(13):
        size = SIZES[kind]
        for swizzle in range(5):
            for inner in (16, 32, 64, 128, 256):
                yield two | {"type": kind, "strides": [64 * size], "box": [inner // size, 8], "swizzle": swizzle}
        for fill in range(2):
            yield two | {"type": kind, "fill": fill, "box": [16, 6]}


def im2col_maps():
    for rank in range(3, 6):
        for kind in range(13):
            yield columns(rank, kind) | {"channels": 16}
        base = columns(rank)
        for at in range(rank - 2):
            for corner in ("lower", "upper"):
                low = {3: 15, 4: 7, 5: 4}[rank]
                for value in sorted({-v for v in bits(0, low + 1)} | set(bits(0, low + 1)) | {0}):
                    yield put(base, corner, at, value)
        for value in range(0, 260):
            yield base | {"channels": value}
        for value in [0, *bits(0, 11)]:
            yield base | {"pixels": value}
        for at in range(rank):
            for value in range(0, 10):
                yield put(base, "steps", at, value)
        for interleave in range(3):
            for swizzle in range(4):
                yield base | {"interleave": interleave, "swizzle": swizzle}
                yield base | {"interleave": interleave, "swizzle": swizzle, "type": 0, "channels": 16}
        for promotion in range(4):
            for fill in range(2):
                yield base | {"promotion": promotion, "fill": fill}
        for at in range(rank):
            for value in bits(0, 32):
                yield put(base, "dims", at, value)


def random_maps(count):
    random.seed(1)
    for _ in range(count):
        im2col = random.random() < 0.4
        rank = random.randint(3 if im2col else 1, 5)
        kind = random.randrange(13)
        size = SIZES[kind]
        dims = [random.randint(1, 1 << random.randint(1, 12)) for _ in range(rank)]
        m = {
            "type": kind, "address": random.randrange(1 << 43) * 32, "dims": dims, "strides": packed(dims, size),
            "steps": [random.randint(1, 8) for _ in range(rank)], "interleave": random.choice([0, 0, 0, 1, 2]),
            "swizzle": random.randrange(4), "promotion": random.randrange(4), "fill": random.randrange(2) * (kind > 5),
        }  # fmt: skip
        if im2col:
            low, high = {3: (-32768, 32767), 4: (-128, 127), 5: (-16, 15)}[rank]
            m["lower"] = [random.randint(low, high) for _ in range(rank - 2)]
            m["upper"] = [random.randint(low, high) for _ in range(rank - 2)]
            m["channels"], m["pixels"] = random.choice([8, 16, 32]), random.randint(1, 1024)
        else:
            m["box"] = [max(16 // size, 1) * random.choice([1, 2]), *(random.randint(1, 8) for _ in range(rank - 1))]
        yield m


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    driver = Driver()
    version = ctypes.c_int()
    driver.cuda.cuDriverGetVersion(ctypes.byref(version))
    seen, made = set(), 0
    with open(sys.argv[1], "w") as out:
        print(f"# Tensor maps as CUDA's driver {version.value} encodes them; made by bench/tensor_maps.py.", file=out)
        for source in (tiled_maps(), im2col_maps(), random_maps(1500)):
            for m in source:
                text = line(driver, m)
                if text not in seen:
                    seen.add(text)
                    made += "refused" not in text
                    print(text, file=out)
    print(f"{len(seen)} calls, {made} maps")


if __name__ == "__main__":
    main()
