# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
#
# What is done on the machine where a run by ssh is: by any sh, tar, grep and ps. far.c sends all of it, and behind it `begin ID RUN SECONDS; ` and
# a call of what is meant. No comment goes there, nor the blanks before a line (embed.sed).

begin() { # ID RUN SECONDS-BETWEEN-LOOKS
    umask 077
    id=$1 run=$2 pause=$3 t=$HOME/.cache/scry/tasks/$1
}

# Sets p to the number of its scry run, or of the shell that becomes it, and is false when that is over: the number alone may be somebody
# else's by now.
alive() {
    p=$(cat "$t/runs/$run.pid" 2>/dev/null) && [ -n "$p" ] &&
        tr '\0' ' ' 2>/dev/null <"/proc/$p/cmdline" | grep -Eq "begin $id $run[ ;]|$id/runs/$run "
}

# The numbers of those that say by their environment that they are of the task, wherever they went: as says_it_is has it at home
# (process.c).
left() {
    grep -lzxF "SCRY_TASK=$id" /proc/[0-9]*/environ 2>/dev/null | while IFS=/ read -r _ _ pid _; do
        case $(cat "/proc/$pid/comm" 2>/dev/null) in
        scry | scry-* | job-* | '') ;;
        *) echo "$pid" ;;
        esac
    done
}

# What is no child of scry run's own, all below it, and what is left; p is the number of scry run, or a word.
below() {
    ps -e -o pid= -o ppid= -o comm= | awk -v r="$p" -v l="$(left)" '
        function own(i) { return up[i] == r && name[i] ~ /^job-/ }
        { up[$1] = $2; name[$1] = $3 }
        END {
            d[r] = 1
            n = split(l, w)
            for (i = 1; i <= n; i++) if (w[i] in up) d[w[i]] = 1
            do {
                more = 0
                for (i in up) if (!(i in d) && up[i] in d && !own(i)) d[i] = more = 1
            } while (more)
            for (i in d) if (i != r && !own(i)) print i
        }'
}

# The task's files, as an archive, come in.
receive() {
    mkdir -p "$t/files" "$t/runs" && tar -C "$t/files" -xf -
}

# Becomes scry run.
start() { # DIRECTORY WORD...
    cd "${1:-$t/files}" && shift && rm -rf "$t/runs/$run" && echo $$ >"$t/runs/$run.pid" &&
        exec "$@" >"$t/runs/$run.out" 2>"$t/runs/$run.err"
}

# Tells what went on, by name, when the run was over.
names() { # NUMBER...
    for pid; do cat "/proc/$pid/comm" 2>/dev/null; done
}

# As task/process.h has it: what goes on has a moment for itself, is asked to end, and is killed. What was stopped is killed at once.
end_left() {
    i=0
    while [ $((i += 1)) -le 30 ] && l=$(left) && [ -n "$l" ]; do
        # shellcheck disable=SC2086  # numbers
        if [ -e "runs/$run.stop" ] || [ $i -gt 8 ]; then
            kill -KILL $l
        elif [ $i -gt 2 ] && [ ! -e "runs/.$run.left" ]; then
            names $l >"runs/.$run.left"
            kill -TERM $l
        fi
        [ -e "runs/$run.stop" ] || sleep "$pause"
    done
}

list() {
    find runs files -maxdepth 0 -print0
    find files -type f -newer "runs/$run.pid" -print0
    find "runs/$run" "runs/$run.out" "runs/$run.err" "runs/.$run.left" -print0 2>/dev/null
    find "runs/$run.whole" -print0
}

# When the run is over: how large the archive is, and the archive. tar knows the size without reading a file, if /dev/null is to have it. The
# last file says that nothing is missing: what ssh and tar say would not.
send() { # DIGITS
    { cd "$t" 2>/dev/null && [ -e "runs/$run.pid" ]; } || {
        printf "%0$1d" 0
        exit 1
    }
    while alive; do sleep "$pause"; done
    end_left
    : >"runs/$run.whole" &&
        n=$(list | LC_ALL=C tar --no-recursion --null -T - --totals -cf /dev/null 2>&1 |
            sed -n 's/^Total bytes written: \([0-9]*\).*/\1/p') &&
        printf "%0$1d" "${n:-0}" &&
        list | tar --no-recursion --null -T - -cf -
}

remove() {
    cd "$t" && rm -rf files "runs/$run" "runs/$run".* "runs/.$run.left"
    rmdir runs
    cd .. && rmdir "$t"
}

# Why it is to end stands beside its directory before it gets a signal: scry run makes that a record of the job.
end() { # SIGNAL WHY
    [ ! -d "$t/runs" ] || printf %s "${2-}" >"$t/runs/$run.stop"
    if [ "$1" = KILL ]; then
        alive || p=none
        # shellcheck disable=SC2046  # numbers
        kill -KILL $(below)
    else
        alive && kill "-$1" "$p"
    fi
}
