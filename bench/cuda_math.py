#!/usr/bin/env python3
"""CUDA's math functions and CUB's block and warp primitives, one kernel each, to compare assemblers bit for bit.

    cuda_math.py make FOLDER [--lanes 4096]      nvcc makes the PTX; inputs and manifest.json are written
    cuda_math.py split FOLDER COMMAND...         which functions COMMAND refuses, one at a time (no cubins are kept)

Then `assemblers.py FOLDER ptxas,orias --fmad=false` makes the cubins and
`cargo xtask gpu launches FOLDER/manifest.json FOLDER/orias FOLDER/ptxas` compares the results on a GPU.

Each function runs on every tuple of special values, on random bits, and on random numbers of ordinary size. `make` needs nvcc
(NVCC, or the one on the PATH). Modules are compiled by nvcc without contraction of products and sums
(`-fmad=false`) and should be assembled with `--fmad=false`: only then do both assemblers have to agree on every bit.
"""

import argparse
import concurrent.futures
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

CUB = Path(__file__).resolve().parent / "cuda" / "cub_primitives.cu"

ROUNDINGS = ["rn", "rz", "ru", "rd"]


def words(text):
    return text.split()


def rounded(*names):
    return [f"{name}_{mode}" for name in names for mode in ROUNDINGS]


# Families: (module, element type, arity) -> names. `f` stands for the type, and every argument and the result have it.
F1 = words(
    "acos acosh asin asinh atan atanh cbrt ceil cos cosh cospi cyl_bessel_i0 cyl_bessel_i1 erfc erfcinv erfcx erf erfinv exp10 exp2 exp"
    " expm1 fabs floor j0 j1 lgamma log10 log1p log2 logb log nearbyint normcdf normcdfinv rcbrt rint round rsqrt sin sinh sinpi sqrt tan"
    " tanh tgamma trunc y0 y1"
)
F2 = words("atan2 copysign fdim fmax fmin fmod hypot nextafter pow remainder rhypot")
F3 = words("norm3d rnorm3d fma")

FLOAT_1 = [f"{name}f" for name in F1] + words(
    "__cosf __exp10f __expf __log10f __log2f __logf __saturatef __sinf __tanf __tanhf __frsqrt_rn"
) + rounded("__frcp", "__fsqrt")
FLOAT_2 = [f"{name}f" for name in F2] + words("fdividef __fdividef __powf") + rounded("__fadd", "__fsub", "__fmul", "__fdiv")
FLOAT_3 = [f"{name}f" for name in F3] + rounded("__fmaf")
DOUBLE_1 = F1 + rounded("__drcp", "__dsqrt")
DOUBLE_2 = F2 + rounded("__dadd", "__dsub", "__dmul", "__ddiv")
DOUBLE_3 = F3 + rounded("__fma")
HALF_1 = words(
    "hceil hcos hexp hexp10 hexp2 hfloor hlog hlog10 hlog2 hrcp hrint hrsqrt hsin hsqrt htanh htanh_approx htrunc __habs __hneg"
)
HALF_2 = words(
    "__hadd __hadd_rn __hadd_sat __hsub __hsub_rn __hsub_sat __hmul __hmul_rn __hmul_sat __hdiv __hmax __hmin __hmax_nan __hmin_nan"
)
HALF_3 = words("__hfma __hfma_relu __hfma_sat")
HALF_COMPARE = [f"__h{op}{u}" for op in words("eq ne le ge lt gt") for u in ("", "u")]
HALF2_1 = words("h2ceil h2cos h2exp h2exp10 h2exp2 h2floor h2log h2log10 h2log2 h2rcp h2rint h2rsqrt h2sin h2sqrt h2tanh h2trunc __habs2 __hneg2")
HALF2_2 = words("__hadd2 __hadd2_sat __hsub2 __hsub2_sat __hmul2 __hmul2_sat __h2div __hmax2 __hmin2 __hmax2_nan __hmin2_nan") + [
    f"__h{op}{u}2" for op in words("eq ne le ge lt gt") for u in ("", "u")
]
HALF2_3 = words("__hfma2 __hfma2_relu __hfma2_sat __hcmadd")

# Functions of other shapes: name -> (body with arguments a, b, c, element type of inputs, type of the result).
def odd_shapes():
    out = {}

    def add(module, name, body, element, result):
        out.setdefault(module, []).append((name, body, element, result))

    for suffix, real in (("f", "float"), ("", "double")):
        m = "float_more" if suffix else "double_more"
        for name in words("ilogb lrint lround llrint llround"):
            result = "int" if name == "ilogb" else "long long"
            add(m, f"{name}{suffix}", f"return {name}{suffix}(a);", real, result)
        for name in words("isfinite isinf isnan signbit"):
            add(m, f"{name}_{real}", f"return {name}(a) ? 1 : 0;", real, "int")
        for name in words("jn yn"):
            add(m, f"{name}{suffix}", f"return {name}{suffix}((int)(b * 5) & 15, a);", real, real)
        add(m, f"frexp{suffix}", f"int e; {real} m = frexp{suffix}(a, &e); return m + e;", real, real)
        add(m, f"modf{suffix}", f"{real} w; {real} p = modf{suffix}(a, &w); return p + 2 * w;", real, real)
        add(m, f"remquo{suffix}", f"int q; {real} r = remquo{suffix}(a, b, &q); return r + (q & 7);", real, real)
        add(m, f"ldexp{suffix}", f"return ldexp{suffix}(a, (int)(b * 30));", real, real)
        add(m, f"scalbn{suffix}", f"return scalbn{suffix}(a, (int)(b * 300));", real, real)
        add(m, f"scalbln{suffix}", f"return scalbln{suffix}(a, (long)(b * 30));", real, real)
        add(m, f"norm4d{suffix}", f"return norm4d{suffix}(a, b, c, a);", real, real)
        add(m, f"rnorm4d{suffix}", f"return rnorm4d{suffix}(a, b, c, a);", real, real)
        add(m, f"norm{suffix}_5", f"{real} v[5] = {{a, b, c, b, a}}; return norm{suffix}(5, v);", real, real)
        add(m, f"rnorm{suffix}_5", f"{real} v[5] = {{a, b, c, b, a}}; return rnorm{suffix}(5, v);", real, real)
        add(m, f"sincos{suffix}", f"{real} s, d; sincos{suffix}(a, &s, &d); return s + 3 * d;", real, real)
        add(m, f"sincospi{suffix}", f"{real} s, d; sincospi{suffix}(a, &s, &d); return s + 3 * d;", real, real)
        add(m, f"divide_{real}", "return a / b;", real, real)
        add(m, f"compare_{real}", "return (a < b) + 2 * (a <= b) + 4 * (a == b) + 8 * (a != b) + 16 * !(a < b);", real, "int")
    for mode in ROUNDINGS:
        for target, result in (("int", "int"), ("uint", "unsigned"), ("ll", "long long"), ("ull", "unsigned long long")):
            add("convert", f"__float2{target}_{mode}", f"return __float2{target}_{mode}(a);", "float", result)
            add("convert", f"__double2{target}_{mode}", f"return __double2{target}_{mode}(a);", "double", result)
            add("convert", f"__{target}2float_{mode}", f"return __{target}2float_{mode}(a);", result, "float")
            if target in ("ll", "ull") :
                add("convert", f"__{target}2double_{mode}", f"return __{target}2double_{mode}(a);", result, "double")
        add("convert", f"__double2float_{mode}", f"return __double2float_{mode}(a);", "double", "float")
    for wide, narrow in (("float", "half"), ("double", "half")):
        add("convert", f"{wide}_to_{narrow}", "return __%s2half(a);" % wide, wide, "__half")
    add("convert", "double_to_bf16", "return __double2bfloat16(a);", "double", "__nv_bfloat16")
    for mode in ROUNDINGS:
        add("convert", f"__float2half_{mode}", f"return __float2half_{mode}(a);", "float", "__half")
        add("convert", f"__float2bfloat16_{mode}", f"return __float2bfloat16_{mode}(a);", "float", "__nv_bfloat16")
        for target, result in words2("int int,uint unsigned,short short,ushort unsigned short,ll long long,ull unsigned long long"):
            add("convert", f"__half2{target}_{mode}", f"return __half2{target}_{mode}(a);", "__half", result)
            add("convert", f"__{target}2half_{mode}", f"return __{target}2half_{mode}(a);", result, "__half")
            add("convert", f"__bfloat162{target}_{mode}", f"return __bfloat162{target}_{mode}(a);", "__nv_bfloat16", result)
            add("convert", f"__{target}2bfloat16_{mode}", f"return __{target}2bfloat16_{mode}(a);", result, "__nv_bfloat16")
    for name in words("__brev __clz __ffs __popc __brevll __clzll __ffsll __popcll"):
        element = "long long" if name.endswith("ll") else "int"
        add("integer", name, f"return {name}(a);", element, element)
    for name in words("__mulhi __mul24 __hadd __rhadd"):
        add("integer", name, f"return {name}(a, b);", "int", "int")
    for name in words("__umulhi __umul24 __uhadd __urhadd"):
        add("integer", name, f"return {name}(a, b);", "unsigned", "unsigned")
    add("integer", "__mul64hi", "return __mul64hi(a, b);", "long long", "long long")
    add("integer", "__umul64hi", "return __umul64hi(a, b);", "unsigned long long", "unsigned long long")
    for name in words("__sad __dp4a __dp2a_lo __dp2a_hi"):
        if name.startswith("__dp2a"):
            add("integer", name, f"short2 s = make_short2(a, a >> 16); char4 t = make_char4(b, b >> 8, b >> 16, b >> 24); return {name}(s, t, c);", "int", "int")
        else:
            add("integer", name, f"return {name}(a, b, c);", "int", "int")
    for name in words("__byte_perm __funnelshift_l __funnelshift_lc __funnelshift_r __funnelshift_rc __usad"):
        add("integer", name, f"return {name}(a, b, c);", "unsigned", "unsigned")
    for kind in ("int", "unsigned", "long long", "unsigned long long", "short", "unsigned char"):
        label = kind.replace(" ", "_")
        add("integer", f"divide_{label}", "return b ? a / b : a;", kind, kind)
        add("integer", f"remainder_{label}", "return b ? a % b : a;", kind, kind)
        add("integer", f"divide_{label}_by_constants", "return a / 7 + a % 100 + a / 3 * (a % 11);", kind, kind)
    for count in "24":
        for name in words("abs neg absss negss"):
            add("simd", f"__v{name}{count}", f"return __v{name}{count}(a);", "unsigned", "unsigned")
        names = "add addss addus absdiffs absdiffu avgs avgu cmpeq cmpges cmpgeu cmpgts cmpgtu cmples cmpleu cmplts cmpltu cmpne"
        names += " haddu maxs maxu mins minu sads sadu seteq setges setgeu setgts setgtu setles setleu setlts setltu setne sub subss subus"
        for name in words(names):
            add("simd", f"__v{name}{count}", f"return __v{name}{count}(a, b);", "unsigned", "unsigned")
    return out


def words2(text):
    """`a long x,b y` as pairs: the first word of each part and the rest."""
    return [tuple(part.split(" ", 1)) for part in text.split(",")]


#: Element type in CUDA -> (bytes, kind of inputs).
TYPES = {
    "float": (4, "f32"),
    "double": (8, "f64"),
    "__half": (2, "f16"),
    "__nv_bfloat16": (2, "bf16"),
    "__half2": (4, "f16x2"),
    "__nv_bfloat162": (4, "bf16x2"),
    "int": (4, "int"),
    "unsigned": (4, "int"),
    "short": (2, "int"),
    "unsigned short": (2, "int"),
    "unsigned char": (1, "int"),
    "long long": (8, "int"),
    "unsigned long long": (8, "int"),
}


def modules():
    """All kernels: module -> list of (name, body, element type, result type)."""

    def plain(names, element, arity):
        arguments = ", ".join("abc"[:arity])
        return [(name, f"return {name}({arguments});", element, element) for name in names]

    out = {
        "float_functions": plain(FLOAT_1, "float", 1) + plain(FLOAT_2, "float", 2) + plain(FLOAT_3, "float", 3),
        "double_functions": plain(DOUBLE_1, "double", 1) + plain(DOUBLE_2, "double", 2) + plain(DOUBLE_3, "double", 3),
    }
    for label, element, pair in (("half", "__half", "__half2"), ("bfloat16", "__nv_bfloat16", "__nv_bfloat162")):
        out[f"{label}_functions"] = plain(HALF_1, element, 1) + plain(HALF_2, element, 2) + plain(HALF_3, element, 3)
        out[f"{label}_functions"] += [(name, f"return {name}(a, b) ? 1 : 0;", element, "int") for name in HALF_COMPARE]
        out[f"{label}2_functions"] = plain(HALF2_1, pair, 1) + plain(HALF2_2, pair, 2) + plain(HALF2_3, pair, 3)
    out.update(odd_shapes())
    return out


def source(kernels):
    """CUDA text: a kernel for each function."""
    lines = ["#include <cuda_bf16.h>", "#include <cuda_fp16.h>", ""]
    for index, (name, body, element, result) in enumerate(kernels):
        lines.append(f"static __device__ __forceinline__ {result} f{index}({element} a, {element} b, {element} c) {{ {body} }}")
        lines.append(
            f'extern "C" __global__ void {kernel_name(name)}(const {element} *a, const {element} *b, const {element} *c, {result} *y, int n) '
            "{ int i = blockIdx.x * blockDim.x + threadIdx.x; "
            f"if (i < n) y[i] = f{index}(a[i], b[i], c[i]); }}"
        )
    return "\n".join(lines) + "\n"


def kernel_name(name):
    return ("intrinsic_" if name.startswith("__") else "test_") + name.strip("_")


def specials(kind, size):
    """The bit patterns that decide: zeros, subnormals, ones, halves, the largest, infinities, NaNs, edges of integer ranges."""
    if kind == "int":
        bits = 8 * size
        values = [0, 1, 2, 3, 5, 7, 10, 16, 31, 32, 33, 63, 64, 100, 127, 128, 255, 256, 0x7FFF, 0x8000, 0xFFFF, 0x10000]
        values += [1 << (bits - 1), (1 << (bits - 1)) - 1, (1 << bits) - 1, (1 << bits) - 2, (1 << bits) - 7, (1 << (bits // 2)) + 1]
        return [value % (1 << bits) for value in values]
    exponent, mantissa = {"f32": (8, 23), "f64": (11, 52), "f16": (5, 10), "bf16": (8, 7)}[kind]
    bias, top = (1 << (exponent - 1)) - 1, (1 << exponent) - 1
    make = lambda e, m: (e << mantissa) | m
    full = (1 << mantissa) - 1
    positive = [0, 1, full, make(1, 0), make(1, 1), make(bias, 0), make(bias, 1), make(bias - 1, full), make(bias - 1, 0), make(bias - 2, 0)]
    positive += [make(bias, full >> 1), make(bias + 1, 0), make(bias + 1, 1 << (mantissa - 1)), make(bias + 3, 1 << (mantissa - 2))]
    positive += [make(bias + mantissa, 0), make(bias + mantissa, 1), make(bias - mantissa - 1, 0), make(top - 1, full), make(top, 0)]
    positive += [make(top, 1 << (mantissa - 1)), make(top, 1)]
    sign = 1 << (exponent + mantissa)
    return positive + [value | sign for value in positive]


def inputs(kind, size, lanes, rng):
    """Three columns of bit patterns: tuples of special values, then random bits, then numbers of ordinary size."""
    if kind.endswith("x2"):
        low, high = inputs(kind[:-2], 2, lanes, rng), inputs(kind[:-2], 2, lanes, random.Random(9))
        return [[a | b << 16 for a, b in zip(x, reversed(y))] for x, y in zip(low, high)]
    values = specials(kind, size)
    rows = [(a, b, values[(i * 7 + j * 3) % len(values)]) for i, a in enumerate(values) for j, b in enumerate(values)]
    if len(rows) > lanes // 2:
        rows = rng.sample(rows, lanes // 2)
    while len(rows) < lanes:
        if kind == "int" or len(rows) % 2:
            rows.append(tuple(rng.getrandbits(8 * size) for _ in range(3)))
        else:
            rows.append(tuple(ordinary(kind, rng) for _ in range(3)))
    return [list(column) for column in zip(*rows)]


def ordinary(kind, rng):
    value = rng.choice([1, -1]) * 2 ** rng.uniform(-8, 8)
    if kind == "f64":
        return struct.unpack("<Q", struct.pack("<d", value))[0]
    if kind == "f16":
        return struct.unpack("<H", struct.pack("<e", value))[0]
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    return bits >> 16 if kind == "bf16" else bits


def make(arguments):
    folder = Path(arguments.folder)
    folder.mkdir(parents=True, exist_ok=True)
    nvcc = os.environ.get("NVCC") or shutil.which("nvcc")
    if not nvcc:
        sys.exit("no nvcc: name it in NVCC")
    tests, files = [], {}
    for element, (size, kind) in TYPES.items():
        columns = inputs(kind, size, arguments.lanes, random.Random(f"{kind}{size}"))
        files[element] = []
        for column, values in zip("abc", columns):
            name = f"{kind}-{size}-{column}.bin"
            (folder / name).write_bytes(b"".join(value.to_bytes(size, "little") for value in values))
            files[element].append({"file": name})
    jobs = []
    for module, kernels in modules().items():
        (folder / f"{module}.cu").write_text(source(kernels))
        jobs.append([f"{module}.cu"])
        for name, _, element, result in kernels:
            tests.append(
                {
                    "name": f"{module}.{name}",
                    "ptx": f"{module}.ptx",
                    "kernel": kernel_name(name),
                    "grid": [-(-arguments.lanes // 128), 1, 1],
                    "block": [128, 1, 1],
                    "smem": 0,
                    **({"nan": "f64"} if result == "double" else {"esize": TYPES[result][0]}),
                    "args": files[element] + [{"poison": arguments.lanes * TYPES[result][0]}, {"i32": arguments.lanes}],
                }
            )
    shutil.copy(CUB, folder / CUB.name)
    jobs.append([CUB.name])
    tests += cub_tests(CUB.read_text())

    def compile_one(words):
        include = Path(nvcc).resolve().parent.parent / "include" / "cccl"
        command = [nvcc, "-ptx", "-arch=sm_90a", "-std=c++17", "-fmad=false", f"-I{include}", *words, "-o", words[0][:-3] + ".ptx"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            print(f"{words[0]}: {done.stderr[:2000]}")
        return done.returncode

    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        failed = sum(map(bool, pool.map(compile_one, jobs)))
    manifest = "{\"tests\":[\n" + ",\n".join(json.dumps(test) for test in tests) + "\n]}\n"
    (folder / "manifest.json").write_text(manifest)
    print(f"{len(jobs) - failed} of {len(jobs)} modules, {len(tests)} kernels")
    return 1 if failed else 0


def cub_tests(text):
    """The launches that stand in the comments of the CUDA file, a line of JSON after `// launch:`."""
    tests = []
    for line in re.findall(r"^// launch: (.*)$", text, re.M):
        test = json.loads(line)
        tests.append({"name": f"cub.{test['kernel']}", "ptx": CUB.with_suffix(".ptx").name, "smem": 0, **test})
    return tests


def pieces(text):
    """The module's text without kernels, and each kernel's text by name. Braces nest; strings and comments hold none in nvcc's PTX."""
    rest, kernels, at = [], {}, 0
    for found in re.finditer(r"^(?:\.visible |\.weak )?\.entry (\w+)\(", text, re.M):
        rest.append(text[at : found.start()])
        depth, end = 0, text.index("{", found.end())
        while True:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
            if depth == 0:
                break
        kernels[found.group(1)] = text[found.start() : end]
        at = end
    return "".join(rest + [text[at:]]), kernels


def split(arguments):
    """Assembles one kernel at a time and lists what is refused."""
    folder = Path(arguments.folder)
    scratch = folder / "split"
    scratch.mkdir(exist_ok=True)
    bad = total = 0

    def one(job):
        stem, name, text = job
        ptx, cubin = scratch / f"{stem}.{name}.ptx", scratch / f"{stem}.{name}.cubin"
        ptx.write_text(text)
        done = subprocess.run([*arguments.assembler, str(ptx), "-o", str(cubin)], capture_output=True, text=True)
        cubin.unlink(missing_ok=True)
        if done.returncode == 0:
            ptx.unlink()
        return f"{stem}.{name}", done.returncode, done.stderr.strip().splitlines()

    jobs = []
    for ptx in sorted(folder.glob("*.ptx")):
        rest, kernels = pieces(ptx.read_text())
        jobs += [(ptx.stem, name, rest + kernel) for name, kernel in kernels.items()]
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for name, code, lines in pool.map(one, jobs):
            total += 1
            if code:
                bad += 1
                print(f"{name}: {lines[0] if lines else f'exit code {code}'}")
    print(f"{total - bad} of {total} kernels assembled")
    return 1 if bad else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, function in (("make", make), ("split", split)):
        p = commands.add_parser(name)
        p.set_defaults(function=function)
        p.add_argument("folder")
        p.add_argument("--jobs", type=int, default=os.cpu_count())
        if name == "make":
            p.add_argument("--lanes", type=int, default=4096)
        else:
            p.add_argument("assembler", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    return arguments.function(arguments)


if __name__ == "__main__":
    sys.exit(main())
