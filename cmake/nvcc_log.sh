#!/bin/sh
# Launches nvcc: keeps what it says beside the object, for the test of registers and spills, and passes on all but
# ptxas's statistics.
object=
previous=
for argument; do
  [ "$previous" = -o ] && object=$argument
  previous=$argument
done
"$@" 2>"$object.log"
result=$?
grep -v -E '^ptxas info|^ +[0-9]+ bytes stack frame' "$object.log" >&2
exit $result
