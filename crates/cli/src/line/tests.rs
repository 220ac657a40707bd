use super::{command, parse};
use equate_controllers::all;

/// Checks parts of the parsed command, or of the first line of the error.
fn check(line: &str, expected: &[&str]) {
    let printed = match parse(line.split_whitespace(), &all()) {
        Ok(cli) => format!("{:?}", cli.command),
        Err(error) => error.to_string(),
    };
    for part in expected {
        assert!(printed.contains(part), "{line}: no {part} in\n{printed}");
    }
}

#[test]
fn command_line_definition_is_valid() {
    command(&all()).debug_assert();
}

#[test]
fn cluster_options_are_accepted_anywhere() {
    let place = ["kubeconfig: Some(\"k\")", "context: Some(\"c\")", "\"n\""];
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
    // the nearer one wins
    check("equate -n m get ks -n n", &["namespace: Some(\"n\")"]);
    check("equate get ks", &["namespace: None", "context: None"]);
    check("equate -n n get ks -A", &["all_namespaces: true"]);
}

#[test]
fn last_value_of_an_option_wins() {
    check("equate get ks -n m -n n", &["namespace: Some(\"n\")"]);
    check(
        "equate controllers --concurrent=4 --concurrent=20",
        &["concurrent: 20"],
    );
    check("equate template . -f a -f b", &["\"a\"", "\"b\""]);
}

#[test]
fn options_without_effect_are_refused() {
    for (line, expected) in [
        ("equate --context c up", "remove --context"),
        (
            "equate up --kubeconfig k",
            "`equate up` runs its own cluster; remove --kubeconfig",
        ),
        ("equate api -n n", "remove --namespace"),
        (
            "equate -n n build .",
            "`equate build` uses no cluster; remove --namespace",
        ),
        (
            "equate build . --kubeconfig k",
            "uses no cluster; remove --kubeconfig",
        ),
        ("equate build --context c", "uses no cluster; remove --context"),
        (
            "equate --kubeconfig k version",
            "`equate version` uses no cluster",
        ),
        ("equate version -n n", "`equate version` uses no cluster"),
        (
            "equate --context c completion bash",
            "`equate completion` uses no",
        ),
        ("equate diff ks apps --no-remote-bases", "--path <DIR>"),
        (
            "equate diff ks apps --instead-of https://a.example/b=.",
            "--path <DIR>",
        ),
        ("equate diff ks apps --cache-dir c", "--path <DIR>"),
        (
            "equate diff -k web ks apps",
            "--kustomization <NAME> is an argument of `equate diff`",
        ),
        ("equate diff . ks apps", "[DIR] is an argument of `equate diff`"),
        (
            "equate build --enable-helm ks apps --path p",
            "--enable-helm is an argument of `equate build`",
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
fn aliases_and_output_formats_are_accepted() {
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
