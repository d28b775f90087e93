#!/bin/sh
# Orias in the place of ptxas.
#
#   ORIAS         the orias command (default: orias)
#   ORIAS_FLAGS   options put before the caller's, such as -O0
#   ORIAS_LOG     a file that gets one line for each call: the exit code, a tab, and the last line of the messages
#
# Name this script in TRITON_PTXAS_PATH. What cannot be compiled is an error: nothing runs as ptxas made it by accident.
[ -n "$ORIAS_LOG" ] || exec "${ORIAS:-orias}" $ORIAS_FLAGS "$@"
case "$*" in *--version*) exec "${ORIAS:-orias}" "$@" ;; esac
messages=$(mktemp)
"${ORIAS:-orias}" $ORIAS_FLAGS "$@" 2>"$messages"
code=$?
cat "$messages" >&2
printf '%s\t%s\n' "$code" "$(grep -v '^ptxas info' "$messages" | head -n 1)" >>"$ORIAS_LOG"
rm -f "$messages"
exit $code
