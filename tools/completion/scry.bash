# SPDX-License-Identifier: Apache-2.0
# Completion of scry for bash. Options are those of the man pages; jobs and services are asked for.

_scry_jobs() {
    local dir=${SCRY_STATE_DIR:-${XDG_STATE_HOME:-$HOME/.local/state}/scry/jobs}
    printf '@last\n'
    # Ids are names without blanks.
    [[ -d $dir ]] && ls -1 "$dir"
}

# Where the command after `scry run [OPTION...] [--]` starts: its index in COMP_WORDS, or nothing.
_scry_run_command() {
    local i
    for ((i = 2; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        --) echo $((i + 1)) && return ;;
        -o | --output | --name | --hide-args | --sample | --max-size | --keep-for | --keep-size | --config | --trace | --depth | --min-time | --max-depth | --rate | \
            --buffer | --overflow | --read-by | --rule | --mpi | --mpi-metrics | --mpi-resolution | --mpi-distributions | --mpi-stall) ((i++)) ;;
        -*) ;;
        *) echo "$i" && return ;;
        esac
    done
}

_scry() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} start
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W \
            'run exec ps top why set report replay export rm omis doctor monitor help version --help --version' -- "$word")
        return
    fi
    case ${COMP_WORDS[1]} in
    run)
        case $before in
        -o | --output)
            mapfile -t COMPREPLY < <(compgen -d -- "$word")
            return
            ;;
        --config)
            mapfile -t COMPREPLY < <(compgen -f -- "$word")
            return
            ;;
        --overflow)
            mapfile -t COMPREPLY < <(compgen -W 'drop wait flight' -- "$word")
            return
            ;;
        --mpi)
            mapfile -t COMPREPLY < <(compgen -W 'auto off stats trace' -- "$word")
            return
            ;;
        --mpi-resolution)
            mapfile -t COMPREPLY < <(compgen -W '1 2 4 8 16 32 64' -- "$word")
            return
            ;;
        --read-by)
            mapfile -t COMPREPLY < <(compgen -W 'direct syscall victim' -- "$word")
            return
            ;;
        --trace)
            mapfile -t COMPREPLY < <(compgen -W 'fn: file: lib: addr: all off' -- "$word")
            compopt -o nospace 2>/dev/null
            return
            ;;
        --name | --hide-args | --sample | --max-size | --keep-for | --keep-size | --depth | --min-time | --max-depth | --rate | --buffer | --rule | --mpi-metrics | --mpi-distributions | --mpi-stall)
            return
            ;;
        esac
        start=$(_scry_run_command)
        if [[ -n $start ]] && declare -F _command_offset >/dev/null; then
            _command_offset "$start" # the command's own completion, of the package bash-completion
        elif [[ -n $start ]]; then
            mapfile -t COMPREPLY < <(compgen -c -f -- "$word")
        elif [[ $word == -* ]]; then
            mapfile -t COMPREPLY < <(compgen -W \
                '--output --name --quiet --hide-args --sample --crash-stack --max-size --keep-for --keep-size --trace --args --locals --count-only --depth --min-time
                --max-depth --rate --buffer --overflow --read-by --mpi --mpi-metrics --mpi-resolution --mpi-distributions --mpi-stall --rule
                --config --help --' -- "$word")
        else
            mapfile -t COMPREPLY < <(compgen -c -- "$word")
        fi
        ;;
    exec)
        if ((COMP_CWORD == 2)) && [[ $word == -* ]]; then
            mapfile -t COMPREPLY < <(compgen -W '--help --' -- "$word")
        elif declare -F _command_offset >/dev/null; then
            _command_offset 2
        else
            mapfile -t COMPREPLY < <(compgen -c -f -- "$word")
        fi
        ;;
    set)
        if ((COMP_CWORD == 2)) || [[ $word == -* ]]; then
            mapfile -t COMPREPLY < <(compgen -W "$(_scry_jobs) --json --help" -- "$word")
        else
            mapfile -t COMPREPLY < <(compgen -S = -W 'sample max-size trace args locals count-only depth min-time max-depth rate buffer
                overflow read-by mpi mpi-metrics mpi-resolution mpi-distributions on' -- "$word")
            compopt -o nospace 2>/dev/null
        fi
        ;;
    rm)
        case $before in
        --older-than | --keep-size) return ;;
        esac
        mapfile -t COMPREPLY < <(compgen -W "$(_scry_jobs) --older-than --keep-size --dry-run --force --quiet --help" -- "$word")
        ;;
    ps) mapfile -t COMPREPLY < <(compgen -W '--all --json --help' -- "$word") ;;
    doctor) mapfile -t COMPREPLY < <(compgen -W '--json --help' -- "$word") ;;
    monitor) mapfile -t COMPREPLY < <(compgen -W '--daemon --idle --reference --help' -- "$word") ;;
    help) mapfile -t COMPREPLY < <(compgen -W 'run exec ps top why set report replay export rm omis doctor monitor' -- "$word") ;;
    top) mapfile -t COMPREPLY < <(compgen -W "$(_scry_jobs) --once --json --help" -- "$word") ;;
    replay)
        case $before in
        --fn | --thread | --process | --rank | --from | --to | --min-time | --max-depth) return ;;
        esac
        mapfile -t COMPREPLY < <(compgen -W "$(_scry_jobs) --fn --thread --process --rank --from --to --min-time --max-depth
            --follow --times --json --help" -- "$word")
        ;;
    export)
        case $before in
        -f | --format)
            mapfile -t COMPREPLY < <(compgen -W 'chrome speedscope folded csv messages spacetime' -- "$word")
            return
            ;;
        -o | --output)
            mapfile -t COMPREPLY < <(compgen -f -- "$word")
            return
            ;;
        --process | --fn | --from | --to) return ;;
        esac
        mapfile -t COMPREPLY < <(compgen -W "$(_scry_jobs) --format --output --process --fn --from --to --help" -- "$word")
        ;;
    report) mapfile -t COMPREPLY < <(compgen -W "$(_scry_jobs) --json --diff --process --rank --help" -- "$word") ;;
    why)
        [[ $before == --settled ]] && return
        mapfile -t COMPREPLY < <(compgen -W "$(_scry_jobs) --all --settled --json --help" -- "$word")
        ;;
    omis)
        case $before in
        -c | --command)
            # A request starts with its colon or its event.
            mapfile -t COMPREPLY < <(compgen -P "': " -S '(' -W "$(scry omis --list-services 2>/dev/null)" -- \
                "${word##*[\': ]}")
            compopt -o nospace 2>/dev/null
            ;;
        *) mapfile -t COMPREPLY < <(compgen -W \
            '--command --wait --json --debug --list-services --connect --no-start --help' -- "$word") ;;
        esac
        ;;
    esac
}

complete -F _scry scry
