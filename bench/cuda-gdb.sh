#!/bin/bash
# cuda-gdb on code with line tables and nothing else (-lineinfo): ours beside ptxas's code of the same PTX.
#
#   bench/cuda-gdb.sh [FOLDER]      logs and cubins go there (default: target/bench/cuda-gdb)
#
# nvcc makes PTX of cuda/lines.cu, ptxas and Orias make cubins of it, and cuda-gdb runs cuda/launch.c, which loads one of them: no other
# process is between. Each session stops at the launch, at the kernel's name and at each source line by number, and walks through one
# warp's instructions; what it shows of the source is compared. It needs a GPU, nvcc, ptxas and cuda-gdb.
#
#   ORIAS, PTXAS, NVCC, CUDA_GDB   the commands (default: target/release/orias and what is on the PATH)
cd "$(dirname "$0")/.." || exit 1
bench=$PWD/bench
folder=${1:-$PWD/target/bench/cuda-gdb}
orias=${ORIAS:-$PWD/target/release/orias}
nvcc=${NVCC:-$(command -v nvcc)}
ptxas=${PTXAS:-$(command -v ptxas)}
gdb=${CUDA_GDB:-$(command -v cuda-gdb)}
mkdir -p "$folder"
source_lines=(8 9 11 13 3 4 15 16 17 18)

"$nvcc" -O2 -o "$folder/launch" "$bench/cuda/launch.c" -ldl || exit 1
cp "$bench/cuda/lines.cu" "$folder/"
(cd "$folder" && "$nvcc" -arch=sm_90a -lineinfo -ptx lines.cu -o lines.ptx) || exit 1

# More steps than both warps have instructions: the rest are the host's.
cat >"$folder/walk" <<'WALK'
set $steps = 0
while $steps < 400
  stepi
  set $steps = $steps + 1
end
WALK

# session CUBIN COMMAND...: one run of cuda-gdb; an error ends a command and not the session
session() {
    local cubin=$1 words=() command
    shift
    for command in "set pagination off" "set confirm off" "set breakpoint pending on" "$@"; do
        words+=(-ex "echo >>> $command\n" -ex "$command")
    done
    timeout -k 5 60 "$gdb" -q -nx -batch -cd "$folder" "${words[@]}" --args "$folder/launch" "$cubin" 2>&1
}

# What a log shows of the source, but for addresses and the order in which lines come, which is the scheduler's
shown() {
    grep "CUDA thread hit" "$1" | sed 's/.*thread hit /stop at /; s/Temporary breakpoint [0-9]*/line/' | sort -u
    grep "^Line [0-9]* of" "$1" | sed 's/0x[0-9a-f]*//g; s/<[^>]*>//g' | sort -u
    sed -n '/^>>> source/,$p' "$1" | grep -E "^(0x[0-9a-f]+	)?[0-9]+	" | sed 's/^0x[0-9a-f]*	//; s/^/step to /' | sort -u
    grep -E "^[0-9.]+ [0-9.]+$" "$1" | sed 's/^/result /' | sort -u
}

infos=() breaks=() goes=()
for line in "${source_lines[@]}"; do
    infos+=("info line lines.cu:$line")
    breaks+=("tbreak lines.cu:$line")
    goes+=(continue)
done
for level in O0 O3; do
    for maker in ptxas orias; do
        name=$maker-$level
        "${!maker}" -arch=sm_90a -lineinfo "-$level" "$folder/lines.ptx" -o "$folder/$name.cubin" || exit 1
        {
            session "$folder/$name.cubin" "set cuda break_on_launch application" run "info cuda kernels" bt "info line *\$pc" "x/4i \$pc" \
                "${infos[@]}" "${breaks[@]}" "${goes[@]}"
            session "$folder/$name.cubin" "break lines" run bt next step delete "source $folder/walk"
        } >"$folder/$name.txt"
        shown "$folder/$name.txt" >"$folder/$name.shown"
    done
    said="-$level, ptxas: $(grep -c "^stop at" "$folder/ptxas-$level.shown") stops, $(grep -c "^step to" "$folder/ptxas-$level.shown") lines stepped through"
    if ! grep -q "^stop at" "$folder/ptxas-$level.shown"; then
        echo "$said: cuda-gdb stops nowhere in ptxas's code either, see $folder/ptxas-$level.txt"
    elif diff "$folder/ptxas-$level.shown" "$folder/orias-$level.shown" >"$folder/$level.difference"; then
        echo "$said; ours the same"
    else
        echo "$said; $(sed -n 's/^< /with ptxas only: /p; s/^> /with ours only: /p' "$folder/$level.difference" | tr '\t\n' ' ;' | sed 's/  */ /g; s/;$//; s/;/; /g')"
    fi
done
