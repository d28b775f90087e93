#!/usr/bin/env python3
"""Compile times of a corpus: orias at its default level against ptxas -O3, one processor, in the same run.

usage: compile-time.py ORIAS PTXAS FOLDER... [--runs N] [--level N]

Every .ptx file below the folders that orias compiles is compiled by both, in turn. Of several runs the fastest counts. Wall time is what
a user waits; processor time (user and system, of the process and its threads) does not depend on what else the machine does.
"""
import os
import statistics
import sys
import time
from pathlib import Path


#: Where the commands' messages go.
SILENT = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0), (os.POSIX_SPAWN_DUP2, 1, 2)]


def run(command):
    """Wall and processor time of a command in seconds, and its peak memory in KiB; nothing if it fails.

    A copy of this process, as `os.fork` makes it, would be part of what the command is said to take: more than a millisecond.
    """
    start = time.perf_counter()
    child = os.posix_spawn(command[0], command, os.environ, file_actions=SILENT)
    _, status, usage = os.wait4(child, 0)
    wall = time.perf_counter() - start
    if status != 0:
        return None
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss


def fastest(command, out, runs):
    """The least of each over several runs, each of which writes a new file."""
    results = []
    for _ in range(runs):
        Path(out).unlink(missing_ok=True)
        results.append(run([*command, "-o", out]))
    if None in results:
        return None
    return tuple(min(result[part] for result in results) for part in range(3))


def main():
    words = sys.argv[1:]
    options = {"--runs": 3, "--level": 3}
    for name in options:
        if name in words:
            at = words.index(name)
            options[name] = int(words[at + 1])
            del words[at : at + 2]
    if len(words) < 3:
        sys.exit(__doc__)
    orias, ptxas, *folders = words
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    level = f"-O{options['--level']}"
    files = sorted(file for folder in folders for file in Path(folder).rglob("*.ptx"))
    out = f"/tmp/compile-time-{os.getpid()}.cubin"
    rows = []
    refused = 0
    for file in files:
        ours = fastest([orias, "-arch=sm_90a", level, str(file)], out, options["--runs"])
        if ours is None:
            refused += 1
            continue
        theirs = fastest([ptxas, "-arch=sm_90a", "-O3", str(file)], out, options["--runs"])
        if theirs is not None:
            rows.append((file.stem, ours, theirs))
    if os.path.exists(out):
        os.remove(out)
    if not rows:
        sys.exit("nothing was compiled")
    rows.sort(key=lambda row: row[2][1] / row[1][1])
    print(f"{'orias ms':>10} {'cpu':>8} {'ptxas ms':>10} {'cpu':>8} {'ratio':>7}  module")
    for name, ours, theirs in rows:
        print(
            f"{1000 * ours[0]:10.2f} {1000 * ours[1]:8.2f} {1000 * theirs[0]:10.2f} {1000 * theirs[1]:8.2f}"
            f" {theirs[1] / ours[1]:7.1f}  {name}"
        )
    total = [[sum(row[who][part] for row in rows) for part in (0, 1)] for who in (1, 2)]
    mean = statistics.geometric_mean(theirs[1] / ours[1] for _, ours, theirs in rows)
    print(
        f"{len(rows)} modules ({refused} refused): wall {total[0][0]:.3f} s against {total[1][0]:.3f} s, "
        f"{total[1][0] / total[0][0]:.1f} times; processor {total[0][1]:.3f} s against {total[1][1]:.3f} s, "
        f"{total[1][1] / total[0][1]:.1f} times faster, geometric mean {mean:.1f}"
    )


main()
