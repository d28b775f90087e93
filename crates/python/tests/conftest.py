"""What the tests share: small modules of PTX, and a command that is there."""

from __future__ import annotations

import os
import pathlib

import pytest

import orias

HEAD = ".version 8.0\n.target sm_90a\n.address_size 64\n"

SAXPY = HEAD + """
.visible .entry saxpy(.param .f32 a, .param .u64 x, .param .u64 y, .param .u32 n)
{
    .reg .pred %p;
    .reg .b32 %r<5>;
    .reg .f32 %f<4>;
    .reg .b64 %rd<6>;
    ld.param.f32 %f1, [a];
    ld.param.u64 %rd1, [x];
    ld.param.u64 %rd2, [y];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.u32 %r4, %r2, %r3, %r4;
    setp.ge.u32 %p, %r4, %r1;
    @%p bra done;
    mul.wide.u32 %rd3, %r4, 4;
    add.u64 %rd4, %rd1, %rd3;
    add.u64 %rd5, %rd2, %rd3;
    ld.global.f32 %f2, [%rd4];
    ld.global.f32 %f3, [%rd5];
    fma.rn.f32 %f3, %f1, %f2, %f3;
    st.global.f32 [%rd5], %f3;
done:
    ret;
}
"""

#: Every type of parameter, copied to memory.
PARAMETERS = HEAD + """
.visible .entry copy(.param .u64 out, .param .u8 a, .param .s16 b, .param .u32 c, .param .s64 d, .param .f32 e, .param .f64 f,
                     .param .align 4 .b8 g[12])
{
    .reg .b16 %h<3>;
    .reg .b32 %r<5>;
    .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [out];
    ld.param.u8 %h1, [a];
    st.global.u8 [%rd1], %h1;
    ld.param.u16 %h2, [b];
    st.global.u16 [%rd1+2], %h2;
    ld.param.u32 %r1, [c];
    st.global.u32 [%rd1+4], %r1;
    ld.param.u64 %rd2, [d];
    st.global.u64 [%rd1+8], %rd2;
    ld.param.u32 %r2, [e];
    st.global.u32 [%rd1+16], %r2;
    ld.param.u64 %rd3, [f];
    st.global.u64 [%rd1+24], %rd3;
    ld.param.u32 %r3, [g+8];
    st.global.u32 [%rd1+32], %r3;
    ret;
}
"""

TWO = HEAD + "".join(
    f".visible .entry {name}(.param .u64 p) {{ .reg .b64 %rd<2>; ld.param.u64 %rd1, [p]; st.global.u32 [%rd1], {value}; ret; }}\n"
    for name, value in (("one", 1), ("two", 2))
)

SHARED = HEAD + """
.visible .entry reverse(.param .u64 p)
{
    .shared .align 4 .b8 s[128];
    .reg .b32 %r<6>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [p];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd1, %rd1, %rd2;
    ld.global.u32 %r2, [%rd1];
    mov.u32 %r3, s;
    shl.b32 %r4, %r1, 2;
    add.u32 %r5, %r3, %r4;
    st.shared.u32 [%r5], %r2;
    bar.sync 0;
    sub.u32 %r4, 124, %r4;
    add.u32 %r5, %r3, %r4;
    ld.shared.u32 %r2, [%r5];
    st.global.u32 [%rd1], %r2;
    ret;
}
"""

LOOP = HEAD + """
.visible .entry spin() { back: bra back; }
"""

BAD = HEAD + """
.visible .entry k()
{
    .reg .b32 %r<2>;
    mov.u32 %r1, %r9;
    ret;
}
"""


def wide(count: int) -> str:
    """A kernel that keeps `count` values alive at once."""
    lines = [f".reg .b32 %v<{count}>;", ".reg .b64 %rd<2>;", "ld.param.u64 %rd1, [p];"]
    lines += [f"ld.global.u32 %v{i}, [%rd1+{4 * i}];" for i in range(count)]
    lines += ["bar.sync 0;"]
    lines += [f"st.global.u32 [%rd1+{4 * i}], %v{count - 1 - i};" for i in range(count)]
    return HEAD + ".visible .entry wide(.param .u64 p)\n{\n" + "\n".join(lines) + "\nret;\n}\n"


def big(count: int) -> str:
    """A kernel of many instructions."""
    body = "".join(f"fma.rn.f32 %f{1 + i % 7}, %f{1 + (i + 3) % 7}, %f0, %f{1 + (i + 5) % 7};\n" for i in range(count))
    return (
        HEAD
        + ".visible .entry big(.param .u64 p) {\n.reg .f32 %f<8>;\n.reg .b64 %rd<2>;\nld.param.u64 %rd1, [p];\n"
        + "".join(f"ld.global.f32 %f{i}, [%rd1+{4 * i}];\n" for i in range(8))
        + body
        + "".join(f"st.global.f32 [%rd1+{4 * i}], %f{i};\n" for i in range(8))
        + "ret;\n}\n"
    )


@pytest.fixture
def saxpy() -> orias.Cubin:
    return orias.compile(SAXPY)


@pytest.fixture(scope="session")
def command() -> str:
    """The path of the command; the tests that need it fail where the wheel has none."""
    return orias.ptxas_path()


@pytest.fixture
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ORIAS_LOG", "ORIAS_FALLBACK", "ORIAS_RELEASE", "TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH", "XLA_FLAGS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def fake_ptxas(tmp_path: pathlib.Path) -> str:
    """A ptxas of release 12.8 that writes its output and nothing sensible into it."""
    path = tmp_path / "ptxas"
    path.write_text(
        "#!/bin/sh\n"
        '[ "$1" = --version ] && { echo "Cuda compilation tools, release 12.8, V12.8.93"; exit 0; }\n'
        'while [ $# -gt 0 ]; do [ "$1" = -o ] && out=$2; shift; done\n'
        'echo other > "$out"\n'
    )
    path.chmod(0o755)
    return os.fspath(path)
