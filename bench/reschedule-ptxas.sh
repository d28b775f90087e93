#!/bin/sh
# ptxas, and then `orias reschedule --control-only` on what it made.
#
#   ORIAS_PTXAS   the real ptxas (default: ptxas)
#   ORIAS         the orias command (default: orias)
#
# Name this script in TRITON_PTXAS_PATH, and every Triton or torch.compile program runs with our control words. A cubin that cannot
# be rescheduled is an error: nothing runs with ptxas's words by accident.
set -e
"${ORIAS_PTXAS:-ptxas}" "$@"
output=
while [ $# -gt 0 ]; do
    case "$1" in
    -o | --output-file)
        shift
        output=$1
        ;;
    --output-file=*) output=${1#*=} ;;
    -o=*) output=${1#*=} ;;
    esac
    shift
done
[ -z "$output" ] || "${ORIAS:-orias}" reschedule "$output" --control-only -o "$output"
