"""Errors: their types, where they point, and that hostile input gives one."""

import pickle
import random

import pytest
from conftest import BAD, HEAD, SAXPY

import orias


def test_an_error_has_line_column_and_text():
    with pytest.raises(orias.PtxError) as caught:
        orias.compile(BAD, name="bad.ptx")
    error = caught.value
    line = BAD.splitlines()[error.line - 1]
    assert "%r9" in line
    assert line[error.column - 1 :].startswith("%r9")
    assert error.file == "bad.ptx"
    assert str(error).startswith(f"ptxas bad.ptx, line {error.line}; error")


def test_a_module_without_a_name_is_called_as_ptxas_calls_it():
    with pytest.raises(orias.PtxError) as caught:
        orias.compile(BAD)
    assert caught.value.file == "application ptx input"


def test_a_file_is_called_by_its_path(tmp_path):
    path = tmp_path / "k.ptx"
    path.write_text(BAD)
    with pytest.raises(orias.PtxError) as caught:
        orias.compile(path)
    assert caught.value.file == str(path)


def test_all_errors_are_reported():
    twice = BAD.replace("    ret;", "    mov.u32 %r1, %r8;\n    ret;")
    with pytest.raises(orias.PtxError) as caught:
        orias.compile(twice)
    assert len([message for message in caught.value.messages if message.line]) == 2


def test_messages_have_their_parts():
    with pytest.raises(orias.PtxError) as caught:
        orias.compile(BAD)
    message = caught.value.messages[0]
    assert (message.severity, message.kind, message.is_error) == ("error", "input", True)
    assert message.text == str(message) and message.message in message.text


@pytest.mark.parametrize(
    ("error", "also"),
    [
        (orias.PtxError, ValueError),
        (orias.UnsupportedError, NotImplementedError),
        (orias.InternalError, RuntimeError),
        (orias.MemoryLimitError, MemoryError),
        (orias.CubinError, ValueError),
        (orias.RunError, RuntimeError),
        (orias.AssembleError, ValueError),
    ],
)
def test_errors_are_of_python_s_kinds_too(error, also):
    assert issubclass(error, orias.OriasError) and issubclass(error, also)


def test_what_is_missing_is_another_error_than_what_is_wrong():
    with pytest.raises(orias.UnsupportedError):
        orias.compile(SAXPY.replace("sm_90a", "sm_80").replace("8.0", "7.0"), arch="sm_80")


def test_a_version_from_the_future():
    with pytest.raises(orias.CompileError, match="version"):
        orias.compile(SAXPY.replace("8.0", "99.0"))


def test_an_error_can_be_pickled():
    with pytest.raises(orias.PtxError) as caught:
        orias.compile(BAD)
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is orias.PtxError and again.line == caught.value.line and str(again) == str(caught.value)


@pytest.mark.parametrize(
    "ptx",
    [
        "",
        "\0",
        "\0" * 1000,
        "ret;",
        ".version",
        "{" * 100_000,
        HEAD + ".entry k() { " + "{" * 50_000,
        HEAD + ".visible .entry k() { ret; ",
        HEAD + ".visible .entry k(" + ".param .u32 p," * 3000,
        HEAD + ".visible .entry k() { add.u32 " + "1+(" * 20_000 + ";}",
        HEAD + "/*",
        HEAD + '.visible .entry k() { .reg .b32 %r<4294967295>; ret; }',
        HEAD + ".global .b8 x[99999999999999999999];",
        "\u2028\ufeff" + HEAD,
        "%" * 10_000,
    ],
    ids=range(15),
)
def test_hostile_text_gives_an_error_or_a_cubin(ptx):
    try:
        assert bytes(orias.compile(ptx)).startswith(b"\x7fELF")
    except orias.CompileError as error:
        assert not isinstance(error, orias.InternalError), error


def test_bytes_that_are_no_text():
    for data in (b"\xff\xfe\x00", bytes(range(256)), SAXPY.encode().replace(b"saxpy", b"s\xff")):
        with pytest.raises(orias.CompileError):
            orias.compile(data)


@pytest.mark.parametrize("seed", range(8))
def test_damaged_text_gives_an_error_or_a_cubin(seed):
    numbers = random.Random(seed)
    for _ in range(25):
        text = bytearray(SAXPY.encode())
        for _ in range(numbers.randrange(1, 6)):
            at = numbers.randrange(len(text))
            kind = numbers.randrange(3)
            if kind == 0:
                text[at] = numbers.randrange(256)
            elif kind == 1:
                del text[at : at + numbers.randrange(1, 20)]
            else:
                text[at:at] = text[numbers.randrange(len(text)) :][:20]
        try:
            orias.compile(bytes(text))
        except orias.CompileError as error:
            assert not isinstance(error, orias.InternalError), error


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"\x7fELF" + b"\0" * 60, b"\x7fELF" + b"\xff" * 500, b"MZ"])
def test_what_is_no_cubin_is_refused_by_every_instrument(data):
    for instrument in (orias.Cubin, orias.disassemble, orias.verify, orias.reschedule, orias.timeline):
        with pytest.raises(orias.CubinError):
            instrument(data)


@pytest.mark.parametrize("seed", range(6))
def test_damaged_cubins_give_an_error_or_an_answer(seed, saxpy):
    numbers = random.Random(seed)
    for _ in range(20):
        data = bytearray(bytes(saxpy))
        for _ in range(numbers.randrange(1, 8)):
            data[numbers.randrange(len(data))] = numbers.randrange(256)
        for instrument in (orias.Cubin, orias.disassemble, orias.verify, orias.reschedule, orias.timeline):
            try:
                instrument(bytes(data))
            except orias.CubinError:
                pass


def test_instruments_want_cubins():
    for instrument in (orias.disassemble, orias.verify, orias.reschedule, orias.timeline):
        with pytest.raises(TypeError):
            instrument(7)
