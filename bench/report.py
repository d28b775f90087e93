#!/usr/bin/env python3
"""What `all-on-gpu.sh` left in a folder of results, as tables: the page RESULTS.md, but for what a person has to say about it.

    report.py FOLDER [PROSE]    PROSE is a file whose text is put between the tables of times and the tables of single programs
"""

import json
import re
import statistics
import sys
from pathlib import Path

SLOW = 1.05

#: Steps whose last line counts results: what they compare, and the logs' names.
COUNTED = [
    ("small kernels of `kernels/` by `orias asm` against ptxas", ["kernels"]),
    (
        "launches of the CUDA corpora, our code at -O0 and at -O3 against ptxas; what is out of scope is refused",
        ["cuda-sm90a-orias-O0", "cuda-sm90a-orias", "cuda-second-sm90a-orias-O0", "cuda-second-sm90a-orias"],
    ),
    (
        "the same with ptxas's code: control words, new order, from a random order",
        [f"{corpus}-{mode}" for corpus in ("cuda-sm90a", "cuda-second-sm90a") for mode in ("control", "schedule", "shuffle")],
    ),
    (
        "recorded launches of Triton kernels: ours at -O3 and -O0, control words, new order, from a random order",
        ["recorded-orias", "recorded-orias-O0", "recorded-control", "recorded-schedule", "recorded-shuffle"],
    ),
    ("rare forms of instructions at -O3 and -O0 against ptxas", ["rare-orias", "rare-orias-O0"]),
    ("CUDA math functions and CUB primitives at -O3 and -O0 against ptxas", ["math-orias", "math-orias-O0"]),
]

#: Steps whose last lines are shown as they are.
QUOTED = [
    ("PTX forms at -O0 against `reference`", "forms-O0", r"orias-O0: "),
    ("PTX forms at -O3 against `reference`", "forms-O3", r"orias-O3: "),
    ("functions of one 32-bit operand and hard tuples for each other operation and rounding, against ptxas", "sweeps", r"orias-O\d: \d+ operations"),
    ("generated programs against the interpreter", "generated", r"orias-O\d equal"),
    ("Triton and torch.compile with Orias as `TRITON_PTXAS_PATH`", "in-place", r"orias, "),
    ("ten orders of each kernel, estimated and measured", "ranks", r"launches: mean rank"),
    ("cuda-gdb on code with line tables: what it shows of the source", "debugger", r"^-O\d, "),
    ("compile time over the modules of the PTX corpus in scope, one processor", "compile-time", r"modules \("),
]

NAMES = {
    "ptxas-again": "ptxas's code once more (noise)",
    "orias": "ours",
    "orias-unscheduled": "ours in the order of selection",
    "control": "ptxas's code, our control words",
    "schedule": "ptxas's code, our order",
    "shuffle": "ptxas's code, our order from a random one",
}


HOW_TO_READ = """A number means that all outputs of all runs equal ptxas's bit for bit. `orias` is our own code at the default level, `orias-unscheduled` the
same without ScheduleInstructions and PostSchedule, `control` ptxas's code with our control words, `schedule` ptxas's code in our order,
`shuffle` the same from a random legal order.
"""


def text_of(folder, name):
    """A step's log, wherever below the folder it is; nothing if the step did not run."""
    found = sorted(folder.rglob(f"{name}.txt"))
    return found[-1].read_text() if found else ""


def counted(log):
    """`192 of 192 equal`; launches without a cubin, because their module is out of scope, are left out of the count."""
    counts = re.findall(r"(\d+) equal, (\d+) up to the payload of NaNs, (\d+) not", log)
    if not counts:
        return "not finished"
    equal, payloads, others = map(int, counts[-1])
    others -= log.count("no cubin ")
    return f"{equal + payloads} of {equal + payloads + others} equal" + (f" ({payloads} of them up to the payload of NaNs)" if payloads else "")


def results(folder):
    print("| what | result |\n| --- | --- |")
    for what, names in COUNTED:
        logs = [text_of(folder, name) for name in names]
        if any(logs):
            print(f"| {what} | {', '.join(counted(log) for log in logs)} |")
    for what, name, pattern in QUOTED:
        lines = [line.strip() for line in text_of(folder, name).splitlines() if re.search(pattern, line)]
        if lines:
            print(f"| {what} | {'; '.join(lines[-3:])} |")
    checks = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text_of(folder, "sanitizer").splitlines()]
    for tool in ("memcheck", "synccheck", "initcheck", "racecheck"):
        mine = [row for row in checks if row[0] == tool]
        if mine:
            bad = [f"{row[1].rstrip('.')}: {row[3]} ({row[4]})" for row in mine if "SUMMARY: 0 " not in row[3]]
            print(f"| compute-sanitizer {tool}, our code of the corpus in scope and of CUB | {len(mine) - len(bad)} of {len(mine)} modules clean{'; ' + '; '.join(bad) if bad else ''} |")


def equal(answer):
    return not (answer.get("error") or answer.get("unstable") or answer.get("different"))


def load(folder, name):
    found = sorted(folder.rglob(f"{name}.json"))
    return json.loads(found[-1].read_text()) if found else None


def times(folder):
    print("| code | programs | equal | timed | geometric mean | largest | above 1.05 |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    sets = []
    for file in ("triton", "modules"):
        answers = load(folder, file)
        if answers is None:
            continue
        reference = answers["ptxas"]
        for kind in ("scalar", "matrix"):
            names = [name for name in reference if reference[name].get("kind", "scalar") == kind]
            if names:
                sets.append((answers, "corpus modules" if file == "modules" else kind, names))
    for mode, label in NAMES.items():
        for answers, kind, names in sets:
            mine = {name: answers.get(mode, {}).get(name, {"error": "not run"}) for name in names}
            good = [name for name in names if equal(mine[name])]
            ratios = {name: mine[name]["ratio"] for name in good if "ratio" in mine[name]}
            if not ratios:
                continue
            largest = max(ratios, key=ratios.get)
            slow = sum(ratio > SLOW for ratio in ratios.values())
            mean = statistics.geometric_mean(ratios.values())
            print(f"| {label} | {kind} | {len(good)} of {len(names)} | {len(ratios)} | {mean:.4f} | {ratios[largest]:.3f} ({largest[:60]}) | {slow} |")
    print()
    for name in sorted(path.stem for path in folder.glob("times-*.txt")):
        for line in text_of(folder, name).splitlines():
            if "launches timed" in line or "geometric mean" in line:
                print(f"- CUDA corpus: {re.sub(r'^/.*/', '', line)}")
    for answers, kind, names in sets:
        ours, theirs, plain = (answers.get(mode, {}) for mode in ("orias", "ptxas", "orias-unscheduled"))
        registers = [
            count / theirs[name]["registers"][kernel]
            for name in names
            if equal(ours.get(name, {"error": 1})) and "registers" in theirs[name]
            for kernel, count in ours[name]["registers"].items()
            if kernel in theirs[name]["registers"]
        ]
        if registers:
            print(f"- registers of our code against ptxas's, {kind}: geometric mean {statistics.geometric_mean(registers):.3f} over {len(registers)} kernels")
        gains = {name: ours[name]["ratio"] / plain[name]["ratio"] for name in names if "ratio" in ours.get(name, {}) and "ratio" in plain.get(name, {})}
        if gains:
            ends = sorted(gains, key=gains.get)
            print(
                f"- scheduling our code, {kind}: {statistics.geometric_mean(gains.values()):.3f} of its time without; "
                f"most on {ends[0][:60]} ({gains[ends[0]]:.2f}), least on {ends[-1][:60]} ({gains[ends[-1]]:.2f})"
            )


def slowest(folder, mode, count):
    """The programs with the largest ratios."""
    rows = []
    for file in ("triton", "modules"):
        answers = load(folder, file)
        if answers:
            rows += [(answer["ratio"], name) for name, answer in answers.get(mode, {}).items() if "ratio" in answer and equal(answer)]
    return [f"{name[:60]} {ratio:.3f}" for ratio, name in sorted(rows, reverse=True)[:count] if ratio > 1.03]


def programs(folder, file):
    answers = load(folder, file)
    if answers is None:
        return
    modes = [mode for mode in NAMES if mode in answers]
    print("| program | kind | ptxas, us | " + " | ".join(modes) + " |")
    print("| --- " * (3 + len(modes)) + "|")
    for name, reference in sorted(answers["ptxas"].items(), key=lambda item: item[0]):
        cells = []
        for mode in modes:
            answer = answers[mode].get(name, {"error": "not run"})
            message = answer.get("error", "")
            if "not supported yet: " in message.lower():
                message = "not supported yet: " + message.split("upported yet: ", 1)[1].split()[0]
            cells.append(message[:60] if message else f"{answer['ratio']:.3f}" if equal(answer) and "ratio" in answer else "equal" if equal(answer) else "different")
        us = f"{reference['us']:.2f}" if "us" in reference else ""
        print(f"| {name} | {reference.get('kind', 'scalar')} | {us} | " + " | ".join(cells) + " |")


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    results(folder)
    print("\n## Times\n\nRatios to ptxas -O3, measured as `README.md` says; scalar and matrix are Triton and torch.compile programs, the corpus's modules are launched")
    print("with inputs made up. What ptxas's own cubin differs from itself by when it is loaded twice stands in the first lines.\n")
    times(folder)
    for mode in ("control", "schedule", "shuffle", "orias"):
        if rows := slowest(folder, mode, 12 if mode == "orias" else 8):
            print(f"- largest ratios, {NAMES[mode]}: {', '.join(rows)}")
    if len(sys.argv) == 3:
        print("\n" + Path(sys.argv[2]).read_text().strip())
    for file, title in (("triton", "Triton and torch.compile"), ("modules", "The corpus's modules")):
        if load(folder, file):
            print(f"\n## {title}\n")
            if file == "triton":
                print(HOW_TO_READ)
            programs(folder, file)


if __name__ == "__main__":
    main()
