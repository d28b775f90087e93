"""`orias.compile`: what it takes, what it makes, and that it is what the command makes."""

import pathlib
import pickle
import subprocess

import pytest
from conftest import BAD, HEAD, PARAMETERS, SAXPY, SHARED, TWO, big, wide

import orias


def by_command(command, tmp_path, ptx, *options):
    source, output = tmp_path / "in.ptx", tmp_path / "out.cubin"
    source.write_text(ptx)
    subprocess.run([command, "-arch=sm_90a", *options, source, "-o", output], check=True, capture_output=True)
    return output.read_bytes()


def test_a_cubin_is_an_elf_file(saxpy):
    assert bytes(saxpy).startswith(b"\x7fELF")
    assert len(saxpy) == len(bytes(saxpy)) == len(saxpy.data)


@pytest.mark.parametrize("ptx", [SAXPY, TWO, SHARED, PARAMETERS], ids=["saxpy", "two", "shared", "parameters"])
@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_the_cubin_is_that_of_the_command_to_the_byte(command, tmp_path, ptx, level):
    assert bytes(orias.compile(ptx, opt_level=level)) == by_command(command, tmp_path, ptx, f"-O{level}")


def test_levels_make_different_code():
    assert orias.compile(SAXPY, opt_level=0) != orias.compile(SAXPY, opt_level=3)


def test_text_bytes_and_files_are_the_same(tmp_path):
    path = tmp_path / "saxpy.ptx"
    path.write_text(SAXPY)
    expected = orias.compile(SAXPY)
    for form in (SAXPY.encode(), bytearray(SAXPY, "ascii"), memoryview(SAXPY.encode()), path):
        assert orias.compile(form) == expected


def test_the_target_is_chosen_by_arch():
    plain = SAXPY.replace("sm_90a", "sm_90")
    assert orias.compile(plain, arch="sm_90").arch == "sm_90"
    assert orias.compile(plain, arch="sm_90a").arch == "sm_90a"


def test_a_module_for_one_chip_is_refused_for_another():
    with pytest.raises(orias.PtxError):
        orias.compile(SAXPY, arch="sm_90")


@pytest.mark.parametrize("arch", ["sm_1", "", "90", "sm_90aa", "\0", "sm_90a\n"])
def test_what_is_no_target_is_refused(arch):
    with pytest.raises(orias.CompileError):
        orias.compile(SAXPY, arch=arch)


def test_a_virtual_target_has_no_code():
    with pytest.raises(orias.PtxError, match="virtual"):
        orias.compile(SAXPY, arch="compute_90a")


def test_kernels_say_what_they_use(saxpy):
    (kernel,) = saxpy.kernels
    assert kernel.name == "saxpy"
    assert 4 <= kernel.registers <= 32
    assert (kernel.shared, kernel.stack, kernel.spills, kernel.barriers) == (0, 0, 0, 0)
    assert kernel.parameters == (4, 8, 8, 4)
    assert kernel.instructions > 10
    assert kernel.seconds > 0


def test_shared_memory_and_barriers_are_counted():
    kernel = orias.compile(SHARED)["reverse"]
    assert (kernel.shared, kernel.barriers) == (128, 1)


def test_spills_are_counted():
    kernel = orias.compile(wide(200), max_registers=64)["wide"]
    assert kernel.registers <= 64
    assert kernel.spill_stores > 0 and kernel.spill_loads > 0
    assert kernel.spills == kernel.spill_stores + kernel.spill_loads
    assert kernel.stack >= kernel.spill_stores


def test_without_a_limit_nothing_is_spilled():
    assert orias.compile(wide(200))["wide"].spills == 0


def test_usage_is_what_v_reports(command, tmp_path):
    source = tmp_path / "in.ptx"
    source.write_text(wide(200))
    said = subprocess.run(
        [command, "-arch=sm_90a", "-v", "-maxrregcount=64", source, "-o", tmp_path / "out"], capture_output=True, text=True
    ).stderr
    kernel = orias.compile(wide(200), max_registers=64)["wide"]
    assert f"Used {kernel.registers} registers" in said
    assert f"{kernel.spill_stores} bytes spill stores, {kernel.spill_loads} bytes spill loads" in said


def test_a_kernel_that_is_not_there(saxpy):
    with pytest.raises(KeyError):
        saxpy["nothing"]


def test_a_cubin_from_bytes_knows_all_but_spills(saxpy):
    again = orias.Cubin(bytes(saxpy))
    assert again == saxpy and hash(again) == hash(saxpy)
    assert again.arch == "sm_90a"
    assert again["saxpy"].registers == saxpy["saxpy"].registers
    assert again["saxpy"].spills is None
    shared = orias.compile(SHARED)
    for kernel, known in zip(orias.Cubin(bytes(shared)).kernels, shared.kernels):
        assert (kernel.shared, kernel.barriers, kernel.stack) == (known.shared, known.barriers, known.stack)


def test_a_cubin_can_be_pickled(saxpy):
    again = pickle.loads(pickle.dumps(saxpy))
    assert again == saxpy and again.kernels == saxpy.kernels and again.arch == saxpy.arch


def test_a_cubin_can_be_saved(saxpy, tmp_path):
    saxpy.save(tmp_path / "k.cubin")
    assert (tmp_path / "k.cubin").read_bytes() == bytes(saxpy)


def test_a_cubin_tells_what_it_is(saxpy):
    assert repr(saxpy) == f"<Cubin for sm_90a, {len(saxpy)} bytes: saxpy>"
    assert saxpy != object()


def test_the_notebook_shows_kernels_and_schedule(saxpy):
    html = saxpy._repr_html_()
    assert "<td>saxpy</td>" in html and "<iframe" in html
    assert html.count("<tr>") == html.count("</tr>")


def test_entries_choose_kernels():
    assert [kernel.name for kernel in orias.compile(TWO, entries=["two"]).kernels] == ["two"]
    with pytest.raises(orias.PtxError):
        orias.compile(TWO, entries=["three"])


def test_several_modules_become_one_cubin():
    second = TWO.replace("entry one", "entry three").replace("entry two", "entry four")
    names = {kernel.name for kernel in orias.compile([TWO, second]).kernels}
    assert names == {"one", "two", "three", "four"}


def test_threads_do_not_change_the_cubin():
    many = HEAD + "".join(TWO[len(HEAD) :].replace("entry ", f"entry k{i}_") for i in range(8))
    expected = orias.compile(many, threads=1)
    for threads in (0, 2, 5):
        assert orias.compile(many, threads=threads) == expected


def test_line_info_adds_a_table(saxpy):
    assert len(orias.compile(SAXPY, line_info=True)) > len(saxpy)


def test_options_are_those_of_the_command(command, tmp_path):
    ptx = big(8).replace("fma.rn.f32 %f1, %f4, %f0, %f6;", "mul.f32 %f1, %f4, %f0;\nadd.f32 %f1, %f1, %f6;")
    for option in ("--fmad=false", "-O1", "--maxrregcount=24"):
        assert bytes(orias.compile(ptx, options=[option])) == by_command(command, tmp_path, ptx, option)


@pytest.mark.parametrize("option", ["--nonsense", "-o", "--opt-level=x", "--maxrregcount=many", "\udcff", "--help", "--version"])
def test_wrong_options_are_refused(option):
    with pytest.raises((orias.CompileError, UnicodeEncodeError)):
        orias.compile(SAXPY, options=[option])


def test_options_are_not_one_text():
    with pytest.raises(TypeError):
        orias.compile(SAXPY, options="--fmad=false")


@pytest.mark.parametrize("level", [-1, 4, 99])
def test_a_level_that_is_none(level):
    try:
        orias.compile(SAXPY, opt_level=level)
    except orias.CompileError as error:
        assert error.messages


def test_knobs_are_set_and_checked(saxpy):
    assert orias.compile(SAXPY, knobs={}) == saxpy
    with pytest.raises(orias.PtxError, match="NoSuchKnob"):
        orias.compile(SAXPY, knobs={"NoSuchKnob": True})


def test_what_is_no_ptx_at_all():
    with pytest.raises(TypeError):
        orias.compile(7)
    with pytest.raises(FileNotFoundError):
        orias.compile(pathlib.Path("does-not-exist.ptx"))


def test_warnings_are_messages():
    cubin = orias.compile(wide(200), max_registers=64, options=["--warn-on-spills"])
    (warning,) = [message for message in cubin.messages if message.severity == "warning"]
    assert "spilled" in warning.message and not warning.is_error


def test_warnings_can_be_errors():
    with pytest.raises(orias.PtxError, match="spilled"):
        orias.compile(wide(200), max_registers=64, options=["--warn-on-spills", "--warning-as-error"])


def test_memory_is_measured():
    small, large = orias.compile(TWO), orias.compile(big(20_000))
    assert 0 < small.peak_memory < large.peak_memory


def test_the_version_is_that_of_the_command(command):
    said = subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout
    assert f"Orias {orias.__version__}," in said
    assert f"V{orias.PTXAS_VERSION}" in said


def test_a_bad_module_beside_a_good_one():
    with pytest.raises(orias.PtxError):
        orias.compile([TWO, BAD])
