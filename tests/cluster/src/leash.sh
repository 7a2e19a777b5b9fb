# Runs a program that must not outlive the suite.
#
#   sh leash.sh LOCK-FILE PROGRAM ARGUMENT…
#
# Standard input carries names of signals, one a line, for the program. When it ends, because the suite did (of its
# own will or by kill -9), the program and everything it started are killed. As long as any of them is alive a shared
# lock on LOCK-FILE is held. The exit code is the program's.

exec 9<"$1" 3<&0
shift
flock --shared 9

# In a session of its own, a signal from the terminal (Ctrl-C) reaches the suite alone, and one kill reaches them all.
setsid "$@" </dev/null 3<&- &
program=$!
# What the shell itself has to say ("Killed") does not belong in the program's log.
exec 2>/dev/null

{
    while read -r signal; do
        kill -s "$signal" "$program"
    done
    kill -s KILL -- "-$program"
} <&3 &
reader=$!

wait "$program"
code=$?
kill "$reader"
kill -s KILL -- "-$program"
exit "$code"
