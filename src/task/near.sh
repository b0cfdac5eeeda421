# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
#
# What is done here for a run that is on another machine (far.sh). far.c has it executed, and behind it `begin ...; ` and a call of what is
# meant. A LINE is for the login shell of that machine.

begin() { # DIRECTORY-OF-TASK RUN SSH HOST
    dir=$1 run=$2 ssh=$3 host=$4
}

# Takes the place of the shell that calls it.
far() { # LINE
    exec "$ssh" -o BatchMode=yes -o ServerAliveInterval=15 "$host" "$1"
}

start() { # LINE-TO-RECEIVE LINE-TO-START
    tar -C "$dir/files" -cf - . | far "$1" && : >"$dir/runs/.$run.sent" && far "$2"
}

# KB of the disk that may be taken so that a part of it, here a twentieth or a hundredth, stays for others.
room() { # PART
    df -Pk . | awk -v part="$1" 'END { n = NR > 1 ? $4 - $2 / part : 2 ^ 50; printf "%d", (n > 0 ? n : 0) }'
}

say_why() {
    if [ "$(room 100)" -eq 0 ]; then
        echo 'the disk here is full'
    elif [ -s "$i.err" ]; then
        cat "$i.err"
    else
        echo 'the connection was lost'
    fi
}

# Whoever is on that host says what is in the archive, and how large it is. So it comes into a directory of its own, with our rights,
# and no more than there is room for; of it only files and directories go to the task's, never through a link: neither one that
# came with a run before, nor one of the user's.
take() { # DIGITS
    i=runs/.$run.comes b=runs/$run.bytes
    head -c "$1" >"$b"
    n=$(sed 's/^0*//' "$b")
    case $n in # shells compute with what is no number, too, and some execute it
    '' | *[!0-9]* | ????????????????*) exit 1 ;;
    esac
    r=$(room 20)
    if [ $((n / 1024)) -gt "$r" ]; then
        echo "it takes $((n >> 20)) MB, and of the disk here no more than $((r >> 10)) MB may be used" >&2
        exit 1
    fi
    rm -rf "$i"
    mkdir "$i" &&
        LC_ALL=C dd bs=64k iflag=fullblock,count_bytes count=$((r * 1024)) status=progress 2>>"$b" |
        tar --no-same-owner --no-same-permissions -C "$i" -xf - runs files &&
        [ -e "$i/runs/$run.whole" ]
    e=$?
    find "$i" ! -type f ! -type d -exec rm -f {} +
    # a file system may have no links, and here may be one where a directory comes
    for l in -l ''; do
        # shellcheck disable=SC2086  # none, if it is empty
        cp -a $l --remove-destination "$i/." . && break
    done 2>"$i.err" || e=1
    rm -rf "$i"
    [ $e -eq 0 ] || {
        say_why >&2
        exit 1
    }
    rm -f "$i.err"
}

gather() { # DIGITS LINE-TO-SEND LINE-TO-REMOVE
    cd "$dir" && far "$2" | take "$1" && mv "runs/$run.whole" "runs/.$run.here" && rm -f "runs/$run.bytes" "runs/.$run.sent" &&
        far "$3"
}
