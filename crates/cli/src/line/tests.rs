use super::{command, parse};
use equate_controllers::all;

/// What is read of the words, as far as the fields that are named; or the first line of the refusal.
fn check(line: &str, expected: &[&str]) {
    let said = match parse(line.split_whitespace(), &all()) {
        Ok(cli) => format!("{:?}", cli.command),
        Err(error) => error.to_string(),
    };
    for part in expected {
        assert!(said.contains(part), "{line}: no {part} in\n{said}");
    }
}

#[test]
fn the_command_line_is_sound() {
    command(&all()).debug_assert();
}

#[test]
fn where_to_look_may_stand_anywhere() {
    let place = [
        "kubeconfig: Some(\"k\")",
        "context: Some(\"c\")",
        "namespace: \"n\"",
    ];
    for line in [
        "equate --kubeconfig k --context c -n n get ks",
        "equate get --kubeconfig k --context c -n n ks",
        "equate --context c get ks --kubeconfig=k --namespace n",
        "equate -n n --kubeconfig k tree ks/apps --context c",
        "equate --kubeconfig k -n n events --context c",
        "equate --kubeconfig k reconcile ks/apps -n n --context c",
        "equate --kubeconfig k -n n resume ks/apps --context c",
        "equate --kubeconfig k -n n --context c diff ks apps --path p",
        "equate diff --kubeconfig k -n n --context c ks apps",
        "equate build --kubeconfig k -n n --context c kustomization apps --path p",
    ] {
        check(line, &place);
    }
    check("equate -n n diff", &["namespace: Some(\"n\")"]);
    // the one that stands nearer wins
    check("equate -n m get ks -n n", &["namespace: \"n\""]);
    check("equate get ks", &["namespace: \"flux-system\"", "context: None"]);
    check("equate -n n get ks -A", &["all_namespaces: true"]);
}

#[test]
fn the_last_of_an_option_counts() {
    check("equate get ks -n m -n n", &["namespace: \"n\""]);
    check(
        "equate controllers --concurrent=4 --concurrent=20",
        &["concurrent: 20"],
    );
    check("equate template . -f a -f b", &["\"a\"", "\"b\""]);
}

#[test]
fn what_would_be_passed_over_is_refused() {
    for (line, expected) in [
        ("equate --context c up", "--context means nothing to it"),
        (
            "equate up --kubeconfig k",
            "`equate up` runs a cluster of its own: --kubeconfig",
        ),
        ("equate api -n n", "--namespace means nothing to it"),
        (
            "equate -n n build .",
            "`equate build` asks no cluster: --namespace means nothing to it",
        ),
        ("equate build . --kubeconfig k", "asks no cluster: --kubeconfig"),
        ("equate build --context c", "asks no cluster: --context"),
        (
            "equate --kubeconfig k version",
            "`equate version` asks no cluster",
        ),
        ("equate version -n n", "`equate version` asks no cluster"),
        (
            "equate --context c completion bash",
            "`equate completion` asks no",
        ),
        ("equate diff ks apps --no-remote-bases", "--path <DIR>"),
        (
            "equate diff ks apps --instead-of https://a.example/b=.",
            "--path <DIR>",
        ),
        ("equate diff ks apps --cache-dir c", "--path <DIR>"),
        (
            "equate diff -k web ks apps",
            "--kustomization <NAME> belongs to `equate diff`",
        ),
        ("equate diff . ks apps", "[DIR] belongs to `equate diff`"),
        (
            "equate build --enable-helm ks apps --path p",
            "--enable-helm belongs to `equate build`",
        ),
        ("equate diff ks apps --recursive", "--path <DIR>"),
        ("equate build ks apps", "--path <DIR>"),
    ] {
        check(line, &[expected]);
    }
    check(
        "equate api --kubeconfig k",
        &["Api(Args", "kubeconfig: Some(\"k\")"],
    );
    check(
        "equate diff ks apps --path p --no-remote-bases --cache-dir c",
        &["no_remote_bases: true", "cache_dir: Some(\"c\")"],
    );
}

#[test]
fn other_names_and_forms() {
    check("equate completions bash", &["Completion { shell: Bash }"]);
    check("equate version -o json", &["output: Some(Json)"]);
    check(
        "equate diff -o yaml ks apps",
        &["output: Some(Yaml)", "path: None"],
    );
    check(
        "equate diff ks apps -o yaml --path p",
        &["output: Some(Yaml)", "path: Some(\"p\")"],
    );
}
