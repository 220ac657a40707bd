
# kinds, and the names of objects from the cluster
function __equate_names
    set -l words (commandline -opc)
    set -l positional
    set -l options
    set -l i 2
    while test $i -le (count $words)
        switch $words[$i]
            case -n --namespace --context --kubeconfig
                set -a options $words[$i] $words[(math $i + 1)]
                set i (math $i + 1)
            case '-*'
            case '*'
                set -a positional $words[$i]
        end
        set i (math $i + 1)
    end
    set -l current (commandline -ct)
    if string match -qr '^[^/-][^/]*/' -- $current
        set -l kind (string split -m 1 / -- $current)[1]
        equate get $kind $options -o name 2>/dev/null | string replace -r '.*/' $kind/
    else if test (count $positional) -eq 1
        string join \n -- $__equate_kinds
    else if test (count $positional) -eq 2; and not string match -qr '/|^(all|sources|images|artifacts)$' -- $positional[2]
        equate get $positional[2] $options -o name 2>/dev/null | string replace -r '.*/' ''
    end
end
complete -c equate -n '__fish_seen_subcommand_from get tree explain trace export debug reconcile suspend resume' -f -a '(__equate_names)'
