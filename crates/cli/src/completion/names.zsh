# names of objects, from the cluster
functions[_equate_words]=$functions[_equate]

_equate() {
    local -a positional options found
    local i word kind='' current=$words[CURRENT]
    for ((i = 2; i < CURRENT; i++)); do
        word=$words[i]
        case $word in
            (-n|--namespace|--context|--kubeconfig)
                options+=($word $words[i+1])
                ((i++))
                ;;
            (-*) ;;
            (*) positional+=($word) ;;
        esac
    done
    case $positional[1] in
        (get|tree|explain|trace|export|debug|reconcile|suspend|resume)
            if [[ $current == */* ]]; then
                kind=${current%%/*}
            elif (( $#positional == 2 )) && [[ $positional[2] != */* && $current != -* ]]; then
                kind=$positional[2]
            fi
            ;;
    esac
    case $kind in
        (''|all|sources*|images*|artifacts*)
            _equate_words "$@"
            return
            ;;
    esac
    found=(${${(f)"$(equate get $kind $options -o name 2>/dev/null)"}##*/})
    compset -P '*/'
    compadd -a found
}

