#!/bin/bash
# Everything that is measured on a GPU for the code we compile and reschedule, with a time limit for each step.
#
#   bench/all-on-gpu.sh [STEP...]      the steps below, or only those named
#
#   ORIAS, XTASK   the commands, built in release mode (default: target/release/orias and target/release/xtask)
#   PTXAS, NVCC    NVIDIA's tools (default: those on the PATH)
#   MATH           a folder made by `cuda_math.py make` (default: made here, which needs nvcc)
#   CORPUS         the folder of the CUDA corpus with its manifest.json; without it the corpus's launches are left out
#   RESULTS        where logs and tables go (default: target/bench/results)
#   MODES          modes of the Triton campaign (default: ptxas,orias,control)
#   QUICK          if set: fewer programs and lanes
#   PYTHON         a Python with PyTorch and Triton (default: python3)
cd "$(dirname "$0")/.." || exit 1
bench=$PWD/bench
export ORIAS=${ORIAS:-$PWD/target/release/orias} PTXAS=${PTXAS:-$(command -v ptxas)} NVCC=${NVCC:-$(command -v nvcc)}
xtask=${XTASK:-$PWD/target/release/xtask}
results=${RESULTS:-$PWD/target/bench/results}
python=${PYTHON:-python3}
scratch=${SCRATCH:-$PWD/target/bench}
mkdir -p "$results" "$scratch"
began=$SECONDS
summary=()

# step NAME SECONDS COMMAND...: runs it with a limit, keeps its output, and remembers its last line
step() {
    local name=$1 limit=$2 start=$SECONDS code
    shift 2
    timeout -k 5 "$limit" "$@" >"$results/$name.txt" 2>&1
    code=$?
    local last
    last=$(grep -v '^xtask ' "$results/$name.txt" | tail -n 1 | cut -c1-160)
    [ $code = 124 ] && last="out of time; $last"
    summary+=("| $name | $((SECONDS - start)) s | $code | $last |")
    echo "[$((SECONDS - began)) s] $name: $last"
}

# Each module of a folder by both assemblers, at some level: cubins in FOLDER/ptxas and FOLDER/orias-O3 and so on.
assemble() {
    local folder=$1 options=$2
    mkdir -p "$folder/ptxas" "$folder/orias-O3" "$folder/orias-O0"
    one() {
        local stem=${1##*/}
        stem=${stem%.ptx}
        "$PTXAS" -arch=sm_90a $2 "$1" -o "${1%/*}/ptxas/$stem.cubin" 2>/dev/null
        local level
        for level in 0 3; do
            timeout 60 "$ORIAS" -arch=sm_90a -O$level $2 "$1" -o "${1%/*}/orias-O$level/$stem.cubin" 2>"${1%/*}/orias-O$level/$stem.err" ||
                echo "-O$level: $(head -n 1 "${1%/*}/orias-O$level/$stem.err")"
        done
    }
    export -f one
    ls "$folder"/*.ptx | xargs -P "$(nproc)" -I{} bash -c "one {} '$options'"
}

step_math() {
    local folder=${MATH:-$scratch/math}
    [ -f "$folder/manifest.json" ] || "$python" "$bench/cuda_math.py" make "$folder"
    assemble "$folder" --fmad=false
    for level in 3 0; do
        step "math-O$level" 60 "$xtask" gpu launches "$folder/manifest.json" "$folder/orias-O$level" "$folder/ptxas" --patience 4
    done
}

step_corpus() {
    [ -n "$CORPUS" ] || return 0
    local folder=$scratch/corpus
    mkdir -p "$folder"
    cp "$CORPUS"/*.ptx "$CORPUS/manifest.json" "$folder/"
    assemble "$folder" --fmad=false
    for level in 3 0; do
        step "corpus-O$level" 90 "$xtask" gpu launches "$folder/manifest.json" "$folder/orias-O$level" "$folder/ptxas" --patience 4
    done
}

step_forms() {
    for level in 0 3; do
        step "forms-O$level" 60 "$xtask" gpu forms "$([ -n "$QUICK" ] && echo 256 || echo 4096)" orias-O$level
    done
}

step_generated() {
    step generated 120 "$xtask" gpu generated "$([ -n "$QUICK" ] && echo 500 || echo 5000)" orias-O0,orias-O1,orias-O3
}

step_sweeps() {
    step sweeps 120 "$xtask" gpu sweeps orias-O0,orias-O3 $([ -n "$QUICK" ] || echo --full)
}

step_triton() {
    step triton 300 "$python" "$bench/triton_programs.py" run --modes "${MODES:-ptxas,orias,control}" --out "$scratch/triton" \
        --runs "$([ -n "$QUICK" ] && echo 10 || echo 100)" ${FILTER:+--filter $FILTER}
    cp "$scratch/triton/results.json" "$results/triton.json"
}

# compute-sanitizer over the launches of the math folder (its CUB kernels) and of the corpus.
step_sanitizer() {
    local folder=${MATH:-$scratch/math} tool
    for tool in memcheck racecheck synccheck initcheck; do
        step "sanitizer-$tool" 60 compute-sanitizer --tool $tool --target-processes all --error-exitcode 9 \
            "$xtask" gpu launches "$folder/manifest.json" "$folder/orias-O3" "$folder/orias-O3" --filter cub. --patience 30
        grep -h "ERROR SUMMARY" "$results/sanitizer-$tool.txt" | sort | uniq -c
    done
}

steps=("$@")
[ ${#steps[@]} -gt 0 ] || steps=(math corpus forms generated sweeps triton sanitizer)
for name in "${steps[@]}"; do
    "step_$name"
done
echo
echo "| step | time | exit code | last line |"
echo "| --- | --- | --- | --- |"
printf '%s\n' "${summary[@]}"
[ -f "$results/triton.txt" ] && sed -n '/^###/,$p' "$results/triton.txt"
