"""`orias.run`: kernels on the CPU, on NumPy's arrays, in place."""

import array
import ctypes
import struct

import pytest
from conftest import HEAD, LOOP, PARAMETERS, SAXPY, SHARED, TWO

import orias

numpy = pytest.importorskip("numpy")


@pytest.fixture(params=["cubin", "ptx", "interpreter"])
def engine(request):
    """The ways to run: a cubin, PTX that is compiled, PTX by its definition."""
    kind = request.param

    def run(ptx, *arguments, **keywords):
        code = orias.compile(ptx) if kind == "cubin" else ptx
        return orias.run(code, *arguments, interpret=kind == "interpreter", **keywords)

    return run


@pytest.mark.parametrize("n", [1, 31, 32, 33, 100, 257])
def test_saxpy_is_what_numpy_computes(engine, n):
    numbers = numpy.random.default_rng(n)
    x, y = numbers.standard_normal((2, n), dtype="f4")
    expected = numpy.float32(2.5) * x + y
    x = x.copy()
    y = y.copy()
    engine(SAXPY, 2.5, x, y, n, grid=(n + 63) // 64, block=64)
    numpy.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


def test_arrays_change_in_place_and_others_do_not(engine):
    x, y = numpy.ones(8, "f4"), numpy.zeros(8, "f4")
    same = y
    engine(SAXPY, 3.0, x, y, 4, block=8)
    assert y.tolist() == [3, 3, 3, 3, 0, 0, 0, 0] and same is y
    assert x.tolist() == [1] * 8


def test_every_type_of_parameter(engine):
    out = bytearray(36)
    engine(PARAMETERS, out, 200, -2, 0xFFFFFFFF, -5, 1.5, -2.25, struct.pack("<3i", 1, 2, 3))
    assert out[0] == 200
    assert struct.unpack_from("<h", out, 2) == (-2,)
    assert struct.unpack_from("<I", out, 4) == (0xFFFFFFFF,)
    assert struct.unpack_from("<q", out, 8) == (-5,)
    assert struct.unpack_from("<f", out, 16) == (1.5,)
    assert struct.unpack_from("<d", out, 24) == (-2.25,)
    assert struct.unpack_from("<i", out, 32) == (3,)


def test_an_integer_becomes_what_the_parameter_is(engine):
    x, y = numpy.ones(4, "f4"), numpy.zeros(4, "f4")
    engine(SAXPY, 2, x, y, 4, block=4)
    assert y.tolist() == [2] * 4


def test_numbers_of_numpy_and_ctypes_are_their_bytes():
    bare = orias.Cubin(bytes(orias.compile(SAXPY)))
    for two, four in ((numpy.float32(2), numpy.uint32(4)), (ctypes.c_float(2), ctypes.c_uint32(4))):
        x, y = numpy.ones(4, "f4"), numpy.zeros(4, "f4")
        orias.run(bare, two, x, y, four, block=4)
        assert y.tolist() == [2] * 4


def test_a_float_for_a_cubin_of_another_compiler():
    bare = orias.Cubin(bytes(orias.compile(SAXPY)))
    x, y = numpy.ones(4, "f4"), numpy.zeros(4, "f4")
    orias.run(bare, 2.0, x, y, 4, block=4)
    assert y.tolist() == [2] * 4


@pytest.mark.parametrize("value", [1 << 32, -(1 << 31) - 1])
def test_a_number_that_does_not_fit(value):
    with pytest.raises(ValueError, match="does not fit"):
        orias.run(SAXPY, 1.0, bytearray(4), bytearray(4), value)


def test_a_float_where_an_integer_belongs():
    with pytest.raises(TypeError, match="u32"):
        orias.run(SAXPY, 1.0, bytearray(4), bytearray(4), 1.5)


def test_numbers_of_the_wrong_size():
    with pytest.raises(ValueError, match="8 bytes for a parameter of 4"):
        orias.run(SAXPY, 1.0, bytearray(4), bytearray(4), numpy.int64(1))


def test_anything_with_a_buffer_will_do(engine):
    for make in (bytearray, lambda data: array.array("B", data), lambda data: memoryview(bytearray(data))):
        data = make(bytes(range(128)))
        engine(SHARED, data, block=32)
        assert bytes(data)[:4] == bytes(range(124, 128))


def test_arrays_of_many_types_and_shapes():
    for dtype in ("u4", "i4", "f4"):
        data = numpy.arange(32).astype(dtype).reshape(4, 8)
        expected = data.reshape(-1)[::-1].reshape(4, 8).copy()
        orias.run(SHARED, data, block=32)
        assert (data == expected).all()


def test_strided_arrays_are_refused():
    with pytest.raises(ValueError, match="contiguous"):
        orias.run(SHARED, numpy.zeros((32, 2), "u4")[:, 0], block=32)


def test_a_kernel_may_not_write_to_what_may_not_be_written():
    frozen = numpy.arange(32, dtype="u4")
    frozen.flags.writeable = False
    with pytest.raises(orias.RunError, match="may not be written"):
        orias.run(SHARED, frozen, block=32)
    assert frozen[0] == 0


def test_reading_what_may_not_be_written_is_fine(engine):
    x = numpy.ones(4, "f4")
    x.flags.writeable = False
    y = numpy.zeros(4, "f4")
    engine(SAXPY, 1.0, x, y, 4, block=4)
    assert y.sum() == 4


def test_the_kernel_is_chosen_by_name(engine):
    for name, value in (("one", 1), ("two", 2)):
        out = numpy.zeros(1, "u4")
        engine(TWO, out, kernel=name)
        assert out[0] == value


def test_which_kernel(engine):
    with pytest.raises(ValueError, match="which kernel"):
        engine(TWO, bytearray(4))
    with pytest.raises(ValueError, match="no kernel is named 'three'"):
        engine(TWO, bytearray(4), kernel="three")


@pytest.mark.parametrize("count", [0, 1, 3, 5])
def test_the_number_of_arguments_is_checked(count):
    with pytest.raises(TypeError, match="takes 4 arguments"):
        orias.run(SAXPY, *[bytearray(4)] * count)


def test_what_is_no_argument():
    with pytest.raises(TypeError):
        orias.run(TWO, object(), kernel="one")
    with pytest.raises(TypeError):
        orias.run(TWO, "text", kernel="one")
    with pytest.raises(TypeError, match="an address has 8"):
        orias.run(SAXPY, bytearray(4), bytearray(4), bytearray(4), 1)


@pytest.mark.parametrize("wrong", [0, -1, (), (1, 2, 3, 4), (1, 0), 1 << 32, "1", (1.5,)])
def test_dimensions_are_checked(wrong):
    with pytest.raises((ValueError, TypeError)):
        orias.run(TWO, bytearray(4), kernel="one", grid=wrong)


def test_an_access_out_of_bounds_is_a_fault(engine):
    x, y = numpy.ones(4, "f4"), numpy.zeros(4, "f4")
    with pytest.raises(orias.RunError):
        engine(SAXPY, 1.0, x, y, 100_000, grid=1000, block=100)


def test_a_kernel_without_end_is_stopped(engine):
    with pytest.raises(orias.RunError):
        engine(LOOP, max_steps=1000)


def test_steps_are_counted(engine):
    few = engine(TWO, bytearray(4), kernel="one").steps
    many = engine(TWO, bytearray(4), kernel="one", block=64).steps
    assert 0 < few < many


def test_cycles_are_a_table():
    done = orias.run(SAXPY, 1.0, numpy.ones(4, "f4"), numpy.ones(4, "f4"), 4, block=4, cycles=True)
    assert "FFMA" in done.cycles
    assert orias.run(TWO, bytearray(4), kernel="one").cycles is None


@pytest.mark.parametrize("timing", ["off", "strict", "random:7"])
@pytest.mark.parametrize("schedule", ["in-order", "adversarial", "random:3"])
def test_timing_and_schedule_do_not_change_what_is_right(timing, schedule):
    data = numpy.arange(32, dtype="u4")
    done = orias.run(SHARED, data, block=32, timing=timing, schedule=schedule, check=True)
    assert data.tolist() == list(range(31, -1, -1))
    assert done.findings == ()


@pytest.mark.parametrize("keyword", [{"timing": "sometimes"}, {"schedule": "backwards"}])
def test_unknown_timings_and_schedules(keyword):
    with pytest.raises(orias.RunError):
        orias.run(TWO, bytearray(4), kernel="one", **keyword)


def test_a_race_is_found():
    two_warps = SHARED.replace("s[128]", "s[256]").replace("124", "252").replace("    bar.sync 0;\n", "")
    done = orias.run(two_warps, numpy.arange(64, dtype="u4"), block=64, check=True)
    assert done.findings and "without a barrier between" in " ".join(done.findings)


def test_the_interpreter_takes_no_cubin():
    with pytest.raises(orias.RunError, match="interpreter"):
        orias.run(orias.Cubin(bytes(orias.compile(TWO))), bytearray(4), kernel="one", interpret=True)


def test_ptx_that_is_wrong_is_not_run():
    with pytest.raises(orias.PtxError):
        orias.run(TWO.replace("st.global", "st.nowhere"), bytearray(4), kernel="one")


def test_printing():
    text = (
        HEAD
        + '.global .align 1 .b8 fmt[4] = {104, 105, 10, 0};\n'
        + ".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n"
        + ".visible .entry hello() {\n .reg .b64 %rd<4>; .reg .b32 %r<2>;\n"
        + " mov.u64 %rd1, fmt; cvta.global.u64 %rd2, %rd1;\n"
        + " { .param .b64 p0; .param .b64 p1; .param .b32 q;\n st.param.b64 [p0], %rd2; st.param.b64 [p1], 0;\n"
        + " call.uni (q), vprintf, (p0, p1); ld.param.b32 %r1, [q]; }\n ret;\n}\n"
    )
    assert orias.run(text, interpret=True).printed == "hi\n"


def test_a_tensor_of_torch():
    torch = pytest.importorskip("torch")
    x, y = torch.ones(4), torch.zeros(4)
    orias.run(SAXPY, 2.0, x, y, 4, block=4)
    assert y.tolist() == [2] * 4
