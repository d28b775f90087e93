"""The command of the wheel, and the switches of clients."""

import os
import pathlib
import subprocess
import sys

import pytest
from conftest import BAD, SAXPY

import orias
import orias.jax
from orias import counting

pytestmark = pytest.mark.usefixtures("clean_environment")


def run_ptxas(path, source, folder, **keywords):
    (folder / "in.ptx").write_text(source)
    return subprocess.run([path, "-arch=sm_90a", folder / "in.ptx", "-o", folder / "out.cubin"], capture_output=True, text=True, **keywords)


def test_the_wheel_brings_its_command(command):
    assert os.access(command, os.X_OK)
    assert os.path.dirname(orias.__file__) in command


def test_the_command_by_its_script():
    script = pathlib.Path(sys.executable).with_name("orias")
    words = [script] if script.exists() else [sys.executable, "-m", "orias"]
    said = subprocess.run([*words, "help"], capture_output=True, text=True, check=True).stdout
    assert "Subcommands" in said


def test_the_command_by_its_module(tmp_path):
    said = subprocess.run([sys.executable, "-m", "orias", "knobs"], capture_output=True, text=True, check=True).stdout
    assert said


def test_exit_codes_come_through(tmp_path):
    done = subprocess.run([sys.executable, "-m", "orias", "knobs", "--nonsense"], capture_output=True)
    assert done.returncode == 2


def test_triton_s_variable_is_set_and_comes_back():
    with orias.triton.enable() as switch:
        assert os.environ["TRITON_PTXAS_PATH"] == orias.ptxas_path()
        assert os.environ["TRITON_PTXAS_BLACKWELL_PATH"] == orias.ptxas_path()
        assert switch.enabled and orias.triton.enabled()
    assert "TRITON_PTXAS_PATH" not in os.environ and "ORIAS_LOG" not in os.environ
    assert not switch.enabled and not orias.triton.enabled()


def test_what_was_set_before_comes_back(monkeypatch, fake_ptxas):
    monkeypatch.setenv("TRITON_PTXAS_PATH", fake_ptxas)
    orias.triton.enable()
    assert os.environ["TRITON_PTXAS_PATH"] != fake_ptxas
    orias.triton.disable()
    assert os.environ["TRITON_PTXAS_PATH"] == fake_ptxas
    orias.triton.disable()
    assert os.environ["TRITON_PTXAS_PATH"] == fake_ptxas


def test_switches_nest():
    with orias.triton.enable():
        with orias.torch.enable():
            assert "TORCHINDUCTOR_CACHE_DIR" in os.environ and orias.torch.enabled()
        assert "TORCHINDUCTOR_CACHE_DIR" not in os.environ
        assert orias.triton.enabled()


def test_compilations_are_counted_below_other_processes(tmp_path):
    with orias.triton.enable() as switch:
        assert run_ptxas(os.environ["TRITON_PTXAS_PATH"], SAXPY, tmp_path).returncode == 0
        assert run_ptxas(os.environ["TRITON_PTXAS_PATH"], BAD, tmp_path).returncode == 255
        # A process below a process.
        below = f"import subprocess, os; subprocess.run([os.environ['TRITON_PTXAS_PATH'], '-arch=sm_90a', {str(tmp_path / 'in.ptx')!r}, '-o', '/dev/null'])"
        (tmp_path / "in.ptx").write_text(SAXPY)
        subprocess.run([sys.executable, "-c", below], check=True)
        count = switch.count
        assert (count.orias, count.ptxas, count.failed, count.total) == (2, 0, 1, 3)
        assert orias.count().orias == 2
        assert any("line" in why for why in count.refusals)
        assert "2 compiled by Orias" in str(count)


def test_one_switch_does_not_count_what_was_before(tmp_path):
    with orias.triton.enable() as outer:
        run_ptxas(os.environ["TRITON_PTXAS_PATH"], SAXPY, tmp_path)
        with orias.triton.enable() as inner:
            run_ptxas(os.environ["TRITON_PTXAS_PATH"], SAXPY, tmp_path)
            assert inner.count.orias == 1
        assert outer.count.orias == 2


def test_without_a_fallback_nobody_else_is_asked(tmp_path, fake_ptxas):
    with orias.triton.enable() as switch:
        assert run_ptxas(os.environ["TRITON_PTXAS_PATH"], BAD, tmp_path).returncode == 255
        assert switch.count.ptxas == 0


def test_the_fallback_is_asked_where_orias_refuses(tmp_path, fake_ptxas):
    with orias.triton.enable(fallback=fake_ptxas) as switch:
        assert run_ptxas(os.environ["TRITON_PTXAS_PATH"], BAD, tmp_path).returncode == 0
        assert (tmp_path / "out.cubin").read_text() == "other\n"
        assert run_ptxas(os.environ["TRITON_PTXAS_PATH"], SAXPY, tmp_path).returncode == 0
        assert (tmp_path / "out.cubin").read_bytes().startswith(b"\x7fELF")
        assert (switch.count.orias, switch.count.ptxas) == (1, 1)


def test_the_release_is_that_of_the_fallback_unless_it_is_newer(fake_ptxas):
    version = lambda: subprocess.run([orias.ptxas_path(), "--version"], capture_output=True, text=True).stdout
    with orias.triton.enable(fallback=fake_ptxas):
        assert "release 12.8, V12.8.93" in version()
        newer = pathlib.Path(fake_ptxas)
        newer.write_text(newer.read_text().replace("12.8", "13.10"))
        with orias.triton.enable(fallback=fake_ptxas):
            assert "release 13.0" in version()
    assert "release 13.0" in version()


@pytest.mark.parametrize("wrong", ["/does/not/exist", "/bin/true"])
def test_a_fallback_that_is_none(wrong):
    before = dict(os.environ)
    with pytest.raises(orias.OriasError):
        orias.triton.enable(fallback=wrong)
    assert dict(os.environ) == before


def test_a_switch_tells_its_state(tmp_path):
    switch = orias.torch.enable()
    assert "on" in repr(switch)
    orias.torch.disable()
    assert "off" in repr(switch)
    switch.disable()


def test_a_log_that_is_not_there_counts_nothing(tmp_path):
    assert counting.read(tmp_path / "nothing").total == 0
    assert orias.count().total == 0


def test_torch_keeps_its_caches_apart():
    with orias.torch.enable() as switch:
        first = os.environ["TORCHINDUCTOR_CACHE_DIR"]
        assert os.environ["TRITON_CACHE_DIR"] != first
    with orias.torch.enable():
        assert os.environ["TORCHINDUCTOR_CACHE_DIR"] != first
    assert switch.client == "torch"


def test_jax_gets_a_toolkit(monkeypatch, tmp_path, fake_ptxas):
    (tmp_path / "cuda/bin").mkdir(parents=True)
    (tmp_path / "cuda/nvvm/libdevice").mkdir(parents=True)
    (tmp_path / "cuda/nvvm/libdevice/libdevice.10.bc").write_text("bitcode")
    (tmp_path / "cuda/bin/fatbinary").write_text("tool")
    (tmp_path / "cuda/bin/ptxas").write_text("another")
    before = f"--xla_dump_to=/tmp/x --xla_gpu_cuda_data_dir={tmp_path / 'cuda'}"
    monkeypatch.setenv("XLA_FLAGS", before)
    monkeypatch.delenv("CUDA_ROOT", raising=False)
    with orias.jax.enable():
        flags = os.environ["XLA_FLAGS"].split()
        assert flags[0] == "--xla_dump_to=/tmp/x"
        (folder,) = [flag.split("=")[1] for flag in flags if flag.startswith("--xla_gpu_cuda_data_dir=")]
        assert "--xla_gpu_enable_libnvptxcompiler=false" in flags
        assert "--xla_gpu_enable_libnvjitlink=false" in flags
        folder = pathlib.Path(folder)
        assert (folder / "nvvm/libdevice/libdevice.10.bc").read_text() == "bitcode"
        assert (folder / "bin/fatbinary").read_text() == "tool"
        assert os.path.realpath(folder / "bin/ptxas") == os.path.realpath(orias.ptxas_path())
        said = subprocess.run([folder / "bin/ptxas", "--version"], capture_output=True, text=True).stdout
        assert "Orias" in said
        # JAX hands this one over with each compilation, and it goes before the flags.
        assert os.environ["CUDA_ROOT"] == str(folder)
    assert os.environ["XLA_FLAGS"] == before
    assert "CUDA_ROOT" not in os.environ
    assert (tmp_path / "cuda/bin/ptxas").read_text() == "another"


def test_flags_that_xla_does_not_know_are_left_out(tmp_path):
    library = tmp_path / "xla.so"
    library.write_bytes(b"\0xla_gpu_cuda_data_dir\0xla_gpu_enable_libnvjitlink\0")
    assert orias.jax.known_flags([str(library)]) == ["xla_gpu_enable_libnvjitlink"]
    (tmp_path / "other.so").write_bytes(b"nothing of XLA's")
    assert len(orias.jax.known_flags([str(tmp_path / "other.so")])) == 2


def test_jax_that_runs_already_is_warned_about(monkeypatch):
    bridge = type(sys)("jax._src.xla_bridge")
    bridge._backends = {"cuda": object()}
    monkeypatch.setitem(sys.modules, "jax._src.xla_bridge", bridge)
    with pytest.warns(UserWarning, match="already"):
        with orias.jax.enable():
            pass


def test_a_jax_that_is_loaded_forgets_the_toolkit_it_found(monkeypatch):
    library = type(sys)("jax._src.lib")
    library.cuda_path = "/found/when/loaded"
    monkeypatch.setitem(sys.modules, "jax._src.lib", library)
    with orias.jax.enable():
        assert library.cuda_path == os.environ["CUDA_ROOT"] != "/found/when/loaded"
    assert library.cuda_path == "/found/when/loaded"


def test_types_are_there():
    folder = pathlib.Path(orias.__file__).parent
    assert (folder / "py.typed").exists() and (folder / "_orias.pyi").exists()


def test_everything_public_is_explained():
    for name in orias.__all__:
        value = getattr(orias, name)
        if not isinstance(value, str):
            assert value.__doc__, name
