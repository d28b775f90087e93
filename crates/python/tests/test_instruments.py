"""Disassembler, assembler, judge, scheduler and timeline."""

import subprocess

import pytest
from conftest import SAXPY, SHARED, TWO, big

import orias
from orias.instruments import instructions


def test_the_listing_is_that_of_the_command(command, tmp_path, saxpy):
    path = tmp_path / "k.cubin"
    saxpy.save(path)
    for control in (False, True):
        # Under the name ptxas there are no subcommands.
        words = ["orias", "disasm", path] + ["--control"] * control
        said = subprocess.run(words, executable=command, capture_output=True, text=True, check=True)
        assert orias.disassemble(saxpy, control=control) == said.stdout


def test_the_listing_has_the_code(saxpy):
    text = saxpy.disassemble()
    assert "FFMA" in text and "EXIT" in text and ".text.saxpy" in text


def test_instructions_are_data(saxpy):
    listing = instructions(saxpy)
    assert listing["target"] == "sm_90a"
    (function,) = listing["functions"]
    assert function["name"] == "saxpy" and function["kernel"]
    fma = next(line for line in function["instructions"] if line["operation"] == "FFMA")
    # The factor comes from constant memory.
    assert len(fma["writes"]) == 1 and len(fma["reads"]) == 2


def test_a_listing_assembles_to_the_same_code(saxpy):
    again = orias.assemble(orias.disassemble(saxpy, control=True))
    words = lambda cubin: [line["word"] for line in instructions(cubin)["functions"][0]["instructions"]]
    assert words(again) == words(saxpy)


def test_a_wrong_listing_says_where():
    with pytest.raises(orias.AssembleError) as caught:
        orias.assemble("\t.target\tsm_90a\n\tNONSENSE R1, R2 ;\n")
    assert caught.value.line == 2
    with pytest.raises(orias.CubinError):
        orias.assemble("", arch="sm_1")


@pytest.mark.parametrize("ptx", [SAXPY, TWO, SHARED, big(300)], ids=["saxpy", "two", "shared", "big"])
@pytest.mark.parametrize("level", [0, 3])
def test_the_judge_finds_nothing(ptx, level):
    verdict = orias.verify(orias.compile(ptx, opt_level=level))
    assert verdict and not verdict.findings, str(verdict)
    assert verdict.functions >= 1 and verdict.instructions > 0


def test_the_judge_finds_a_value_that_is_read_too_early(saxpy):
    # All waits for loads gone: the product reads what is not there yet.
    listing = orias.disassemble(saxpy, control=True)
    hasty = []
    for line in listing.splitlines():
        if "FFMA" in line and "[B" in line:
            at = line.index("[B") + 2
            line = line[:at] + "-" * 6 + line[at + 6 :]
        hasty.append(line)
    verdict = orias.verify(orias.assemble("\n".join(hasty) + "\n"))
    assert not verdict
    finding = verdict.findings[0]
    assert finding.function == "saxpy" and "FFMA" in finding.instruction
    assert finding.earlier is not None and str(finding) in str(verdict)


def test_rescheduling_keeps_the_meaning_and_the_judge_content():
    cubin = orias.compile(SHARED)
    for shuffle in (None, 1, 2, 3):
        again = orias.reschedule(cubin, shuffle=shuffle)
        assert orias.verify(again.cubin)
        data = bytearray(range(128))
        orias.run(again.cubin, data, block=32)
        assert data == b"".join(bytes(range(4 * i, 4 * i + 4)) for i in reversed(range(32)))


def test_rescheduling_says_what_it_gains():
    done = orias.reschedule(orias.compile(big(100)), shuffle=7)
    before, after = done.cycles["big"]
    assert before > 0 and after > 0
    assert "big" in done.report


def test_control_words_alone(saxpy):
    done = orias.reschedule(saxpy, control_only=True)
    assert orias.verify(done.cubin)
    names = lambda cubin: [line["operation"] for line in instructions(cubin)["functions"][0]["instructions"]]
    assert names(done.cubin) == names(saxpy)
    with pytest.raises(ValueError):
        orias.reschedule(saxpy, control_only=True, shuffle=1)


def test_a_shuffle_is_the_same_for_the_same_number():
    cubin = orias.compile(big(100))
    assert orias.reschedule(cubin, shuffle=5).cubin == orias.reschedule(cubin, shuffle=5).cubin


def test_a_wrong_knob_of_the_scheduler(saxpy):
    with pytest.raises(orias.CubinError, match="NoSuchKnob"):
        orias.reschedule(saxpy, knobs={"NoSuchKnob": 1})


def test_the_timeline_has_every_instruction(saxpy):
    told = orias.timeline(saxpy)
    (function,) = told.functions
    lines = [line for block in function["blocks"] for line in block["lines"]]
    assert any("FFMA" in line["text"] for line in lines)
    for block in function["blocks"]:
        issues = [line["issue"] for line in block["lines"]]
        assert issues == sorted(issues)
    assert told.cycles == sum(block["cycles"] for block in function["blocks"])


def test_the_timeline_blames_the_load(saxpy):
    (function,) = orias.timeline(saxpy).functions
    waits = [line for block in function["blocks"] for line in block["lines"] if line["idle"] > 0]
    assert waits and all(line["cause"] for line in waits)


def test_the_timeline_as_text_and_as_a_page(saxpy):
    told = saxpy.timeline()
    assert str(told) == told.text and "longest chain" in told.text
    assert told.html.startswith("<!DOCTYPE html>")
    assert "srcdoc" in told._repr_html_() and "<!DOCTYPE" not in told._repr_html_()
    assert "cycles" in repr(told)
