#!/bin/sh
# ptxas, and then `orias reschedule` on what it made.
#
#   ORIAS_PTXAS        the real ptxas (default: ptxas)
#   ORIAS              the orias command (default: orias)
#   ORIAS_RESCHEDULE   options of `orias reschedule` (default: --control-only; set it to nothing for a new order, too)
#   ORIAS_VERIFY       if set, what was made must also pass `orias verify`
#   ORIAS_LOG          a file that gets one line for each cubin: the exit code, a tab, and the first line of the messages
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
[ -n "$output" ] || exit 0
messages=$(mktemp)
code=0
"${ORIAS:-orias}" reschedule "$output" ${ORIAS_RESCHEDULE---control-only} -o "$output.new" >"$messages" 2>&1 || code=$?
if [ $code = 0 ] && [ -n "$ORIAS_VERIFY" ]; then
    "${ORIAS:-orias}" verify "$output.new" >"$messages" 2>&1 || code=$?
fi
[ $code = 0 ] || cat "$messages" >&2
[ -z "$ORIAS_LOG" ] || printf '%s\t%s\n' "$code" "$(head -n 1 "$messages")" >>"$ORIAS_LOG"
rm -f "$messages"
if [ $code = 0 ]; then mv "$output.new" "$output"; else rm -f "$output" "$output.new"; fi
exit $code
