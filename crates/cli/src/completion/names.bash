
# names of objects, from the cluster
_equate_names() {
    _equate "$@"
    local i word command='' kind='' current=${COMP_WORDS[COMP_CWORD]} options=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        case $word in
            -n | --namespace | --context | --kubeconfig)
                options+=("$word" "${COMP_WORDS[i + 1]}")
                ((i++))
                ;;
            -*) ;;
            *)
                if [[ -z $command ]]; then
                    command=$word
                elif [[ -z $kind ]]; then
                    kind=$word
                fi
                ;;
        esac
    done
    case $command in
        get | tree | explain | trace | export | debug | reconcile | suspend | resume) ;;
        *) return ;;
    esac
    case $kind$current in
        -* | sources* | images* | artifacts* | all*) return ;;
    esac
    if [[ $current == */* ]]; then
        kind=${current%%/*}
        COMPREPLY=($(compgen -P "$kind/" -W "$(equate get "$kind" "${options[@]}" -o name 2>/dev/null | sed 's,.*/,,')" -- "${current#*/}"))
    elif [[ -n $kind && $kind != */* && $current != -* ]]; then
        COMPREPLY=($(compgen -W "$(equate get "$kind" "${options[@]}" -o name 2>/dev/null | sed 's,.*/,,')" -- "$current"))
    fi
}
complete -F _equate_names -o nosort -o bashdefault -o default equate 2>/dev/null ||
    complete -F _equate_names -o bashdefault -o default equate
