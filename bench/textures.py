#!/usr/bin/env python3
"""Runs texture and surface instructions as Orias and as ptxas compile them and compares every bit: `bench/textures.py [--without-gpu] [PART]`.

Each form is a kernel of its own over 256 threads with coordinates inside and outside: textures with three levels of detail and linear filtering,
surfaces of words, whose contents are compared, too. PART runs the forms that contain it. Handles come from memory and differ between lanes in
a second round, so that lanes take turns. The interpreter runs each form on the same texels, too: what it leaves is compared with the chip's, which tells
whether the rules of `eval::texture` are the chip's. The last lines say how many forms are the same; the exit code is 1 if one differs between the assemblers or is
refused. `--without-gpu` compares the interpreter with Orias's code in the emulator instead, at -O0 and -O3; then the exit code is 1 if one differs there.

    ORIAS, PTXAS     as for assemblers.py
"""

import ctypes
import os
import random
import struct
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import assemblers

THREADS = 256
WIDTH, HEIGHT, DEPTH, LAYERS, LEVELS = 32, 16, 8, 6, 3
#: What a thread finds in its input, a word each.
INPUTS = "fx fy fz layer ix iy iz bx flevel ilevel ax ay bgx bgy depth ox oy oz d0 d1 d2 d3".split()
FLOATS = {"fx", "fy", "fz", "flevel", "ax", "ay", "bgx", "bgy", "depth"}
SIZE_T, VOID = ctypes.c_size_t, ctypes.c_void_p


class Array3D(ctypes.Structure):
    _fields_ = [("Width", SIZE_T), ("Height", SIZE_T), ("Depth", SIZE_T), ("Format", ctypes.c_int), ("NumChannels", ctypes.c_uint), ("Flags", ctypes.c_uint)]


class Side(ctypes.Structure):
    _fields_ = [("X", SIZE_T), ("Y", SIZE_T), ("Z", SIZE_T), ("LOD", SIZE_T), ("Type", ctypes.c_int), ("Host", VOID), ("Device", ctypes.c_uint64), ("Array", VOID),
                ("reserved", VOID), ("Pitch", SIZE_T), ("Rows", SIZE_T)]


class Copy3D(ctypes.Structure):
    _fields_ = [("source", Side), ("to", Side), ("WidthInBytes", SIZE_T), ("Height", SIZE_T), ("Depth", SIZE_T)]


class Resource(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handle", VOID), ("rest", ctypes.c_uint64 * 15), ("flags", ctypes.c_uint)]


class Sampling(ctypes.Structure):
    _fields_ = [("address", ctypes.c_int * 3), ("filter", ctypes.c_int), ("flags", ctypes.c_uint), ("anisotropy", ctypes.c_uint), ("mipmap", ctypes.c_int),
                ("bias", ctypes.c_float), ("least", ctypes.c_float), ("most", ctypes.c_float), ("border", ctypes.c_float * 4), ("reserved", ctypes.c_int * 12)]


class Driver:
    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        device, context = ctypes.c_int(), VOID()
        self("cuInit", 0)
        self("cuDeviceGet", ctypes.byref(device), 0)
        self("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self("cuCtxSetCurrent", context)

    def __call__(self, name, *arguments):
        code = getattr(self.cuda, name)(*arguments)
        if code:
            raise RuntimeError(f"{name}: the driver says {code}")

    def memory(self, data):
        place = ctypes.c_uint64()
        self("cuMemAlloc_v2", ctypes.byref(place), SIZE_T(len(data)))
        self("cuMemcpyHtoD_v2", place, data, SIZE_T(len(data)))
        return place

    def read(self, place, size):
        room = ctypes.create_string_buffer(size)
        self("cuMemcpyDtoH_v2", room, place, SIZE_T(size))
        return room.raw


def shape(geometry):
    """Width, height, depth or layers, and flags of an array."""
    return {
        "1d": (WIDTH, 0, 0, 0), "2d": (WIDTH, HEIGHT, 0, 0), "3d": (WIDTH, HEIGHT, DEPTH, 0), "a1d": (WIDTH, 0, LAYERS, 1), "a2d": (WIDTH, HEIGHT, LAYERS, 1),
        "cube": (WIDTH, WIDTH, 6, 4), "acube": (WIDTH, WIDTH, 12, 5),
    }[geometry]


def copy(driver, array, level_shape, texel, data, back=False):
    width, height, depth = (max(each, 1) for each in level_shape)
    room = ctypes.create_string_buffer(data, len(data))
    host = Side(Type=1, Host=ctypes.addressof(room), Pitch=width * texel, Rows=height)
    there = Side(Type=3, Array=array)
    sides = (there, host) if back else (host, there)
    driver("cuMemcpy3D_v2", ctypes.byref(Copy3D(*sides, width * texel, height, depth)))
    return room.raw[: len(data)]


def texels(geometry, seed):
    """The bytes of each level of a texture of four singles."""
    width, height, depth, flags = shape(geometry)
    draw = random.Random(seed)
    for level in range(LEVELS):
        size = (width >> level, height >> level, depth if flags else depth >> level)
        count = 4 * max(size[0], 1) * max(size[1], 1) * max(size[2], 1)
        yield size, struct.pack(f"{count}f", *(draw.uniform(-4, 4) for _ in range(count)))


def texture(driver, geometry, seed):
    """A texture of four singles with levels of detail, of random texels."""
    width, height, depth, flags = shape(geometry)
    array, handle = VOID(), ctypes.c_uint64()
    driver("cuMipmappedArrayCreate", ctypes.byref(array), ctypes.byref(Array3D(width, height, depth, 0x20, 4, flags)), LEVELS)
    for level, (size, data) in enumerate(texels(geometry, seed)):
        part = VOID()
        driver("cuMipmappedArrayGetLevel", ctypes.byref(part), array, level)
        copy(driver, part, size, 16, data)
    how = Sampling(filter=1, flags=2, mipmap=1, most=LEVELS - 1.0)
    how.address[:] = [0, 1, 2]
    driver("cuTexObjectCreate", ctypes.byref(handle), ctypes.byref(Resource(type=1, handle=array)), ctypes.byref(how), None)
    return handle.value


def surface_texels(count):
    return random.Random(7).randbytes(count)


class Surface:
    """A surface of words."""

    def __init__(self, driver, geometry):
        self.driver = driver
        width, height, depth, flags = shape(geometry)
        self.size = (width, height, depth)
        self.bytes = 4 * max(width, 1) * max(height, 1) * max(depth, 1)
        self.array, handle = VOID(), ctypes.c_uint64()
        driver("cuArray3DCreate_v2", ctypes.byref(self.array), ctypes.byref(Array3D(width, height, depth, 0x03, 1, flags | 2)))
        driver("cuSurfObjectCreate", ctypes.byref(handle), ctypes.byref(Resource(type=0, handle=self.array)))
        self.handle = handle.value

    def fill(self):
        copy(self.driver, self.array, self.size, 4, surface_texels(self.bytes))

    def contents(self):
        return copy(self.driver, self.array, self.size, 4, bytes(self.bytes), back=True)


def coordinates(geometry, kind):
    x, y, z = {"f": ("fx", "fy", "fz"), "i": ("ix", "iy", "iz"), "b": ("bx", "iy", "iz")}[kind]
    return {
        "1d": [x], "2d": [x, y], "3d": [x, y, z, z], "a1d": ["layer", x], "a2d": ["layer", x, y, y], "cube": [x, y, z, z], "acube": ["layer", x, y, z],
    }[geometry]


def vector(names):
    return "{" + ", ".join("%" + name for name in names) + "}"


def forms():
    """(geometry, whether a surface, instruction, registers of its results)"""
    four = ["o0", "o1", "o2", "o3"]
    for geometry in ("1d", "2d", "3d", "a1d", "a2d", "cube", "acube"):
        flat = "cube" not in geometry
        dimensions = {"1d": 1, "a1d": 1, "2d": 2, "a2d": 2}.get(geometry, 4)
        offsets = ["", f", {vector(['ox', 'oy', 'oz', 'oz'][:dimensions])}"] if flat else [""]
        for kind, ty, level in [("f", "f32", "flevel"), ("i", "s32", "ilevel")][: 2 if flat else 1]:
            place = f"[%handle, {vector(coordinates(geometry, kind))}]"
            gradients = f", {vector(['ax', 'ay'][:dimensions])}, {vector(['bgx', 'bgy'][:dimensions])}"
            for op, more in [("tex", ""), ("tex.base", ""), ("tex.level", f", %{level}"), ("tex.grad", gradients)]:
                if op == "tex.grad" and (dimensions == 4 or kind == "i"):
                    continue
                for offset in offsets:
                    yield geometry, False, f"{op}.{geometry}.v4.f32.{ty} {vector(four)}, {place}{more}{offset}", four
                yield geometry, False, f"{op}.{geometry}.v4.f32.{ty} {{_, %o1, _, %o3}}|%p, {place}{more}", ["o1", "o3", "p"]
                yield geometry, False, f"{op}.{geometry}.v2.f16x2.{ty} {{%o0, %o1}}, {place}{more}", ["o0", "o1"]
            if geometry in ("2d", "a2d", "cube", "acube") and kind == "f":
                for component in "rgba":
                    for offset in offsets:
                        yield geometry, False, f"tld4.{component}.{geometry}.v4.f32.f32 {vector(four)}, {place}{offset}", four
        for query in ("width", "height", "depth"):
            yield geometry, False, f"txq.{query}.b32 %o0, [%handle]", ["o0"]
            yield geometry, False, f"txq.level.{query}.b32 %o0, [%handle], %ilevel", ["o0"]
    for geometry in ("1d", "2d", "3d", "a1d", "a2d"):
        for query in ("width", "height", "depth"):
            yield geometry, True, f"suq.{query}.b32 %o0, [%handle]", ["o0"]
        for mode in ("trap", "clamp", "zero"):
            place = f"[%handle, {vector(coordinates(geometry, 'b'))}]"
            texels = f"[%handle, {vector(coordinates(geometry, 'i'))}]"
            for count in (1, 2, 4):
                words, data = (vector([f"{letter}{at}" for at in range(count)]) for letter in "od")
                size = "" if count == 1 else f".v{count}"
                results = [f"o{at}" for at in range(count)]
                if count == 1:
                    words, data = "%o0", "%d0"
                for cache in ("", ".cg", ".cs"):
                    yield geometry, True, f"suld.b.{geometry}{cache}{size}.b32.{mode} {words}, {place}", results
                yield geometry, True, f"sust.b.{geometry}{size}.b32.{mode} {place}, {data}", []
                if count == 1:
                    yield geometry, True, f"sust.p.{geometry}.b32.{mode} {texels}, {data}", []
            if geometry[0] != "a":
                for op, ty in [("add", "u32"), ("min", "s32"), ("max", "u32"), ("and", "b32"), ("or", "b32")]:
                    yield geometry, True, f"sured.b.{op}.{geometry}.{ty}.{mode} {place}, %d0", []
                    yield geometry, True, f"sured.p.{op}.{geometry}.b32.{mode} {texels}, %d0", []


def program(instruction, results):
    lines = [".version 8.0", ".target sm_90a", ".address_size 64", ".visible .entry k(.param .u64 handles, .param .u64 in, .param .u64 out)", "{"]
    lines += [f".reg .{'f32' if name in FLOATS else 'b32'} %{name};" for name in INPUTS]
    lines += [".reg .b32 %o<4>, %t, %flag;", ".reg .b64 %handle, %base, %to;", ".reg .pred %p;", "mov.u32 %t, %tid.x;"]
    lines += ["ld.param.u64 %base, [handles];", "mad.wide.u32 %base, %t, 8, %base;", "ld.global.u64 %handle, [%base];"]
    lines += ["ld.param.u64 %base, [in];", f"mad.wide.u32 %base, %t, {4 * len(INPUTS)}, %base;", "ld.param.u64 %to, [out];", "mad.wide.u32 %to, %t, 32, %to;"]
    lines += [f"ld.global.b32 %{name}, [%base+{4 * at}];" for at, name in enumerate(INPUTS)]
    lines += [instruction + ";"]
    for at, name in enumerate(results):
        if name == "p":
            lines.append("selp.b32 %flag, 1, 2, %p;")
            name = "flag"
        lines.append(f"st.global.b32 [%to+{4 * at}], %{name};")
    return "\n".join(lines + ["ret;", "}", ""])


def inputs(draw, instruction, geometry):
    """The words of all threads. What traps stays inside. What is stored is the same in all threads, as several may store to one place; where
    places outside are clamped, all of its words are."""
    trap, stores = ".trap" in instruction, instruction.startswith("sust")
    stored = [draw.getrandbits(31) for _ in range(4)] if trap else [draw.getrandbits(31)] * 4
    words = []
    for thread in range(THREADS):
        inside = {"ix": thread % 8 * 4, "iy": thread // 8 % HEIGHT, "iz": thread // 128, "layer": thread // 128 if geometry != "a1d" else thread // 8 % LAYERS}
        if not trap and draw.random() < 0.1:
            inside = {name: draw.choice([-4, -8, WIDTH + 4, 1000]) for name in inside}
        for name in INPUTS:
            if name in FLOATS:
                words.append(struct.pack("f", {"flevel": draw.uniform(-1, 3), "depth": draw.random()}.get(name, draw.uniform(-1.5, 1.5))))
            else:
                value = {"bx": 4 * inside["ix"], "ilevel": draw.randrange(LEVELS), **inside}.get(name)
                if value is None and stores and name[0] == "d":
                    value = stored[int(name[1])]
                if value is None:
                    value = draw.randrange(-8, 8) if name[0] == "o" else draw.getrandbits(31)
                words.append(struct.pack("i", value))
    return b"".join(words)


def run(driver, cubin, handles, given, surfaces):
    for surface in surfaces:
        surface.fill()
    module, function = VOID(), VOID()
    driver("cuModuleLoadData", ctypes.byref(module), cubin.read_bytes())
    driver("cuModuleGetFunction", ctypes.byref(function), module, b"k")
    places = [driver.memory(struct.pack(f"{THREADS}Q", *handles)), driver.memory(given), driver.memory(bytes(32 * THREADS))]
    arguments = (VOID * 3)(*(ctypes.addressof(place) for place in places))
    driver("cuLaunchKernel", function, 1, 1, 1, THREADS, 1, 1, 0, None, arguments, None)
    driver("cuCtxSynchronize")
    result = driver.read(places[2], 32 * THREADS)
    for place in places:
        driver("cuMemFree_v2", place)
    driver("cuModuleUnload", module)
    return [result] + [surface.contents() for surface in surfaces]


def sizes(geometry):
    """The sizes of an image as `orias run` takes them."""
    width, height, depth, _ = shape(geometry)
    if "cube" in geometry:
        return f"{width}" + (f"x{depth // 6}" if geometry == "acube" else "")
    return "x".join(str(each) for each in (width, height, depth) if each)


class Emulated:
    """Runs a form by `orias run`: in the interpreter, or compiled in the emulator. What it leaves is as `run` has it."""

    def __init__(self, folder, wanted):
        self.folder = Path(folder)
        self.bound = {each: self.images(*each) for each in {form[:2] for form in wanted}}
        self.orias = os.environ.get("ORIAS") or str(assemblers.BENCH.parent / "target/release/orias")

    def images(self, geometry, is_surface):
        """The arguments that bind the images of a geometry."""
        if is_surface:
            count = shape(geometry)
            texels_file = self.folder / f"{geometry}.surface"
            texels_file.write_bytes(surface_texels(4 * max(count[0], 1) * max(count[1], 1) * max(count[2], 1)))
            return [f"surf:{geometry}:u32:{sizes(geometry)}:@{texels_file}"] * 2
        bound = []
        for seed in range(3):
            texels_file = self.folder / f"{geometry}.{seed}.texture"
            texels_file.write_bytes(b"".join(data for _, data in texels(geometry, seed)))
            options = f"linear,linear-levels,normalised,wrap+clamp+mirror,levels={LEVELS},range=0..{LEVELS - 1}"
            bound.append(f"tex:{geometry}:f32x4:{sizes(geometry)}:{options}:@{texels_file}")
        return bound

    def __call__(self, source, geometry, is_surface, choices, given, options):
        """Runs a form with the images of these numbers in each thread."""
        kind = 1 << 63 if is_surface else 1 << 61
        handles, words, out = (self.folder / f"{source.stem}.{name}" for name in ("handles", "in", "out"))
        handles.write_bytes(struct.pack(f"{THREADS}Q", *(kind | choice + 1 for choice in choices)))
        words.write_bytes(given)
        command = [self.orias, "run", str(source), "--block", str(THREADS), *options]
        left = [out]
        command += ["--dump", f"2={out}"]
        for number, image in enumerate(self.bound[geometry, is_surface]):
            command += ["--bind", f"i{number}={image}"]
            if is_surface:
                left.append(self.folder / f"{source.stem}.{number}")
                command += ["--dump", f"{3 + number}={left[-1]}"]
        command += [f"buf:u64:@{handles}", f"buf:u32:@{words}", f"buf:u32:{8 * THREADS}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return (done.stdout + done.stderr).strip()
        return [each.read_bytes() for each in left]


def choices_of(number, is_surface):
    """Which image each thread takes, in two rounds."""
    draw = random.Random(1000 + number)
    return [[0] * THREADS, [draw.randrange(2 if is_surface else 3) for _ in range(THREADS)]]


def without_gpu(wanted):
    """Compares the interpreter with code in the emulator; the exit code."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        emulated = Emulated(folder, wanted)

        def compare(job):
            number, (geometry, is_surface, instruction, results) = job
            source = Path(folder, f"{number}.ptx")
            source.write_text(program(instruction, results))
            given = inputs(random.Random(number), instruction, geometry)
            for choices in choices_of(number, is_surface):
                runs = [emulated(source, geometry, is_surface, choices, given, options) for options in (["--interpret"], ["-O0"], ["-O3"])]
                for level, left in zip(("", "-O0", "-O3"), runs, strict=True):
                    if isinstance(left, str):
                        return f"fails {level}: {instruction}: {left}"
                    if left != runs[0]:
                        return f"differs at {level}: {instruction}"
            return None

        found = [text for text in pool.map(compare, enumerate(wanted)) if text]
    print("\n".join([*found, f"{len(wanted) - len(found)} of {len(wanted)} forms the same in the interpreter and the emulator"]))
    return 1 if found else 0


def main():
    words = sys.argv[1:]
    emulator_only = "--without-gpu" in words
    part = next((word for word in words if word != "--without-gpu"), "")
    wanted = [form for form in forms() if part in form[2]]
    if emulator_only:
        sys.exit(without_gpu(wanted))
    driver = Driver()
    textures, surfaces = {}, {}
    same = refused = differ = meant = 0
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(8) as pool:
        emulated = Emulated(folder, wanted)

        def assemble(job):
            number, mode = job
            source = Path(folder, f"{number}.ptx")
            return assemblers.assemble(mode, source, source.with_suffix(f".{mode}"), ["-arch=sm_90a"])

        for number, (_, _, instruction, results) in enumerate(wanted):
            Path(folder, f"{number}.ptx").write_text(program(instruction, results))
        jobs = [(number, mode) for number in range(len(wanted)) for mode in ("ptxas", "orias")]
        messages = dict(zip(jobs, pool.map(assemble, jobs), strict=True))
        for number, (geometry, is_surface, instruction, _) in enumerate(wanted):
            message = messages[number, "ptxas"] or messages[number, "orias"]
            if message:
                refused += 1
                print(f"refused: {instruction}: {message.strip()}")
                continue
            draw = random.Random(number)
            if is_surface:
                objects = surfaces.setdefault(geometry, None) or [Surface(driver, geometry) for _ in range(2)]
                surfaces[geometry] = objects
                names = [each.handle for each in objects]
            else:
                objects = []
                names = textures.setdefault(geometry, None) or [texture(driver, geometry, seed) for seed in range(3)]
                textures[geometry] = names
            given = inputs(draw, instruction, geometry)
            equal = as_meant = True
            for choices in choices_of(number, is_surface):
                handles = [names[choice] for choice in choices]
                theirs, ours = (run(driver, Path(folder, f"{number}.{mode}"), handles, given, objects) for mode in ("ptxas", "orias"))
                equal &= theirs == ours
                source = Path(folder, f"{number}.ptx")
                as_meant &= theirs == emulated(source, geometry, is_surface, choices, given, ["--interpret"])
            same, differ, meant = same + equal, differ + (not equal), meant + as_meant
            if not equal:
                print(f"differs: {instruction}")
            if not as_meant:
                print(f"other than the interpreter: {instruction}")
    print(f"{meant} of {len(wanted)} forms as the interpreter has them")
    print(f"{same} of {len(wanted)} forms the same, {differ} differ, {refused} refused")
    sys.exit(1 if differ or refused else 0)


if __name__ == "__main__":
    main()
