#!/bin/bash
# Everything that is measured on a GPU for the code we compile and reschedule, with a time limit for each step.
#
#   bench/all-on-gpu.sh [STEP...]      the steps below, or only those named
#
# Results first, several steps at a time; then times, with nothing on the GPU beside them:
#
#   kernels     kernels/*.sass by `orias asm` against ptxas's code of the same kernels
#   math        CUDA's math functions and CUB's primitives, -O0 and -O3, against ptxas
#   sync        mbarriers and clusters, a kernel for each kind of form, -O0 and -O3, against ptxas
#   pipelines   warp-specialised pipelines of copies, -O0 and -O3, against ptxas
#   rare        forms of instructions that no compiler made for the others, -O0 and -O3, against ptxas
#   bulk        a kernel for every form of bulk and tensor copies, -O0 and -O3, against ptxas
#   matrix      every form of mma, wmma and wgmma at -O0 and -O3 against ptxas
#   textures    a kernel for every form of texture and surface instructions against ptxas, and against the interpreter
#   objects     pairs of objects that call each other, linked in the four mixtures of assemblers at -O0 and -O3
#   litmus      litmus tests of the memory model at -O0 and -O3
#   lanes       kernels of lanes that part, wait and meet, 1,000 times each at -O0, -O1 and -O3, against ptxas
#   corpus      the launches of the CUDA corpus at -O0 and -O3, and ptxas's code with new control words and in new orders, against ptxas
#   recorded    the launches of all Triton programs with small inputs, likewise
#   forms       every PTX form at -O0 and -O3 against its definition
#   generated   generated programs at -O0, -O1 and -O3 against the interpreter
#   sweeps      all 2^32 operands (QUICK: a sample) at -O0 and -O3 against ptxas
#   sanitizer   compute-sanitizer on our code of CUB's primitives and of the corpus
#   in-place    Triton and torch.compile programs with Orias as TRITON_PTXAS_PATH
#   triton      the same programs with the code of all MODES: results and times
#   modules     the kernels of the PTX corpus with the code of all MODES: results and times
#   times       times of the CUDA corpus's launches and of the pipelines, after `corpus` and `pipelines`
#   relatives   40 generated parsers, root finders and tree walks with several exits: results and times
#   ranks       how the model ranks ten orders of each of many kernels, which `orders` makes, against measured times
#   clients     Triton, torch.compile, JAX, CuPy, Numba and nvcc as they are installed, with ptxas and with Orias; needs the package `orias`
#   compile-time  compile times of the PTX corpus, Orias against ptxas, on one processor
#   debugger    cuda-gdb on code with line tables, ours beside ptxas's
#
#   ORIAS, XTASK   the commands, built in release mode (default: target/release/orias and target/release/xtask)
#   ORIAS_DIST     the command whose compile time is taken, built with the profile `dist` (default: ORIAS)
#   PTXAS, NVCC    NVIDIA's tools (default: those on the PATH)
#   MATH           a folder made by `cuda_math.py make` (default: made here, which needs nvcc)
#   RECORDED       a folder made by `triton_programs.py record` (default: made here)
#   CORPUS         folders of CUDA corpora with their manifest.json, a colon between; without one their launches are left out
#   CORPUS_MODULES the folder of the PTX corpus, unpacked; without it its kernels are left out
#   RESULTS        where logs and tables go (default: target/bench/results)
#   CORPUS_MODES   modes of the CUDA corpora besides our own code (default: control schedule shuffle)
#   MODES          modes of the campaigns (default: ptxas,ptxas-again,orias,orias-unscheduled,control,schedule,shuffle)
#   QUICK          if set: fewer programs, lanes, operands and runs
#   PYTHON         a Python with PyTorch and Triton (default: python3)
cd "$(dirname "$0")/.." || exit 1
bench=$PWD/bench
export ORIAS=${ORIAS:-$PWD/target/release/orias} PTXAS=${PTXAS:-$(command -v ptxas)} NVCC=${NVCC:-$(command -v nvcc)}
xtask=${XTASK:-$PWD/target/release/xtask}
results=${RESULTS:-$PWD/target/bench/results}
python=${PYTHON:-python3}
scratch=${SCRATCH:-$PWD/target/bench}
modes=${MODES:-ptxas,ptxas-again,orias,orias-unscheduled,control,schedule,shuffle}
mkdir -p "$results" "$scratch"
rm -f "$results/summary.md"
began=$SECONDS
export PYTHONUNBUFFERED=1

# step NAME SECONDS COMMAND...: runs it with a limit, keeps its output, and remembers its last line
step() {
    local name=$1 limit=$2 start=$SECONDS code last
    shift 2
    timeout -k 5 "$limit" "$@" >"$results/$name.txt" 2>&1
    code=$?
    last=$(grep -v '^xtask ' "$results/$name.txt" | grep . | tail -n 1 | cut -c1-200)
    [ $code = 124 ] && last="out of time; $last"
    echo "| $name | $((SECONDS - start)) s | $code | $last |" >>"$results/summary.md"
    echo "[$((SECONDS - began)) s] $name: $last"
}

# quick A B: A if QUICK is set, otherwise B
quick() {
    if [ -n "$QUICK" ]; then echo "$1"; else echo "$2"; fi
}

# launches NAME FOLDER RUNS MODE...: the launches of a folder with each mode's cubins against ptxas's, made from the folder's PTX; ptxas's
# code with our control words or in our order runs RUNS times, since a wait too short may only show now and then
launches() {
    local name=$1 folder=$2 often=$3 mode runs
    shift 3
    "$python" "$bench/assemblers.py" "$folder" "ptxas,$(IFS=,; echo "$*")" --fmad=false >"$results/$name-assembled.txt"
    for mode in "$@"; do
        case $name-$mode in lanes-*|sync-*|pipelines-*) runs=$often ;; *-orias*) runs=3 ;; *) runs=$often ;; esac
        step "$name-$mode" 100 "$xtask" gpu launches "$folder/manifest.json" "$folder/$mode" "$folder/ptxas" --patience 20 --runs "$(quick 1 "$runs")"
    done
}

math_folder() {
    echo "${MATH:-$scratch/math}"
}

step_kernels() {
    local folder=$scratch/kernels file stem
    mkdir -p "$folder/ptxas" "$folder/asm"
    cp "$bench"/kernels/* "$folder/"
    for file in "$folder"/*.sass; do
        stem=$(basename "$file" .sass)
        "$ORIAS" asm "$file" -o "$folder/asm/$stem.cubin"
        "$PTXAS" -arch=sm_90a "$folder/$stem.ptx" -o "$folder/ptxas/$stem.cubin"
    done
    step kernels 60 "$xtask" gpu launches "$folder/manifest.json" "$folder/asm" "$folder/ptxas"
}

step_math() {
    [ -f "$(math_folder)/manifest.json" ] || "$python" "$bench/cuda_math.py" make "$(math_folder)"
    launches math "$(math_folder)" 3 orias orias-O0
}

step_rare() {
    mkdir -p "$scratch/rare"
    cp "$bench"/rare/* "$scratch/rare/"
    launches rare "$scratch/rare" 3 orias orias-O0
}

step_sync() {
    mkdir -p "$scratch/sync"
    cp "$bench"/sync/* "$bench"/../tests/run/mbarriers.ptx "$bench"/../tests/run/clusters.ptx "$scratch/sync/"
    launches sync "$scratch/sync" 20 orias orias-O0 control
}

step_pipelines() {
    mkdir -p "$scratch/pipelines"
    cp "$bench"/pipelines/* "$scratch/pipelines/"
    launches pipelines "$scratch/pipelines" 20 orias orias-O0 control
}

# corpora: the names of the CUDA corpora; each is copied to a folder of that name
corpora() {
    local folder
    for folder in ${CORPUS//:/ }; do
        basename "$folder"
    done
}

step_bulk() {
    "$python" "$bench/bulk_forms.py" "$scratch/bulk" >"$results/bulk-made.txt"
    launches bulk "$scratch/bulk" 3 orias orias-O0
}

# A process for each family: what a fault leaves behind ends with it.
step_matrix() {
    local family
    for family in mma.sync mma.sp wmma. wgmma; do
        step "matrix-$family" 120 "$xtask" gpu matrix "$family"
    done
}

step_textures() {
    step textures 300 "$python" "$bench/textures.py"
}

step_objects() {
    local mixture
    "$xtask" conformance objects "$(quick 20 200)" --write="$scratch/objects" >"$results/objects-linked.txt" 2>&1
    for mixture in orias-orias orias-ptxas ptxas-orias; do
        step "objects-$mixture" 60 "$xtask" gpu launches "$scratch/objects/manifest.json" "$scratch/objects/$mixture" "$scratch/objects/ptxas-ptxas" --patience 20
    done
}

step_litmus() {
    step litmus 240 "$python" "$bench/litmus.py" run --runs "$(quick 500000 10000000)"
}

step_lanes() {
    mkdir -p "$scratch/lanes"
    cp "$bench"/lanes/* "$scratch/lanes/"
    launches lanes "$scratch/lanes" 1000 orias orias-O1 orias-O0
}

step_corpus() {
    local folder name
    for folder in ${CORPUS//:/ }; do
        name=$(basename "$folder")
        mkdir -p "$scratch/corpus/$name"
        cp "$folder"/*.ptx "$folder/manifest.json" "$scratch/corpus/$name/"
        launches "$name" "$scratch/corpus/$name" 100 orias orias-O0 ${CORPUS_MODES-control schedule shuffle}
    done
}

step_record() {
    local folder=${RECORDED:-$scratch/recorded}
    [ -f "$folder/manifest.json" ] || step record 120 "$python" "$bench/triton_programs.py" record "$folder"
}

step_recorded() {
    local folder=${RECORDED:-$scratch/recorded}
    step_record
    launches recorded "$folder" 3 orias orias-O0 control schedule shuffle
}

step_forms() {
    for level in 0 3; do
        step "forms-O$level" 60 "$xtask" gpu forms "$(quick 256 4096)" orias-O$level
    done
}

step_generated() {
    step generated 150 "$xtask" gpu generated "$(quick 500 5000)" orias-O0,orias-O1,orias-O3
}

step_sweeps() {
    step sweeps 180 "$xtask" gpu sweeps orias-O0,orias-O3 $(quick "" --full)
}

# sanitize TOOL FOLDER MODULE: our code of one module under one tool of compute-sanitizer; a line with the time and what it found, and what
# it finds in ptxas's code where ours is not clean
sanitize() {
    local start=$SECONDS found beside=
    found=$(sanitized "$1" "$2" "$3" orias)
    case $found in *"SUMMARY: 0 "*) ;; *) beside="ptxas: $(sanitized "$1" "$2" "$3" ptxas)" ;; esac
    echo "| $1 | $3 | $((SECONDS - start)) s | $found | $beside |"
}

# sanitized TOOL FOLDER MODULE MODE: what a tool finds in the code of one mode
sanitized() {
    local log=$results/sanitizer/$1-$3$4.txt code found
    timeout -k 5 90 compute-sanitizer --tool "$1" --target-processes all \
        "$xtask" gpu launches "$2/manifest.json" "$2/$4" "$2/$4" --filter "$3" --patience 80 >"$log" 2>&1
    code=$?
    found=$(grep -h "ERROR SUMMARY: [0-9]* error\|RACECHECK SUMMARY" "$log" | grep -v "not printed" | sed 's/=* *//' | sort | uniq | tr '\n' ' ')
    [ $code = 124 ] && found="not finished"
    echo "$(grep -ho "^[0-9]* equal" "$log") ${found:-no summary, exit code $code}"
}

# Kernels that write where no buffer is, race, or leave threads behind at a barrier: each module by itself, several at a time.
step_sanitizer() {
    local tool cubin start=$SECONDS
    mkdir -p "$results/sanitizer"
    export -f sanitize sanitized
    export results xtask
    for tool in racecheck memcheck synccheck initcheck; do
        echo "$tool $(math_folder) cub."
        for cubin in "$scratch"/corpus/*/orias/*.cubin; do
            [ -f "$cubin" ] && echo "$tool $(dirname "$(dirname "$cubin")") $(basename "$cubin" cubin)"
        done
    done | xargs -P 8 -L 1 bash -c 'sanitize "$@"' sanitize | sort >"$results/sanitizer.txt"
    for tool in racecheck memcheck synccheck initcheck; do
        echo "| sanitizer-$tool | $((SECONDS - start)) s | | $(grep -c "^| $tool |[^|]*|[^|]*|[^|]*SUMMARY: 0 " "$results/sanitizer.txt") of $(grep -c "^| $tool " "$results/sanitizer.txt") modules clean |"
    done | tee -a "$results/summary.md"
    grep "ptxas:" "$results/sanitizer.txt"
}

step_in-place() {
    step in-place 200 "$python" "$bench/triton_programs.py" run --in-place --modes ptxas,orias --tags scalar --out "$scratch/in-place" --patience 120 \
        --runs "$(quick 3 100)" ${FILTER:+--filter $FILTER}
}

step_triton() {
    step triton 300 "$python" "$bench/triton_programs.py" run --modes "$modes" --out "$scratch/triton" \
        --runs "$(quick 10 100)" --rounds "${ROUNDS:-30}" ${FILTER:+--filter $FILTER}
    cp "$scratch/triton/results.json" "$results/triton.json"
}

step_modules() {
    [ -n "$CORPUS_MODULES" ] || return 0
    MODULES=$CORPUS_MODULES step modules 200 "$python" "$bench/triton_programs.py" run --modes "$modes" --out "$scratch/modules" \
        --runs 3 --rounds "${ROUNDS:-30}" --workers 6 ${FILTER:+--filter $FILTER}
    cp "$scratch/modules/results.json" "$results/modules.json"
}

step_times() {
    local folder name
    if [ -d "$scratch/pipelines/orias" ]; then
        step times-pipelines 60 "$xtask" gpu times "$scratch/pipelines/manifest.json" "$scratch/pipelines/ptxas" "$scratch/pipelines/orias"
    fi
    for name in $(corpora); do
        folder=$scratch/corpus/$name
        # What Orias refuses has no cubin: a list of its own, so that this costs the other modes nothing.
        step "times-$name" 60 "$xtask" gpu times "$folder/manifest.json" "$folder/ptxas" "$folder/orias"
        [ -d "$folder/schedule" ] || continue
        step "times-reschedule-$name" 60 "$xtask" gpu times "$folder/manifest.json" "$folder/ptxas" "$folder/control,$folder/schedule,$folder/shuffle"
    done
}

# The chore writes the kernels before it looks for those that fit the filter, which none does.
step_relatives() {
    local folder=$scratch/relatives
    mkdir -p "$folder"
    "$xtask" conformance lanes --relatives 40 none >"$results/relatives-made.txt" 2>&1
    cp target/relatives/*.ptx target/relatives/manifest.json "$folder/"
    launches relatives "$folder" 3 orias orias-O0
    step times-relatives 60 "$xtask" gpu times "$folder/manifest.json" "$folder/ptxas" "$folder/orias"
}

# Ten orders of each of many kernels, with what the model says of them: no GPU yet.
step_orders() {
    local folder
    folder=$scratch/corpus/$(corpora | head -n 1)
    [ -n "$CORPUS" ] || return 0
    step orders 200 "$xtask" schedules make "$folder/manifest.json" "$folder/ptxas" "$scratch/orders" --most 80
}

step_ranks() {
    [ -f "$scratch/orders/manifest.json" ] || return 0
    local orders
    orders=$(printf ",$scratch/orders/%d" 1 2 3 4 5 6 7 8 9)
    step orders-times 100 "$xtask" gpu times "$scratch/orders/manifest.json" "$scratch/orders/0" "${orders:1}" --rounds 10 --once
    step ranks 10 "$xtask" schedules compare "$scratch/orders/estimates.txt" "$results/orders-times.txt"
}

# One processor, beside a step that leaves the others idle.
step_compile-time() {
    [ -n "$CORPUS_MODULES" ] || return 0
    step compile-time 120 taskset -c "$(($(nproc) - 1))" "$python" "$bench/compile-time.py" "${ORIAS_DIST:-$ORIAS}" "$PTXAS" "$CORPUS_MODULES" --runs 3
}

step_clients() {
    step clients 400 "$python" "$bench/clients/run.py" --repeat "$(quick 5 50)" --out "$results/clients.json"
}

step_debugger() {
    step debugger 120 bash "$bench/cuda-gdb.sh" "$scratch/cuda-gdb"
}

steps=("$@")
[ ${#steps[@]} -gt 0 ] || steps=(kernels math rare sync pipelines bulk textures objects matrix litmus lanes corpus orders record recorded forms generated sweeps sanitizer in-place triton modules times relatives ranks clients compile-time debugger)
chosen() {
    local name
    for name in "$@"; do
        [[ " ${steps[*]} " == *" $name "* ]] && "step_$name"
    done
}
# Each context of xtask takes 4 GB for the stacks of the threads, and each of PyTorch one: all at once are too many.
chosen generated &
chosen kernels math rare sync pipelines bulk textures objects lanes corpus &
chosen in-place &
chosen record &
wait
chosen sweeps forms &
chosen recorded &
chosen sanitizer &
chosen orders &
wait
chosen litmus matrix triton modules times relatives ranks clients
chosen compile-time &
chosen debugger &
wait
echo
echo "| step | time | exit code | last line |"
echo "| --- | --- | --- | --- |"
cat "$results/summary.md"
"$python" "$bench/report.py" "$results" >"$results/report.md"
sed '/^## Triton/,$d' "$results/report.md"
exit 0
