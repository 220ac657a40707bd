//! Errors: their places and texts, limits included.

use crate::memory::Memory;
use equate_kustomize::{Limits, LoadRestriction, Loaders, Options, Order, Stop, kustomize, kustomize_with};

const MANIFEST: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n";
const DEPLOYMENT: &str =
    "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: 1}\n";

fn failure(files: &[(&str, &str)], options: &Options) -> String {
    match kustomize(&Memory::new(files), "k", options) {
        Ok(built) => panic!("{files:?} builds {} objects", built.objects.len()),
        Err(error) => error.to_string(),
    }
}

#[test]
fn broken_links_are_explained() {
    let mut tree = Memory::new(&[]);
    for (link, target) in [
        ("k/round", "round"),
        ("k/there", "back"),
        ("k/back", "there"),
        ("k/away", "../../x"),
        ("k/absolute", "/etc"),
        ("k/dangling", "gone"),
    ] {
        tree.link(link, target);
    }
    for (entry, expected) in [
        (
            "round",
            "too many links: the symbolic links of 'round' form a cycle",
        ),
        (
            "there/c.yaml",
            "too many links: the symbolic links of 'there/c.yaml' form a cycle",
        ),
        (
            "away",
            "security; 'away' is not read: the symbolic link 'k/away' leads out of the source",
        ),
        (
            "absolute/passwd",
            "security; 'absolute/passwd' is not read: the symbolic link 'k/absolute' leads out of the source",
        ),
        ("dangling", "no such file or directory: 'dangling'"),
    ] {
        for field in ["resources", "components", "crds"] {
            let text = format!("{field}: [{entry}]\n");
            let tree = tree.with("k/kustomization.yaml", &text);
            let error = kustomize(&tree, "k", &Options::default()).unwrap_err();
            let expected = format!("k/kustomization.yaml:1:{}: {expected}", field.len() + 4);
            assert_eq!(error.to_string(), expected, "{text}");
        }
    }
}

#[test]
fn warnings_equal_kustomize() {
    const VARS: &str = "# Warning: 'vars' is deprecated. Please use 'replacements' instead. [EXPERIMENTAL] Run 'kustomize edit fix' to update your Kustomization automatically.";
    const LABELS: &str = "# Warning: 'commonLabels' is deprecated. Please use 'labels' instead. Run 'kustomize edit fix' to update your Kustomization automatically.";
    const ORDER: &str = "Warning: Sorting order is set both in 'kustomization.yaml' ('sortOptions') and in a CLI flag ('--reorder'). Using the kustomization file over the CLI flag.";
    let var =
        |name: &str| format!("- {{name: {name}, objref: {{apiVersion: v1, kind: ConfigMap, name: c}}}}\n");
    let vars = format!(
        "resources: [c.yaml, pod.yaml]\nvars:\n{}{}{}",
        var("Z"),
        var("USED"),
        var("A")
    );
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: x, image: x, args: [$(USED)]}]}\n";
    for (kustomization, asked, expected) in [
        (
            vars.as_str(),
            false,
            vec![VARS, "well-defined vars that were never replaced: A,Z"],
        ),
        (
            "resources: [c.yaml]\nsortOptions: {order: fifo}\n",
            true,
            vec![ORDER],
        ),
        ("resources: [c.yaml]\nsortOptions: {order: fifo}\n", false, vec![]),
        ("resources: [c.yaml]\n", true, vec![]),
        // the build fails afterwards
        (
            "commonLabels: {a: b}\nresources: [gone.yaml]\n",
            true,
            vec![LABELS],
        ),
        (
            "commonLabels: {a: b}\nresources: [gone]\nbases: [other]\n",
            false,
            vec![
                "# Warning: 'bases' is deprecated. Please use 'resources' instead. Run 'kustomize edit fix' to update your Kustomization automatically.",
                LABELS,
            ],
        ),
    ] {
        let tree = [
            ("k/kustomization.yaml", kustomization),
            ("k/c.yaml", MANIFEST),
            ("k/pod.yaml", pod),
        ];
        let options = Options {
            order: Order::Legacy,
            order_asked: asked,
            ..Options::default()
        };
        let told = match kustomize(&Memory::new(&tree), "k", &options) {
            Ok(built) => {
                let deprecations = built.deprecations.iter().map(ToString::to_string);
                deprecations.chain(built.warnings).collect()
            }
            Err(error) => error.warnings,
        };
        assert_eq!(told, expected, "{kustomization}");
    }
}

#[test]
fn a_build_can_be_stopped() {
    let stop = Stop::default();
    let tree = Memory::new(&[
        ("k/kustomization.yaml", "resources: [c.yaml]\n"),
        ("k/c.yaml", MANIFEST),
    ]);
    let built = || {
        let loaders = Loaders {
            stop: Some(&stop),
            ..Loaders::default()
        };
        let built = kustomize_with(&tree, "k", &Options::default(), loaders);
        built
            .map(|built| built.objects.len())
            .map_err(|error| error.to_string())
    };
    assert_eq!(built(), Ok(1));
    stop.stop();
    assert_eq!(
        built(),
        Err("k/kustomization.yaml: the build was stopped".to_owned())
    );
}

#[test]
fn paths_are_rewritten_in_messages() {
    let tree = Memory::new(&[
        ("a/kustomization.yaml", "resources: [../b]\n"),
        ("b/kustomization.yaml", "resources: [x.yaml]\n"),
        ("b/x.yaml", "{"),
        ("c/kustomization.yaml", "resources: [../b/x.yaml]\n"),
        ("d/x", ""),
    ]);
    for (dir, expected) in [
        (
            "./a",
            "fleet@v1:b/x.yaml:1:1: unclosed bracket '{'; included from fleet@v1:a/kustomization.yaml:1:13",
        ),
        (
            "c",
            "fleet@v1:c/kustomization.yaml:1:13: security; file 'fleet@v1:b/x.yaml' is not in or below 'fleet@v1:c'",
        ),
        (
            "./d",
            "fleet@v1:d: unable to find one of 'kustomization.yaml', 'kustomization.yml' or 'Kustomization' in directory 'fleet@v1:d'",
        ),
        ("./e", "fleet@v1:e: no such file or directory: './e'"),
    ] {
        let options = Options {
            restriction: LoadRestriction::Root,
            ..Options::default()
        };
        let error = kustomize(&tree, dir, &options).unwrap_err();
        assert_eq!(error.with_path_prefix("fleet@v1:").to_string(), expected);
    }
}

#[test]
fn errors_name_their_place() {
    let mut wrong = Vec::new();
    let mut check = |kustomization: &str, files: &[(&str, &str)], expected: &str| {
        let mut all = vec![
            ("k/kustomization.yaml", kustomization),
            ("k/c.yaml", MANIFEST),
            ("k/d.yaml", DEPLOYMENT),
        ];
        all.extend_from_slice(files);
        let options = Options {
            restriction: LoadRestriction::Root,
            ..Options::default()
        };
        let found = failure(&all, &options);
        if found != expected {
            wrong.push(format!(
                "{kustomization}\n  expected {expected}\n  found    {found}"
            ));
        }
    };
    check("a: [", &[], "k/kustomization.yaml:1:4: unclosed bracket '['");
    check(
        "# nothing\n",
        &[],
        "k/kustomization.yaml:1:1: kustomization.yaml is empty",
    );
    check(
        "kind: Kustomization\n",
        &[],
        "k/kustomization.yaml:1:1: kustomization.yaml is empty",
    );
    check(
        "resources: [c.yaml]\nspec: {}\n",
        &[],
        "k/kustomization.yaml:2:7: invalid Kustomization: json: unknown field \"spec\"",
    );
    check(
        "resources: [c.yaml]\nNamePrefix: [a]\n",
        &[],
        "k/kustomization.yaml:2:13: invalid Kustomization: NamePrefix must be a string, but is of type array",
    );
    check(
        "resources: [c.yaml]\ncommonLabels: {a: 1}\n",
        &[],
        "k/kustomization.yaml:2:19: invalid Kustomization: commonLabels.a must be a string, but is of type number",
    );
    check(
        "kind: Other\nresources: [c.yaml]\n",
        &[],
        "k/kustomization.yaml:1:7: kind should be Kustomization or Component",
    );
    check(
        "apiVersion: v2\nresources: [c.yaml]\n",
        &[],
        "k/kustomization.yaml:1:13: apiVersion for Kustomization should be kustomize.config.k8s.io/v1beta1",
    );
    check(
        "resources:\n- c.yaml\n- gone\n",
        &[],
        "k/kustomization.yaml:3:3: no such file or directory: 'gone'",
    );
    const EMPTY: &str =
        "new root cannot be empty: an entry names a file, a directory or a URL, and this one is \"\"";
    check(
        "resources:\n- c.yaml\n- ''\n",
        &[],
        &format!("k/kustomization.yaml:3:3: {EMPTY}"),
    );
    check(
        "resources: [c.yaml]\ncomponents: ['']\n",
        &[],
        &format!("k/kustomization.yaml:2:14: {EMPTY}"),
    );
    check(
        "resources:\n- c.yaml\n- e.yaml\n",
        &[("k/e.yaml", MANIFEST)],
        "k/kustomization.yaml:3:3: may not add resource with an already registered id: ConfigMap.v1.[noGrp]/c.[noNs]",
    );
    check(
        "resources: [../x.yaml]\n",
        &[("x.yaml", MANIFEST)],
        "k/kustomization.yaml:1:13: security; file 'x.yaml' is not in or below 'k'",
    );
    check(
        "resources: [e.yaml]\n",
        &[("k/e.yaml", "kind: A\nmetadata: {name: a}\n---\nkind: B\n  x: y\n")],
        "k/e.yaml:5:4: mapping values are not allowed in this context",
    );
    check(
        "resources: [e.yaml]\n",
        &[("k/e.yaml", "apiVersion: v1\nkind: Secret\n")],
        "k/e.yaml:1:1: missing metadata.name in object: v1 Secret",
    );
    check(
        "bases: ['https://github.com/a/b?ref=v1']\n",
        &[],
        "k/kustomization.yaml:1:9: https://github.com/a/b?ref=v1 is remote, and remote bases are refused here: commit a copy and name its directory",
    );
    check(
        "resources: ['git@github.com:a/b']\n",
        &[],
        "k/kustomization.yaml:1:13: git@github.com:a/b is remote, and remote bases are refused here: commit a copy and name its directory",
    );
    check(
        "helmCharts: [{name: x}]\n",
        &[],
        "k/kustomization.yaml:1:13: must specify --enable-helm",
    );
    check(
        "transformers:\n- |-\n  apiVersion: example.com/v1\n  kind: Mine\n  metadata: {name: x}\n",
        &[],
        "k/kustomization.yaml:3:3: external plugins disabled; unable to load external plugin 'Mine'",
    );
    check(
        "resources: [d.yaml]\npatches:\n- patch: |-\n    apiVersion: apps/v1\n    kind: Deployment\n    metadata: {name: other}\n",
        &[],
        "k/kustomization.yaml:3:3: no resource matches strategic merge patch \"Deployment.v1.apps/other.[noNs]\": no matches for Id Deployment.v1.apps/other.[noNs]; failed to find unique target for patch Deployment.v1.apps/other.[noNs]",
    );
    check(
        "resources: [d.yaml]\npatches: [{patch: '[{\"op\": \"remove\", \"path\": \"/x/y\"}]', target: {kind: Deployment}}]\n",
        &[],
        "k/kustomization.yaml:2:11: JSON patch of Deployment.v1.apps/web.[noNs]: remove operation does not apply: doc is missing path: \"/x/y\": missing value",
    );
    check(
        "resources: [d.yaml]\npatches: [{path: p.yaml, target: {name: '('}}]\n",
        &[("k/p.yaml", DEPLOYMENT)],
        "k/kustomization.yaml:2:11: \"(\" is not a regular expression: unclosed group",
    );
    check(
        "resources: [d.yaml]\nreplicas: [{name: nope, count: 2}]\n",
        &[],
        "k/kustomization.yaml:2:12: resource with name nope does not match a config with the following GVK [Deployment.[noVer].[noGrp] ReplicationController.[noVer].[noGrp] ReplicaSet.[noVer].[noGrp] StatefulSet.[noVer].[noGrp]]",
    );
    check(
        "configMapGenerator:\n- name: c\n  literals: [a=1, a=2]\n",
        &[],
        "k/kustomization.yaml:2:3: configmap c illegally repeats the key `a`",
    );
    check(
        "configMapGenerator: [{name: c, literals: [=a]}]\n",
        &[],
        "k/kustomization.yaml:1:22: invalid literal source, expected key=value: literal 1 of generator \"c\"",
    );
    // a possible secret is not in a message that ends up in a status condition
    check(
        "secretGenerator: [{name: s, literals: [a=1, hunter2]}]\n",
        &[],
        "k/kustomization.yaml:1:19: invalid literal source, expected key=value: literal 2 of generator \"s\"",
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_kustomization_is_empty_if_nothing_is_set() {
    for (text, empty) in [
        ("resources: []\n", false),
        ("resources:\n", true),
        ("namePrefix: ''\n", true),
        ("commonLabels: {}\n", false),
        ("metadata: {name: x}\n", false),
        ("bases: []\n", true),
    ] {
        let built = kustomize(
            &Memory::new(&[("k/kustomization.yaml", text)]),
            "k",
            &Options::default(),
        );
        assert_eq!(built.is_err(), empty, "{text}");
    }
}

#[test]
fn cycles_are_errors() {
    let files = [
        ("k/kustomization.yaml", "resources: [../a]\n"),
        ("a/kustomization.yaml", "resources: [../k]\n"),
    ];
    assert_eq!(
        failure(&files, &Options::default()),
        "a/kustomization.yaml:1:13: cycle detected: candidate root 'k' contains visited root 'k'; included from \
         k/kustomization.yaml:1:13"
    );
    let files = [
        ("k/kustomization.yaml", "resources: [..]\n"),
        ("kustomization.yaml", "resources: [k]\n"),
    ];
    assert_eq!(
        failure(&files, &Options::default()),
        "k/kustomization.yaml:1:13: cycle detected: candidate root '.' contains visited root 'k'"
    );
}

#[test]
fn limits_are_errors_that_name_them() {
    let files = [
        ("k/kustomization.yaml", "resources: [c.yaml, ../b]\n"),
        ("k/c.yaml", MANIFEST),
        ("b/kustomization.yaml", "resources: [d.yaml]\n"),
        ("b/d.yaml", DEPLOYMENT),
    ];
    let check = |limit: &dyn Fn(&mut Limits), expected: &str| {
        let mut options = Options::default();
        limit(&mut options.limits);
        assert_eq!(failure(&files, &options), expected);
    };
    check(
        &|limits| limits.files_max = 2,
        "b/kustomization.yaml: the build reads more than 2 files; included from k/kustomization.yaml:1:21",
    );
    check(
        &|limits| limits.bytes_max = 30,
        "k/kustomization.yaml:1:13: the build reads more than 30 bytes",
    );
    check(
        &|limits| limits.file_bytes_max = 30,
        "k/kustomization.yaml:1:13: file 'k/c.yaml' is longer than 30 bytes",
    );
    check(
        &|limits| limits.depth_max = 1,
        "k/kustomization.yaml:1:21: bases and components are nested deeper than 1 levels",
    );
    check(
        &|limits| limits.objects_max = 1,
        "k/kustomization.yaml: the build has more than 1 objects",
    );
}

/// Runs a build that would never end or exhaust memory without limits.
fn endless(files: &[(&str, &str)], limit: impl Fn(&mut Limits), expected: &str) {
    let mut options = Options::default();
    limit(&mut options.limits);
    assert_eq!(failure(files, &options), expected);
}

#[test]
fn definitions_that_double_are_refused() {
    let properties = |next: usize| {
        let refs = |letter: char| format!(r#""{letter}": {{"$ref": "x.D{next}"}}"#);
        let all: Vec<String> = "abcdef".chars().map(refs).collect();
        all.join(", ")
    };
    let own = r#""apiVersion": {}, "kind": {}, "metadata": {}"#;
    let definition = |at: usize| {
        format!(
            r#""x.D{at}": {{"Schema": {{"properties": {{{own}, {}}}}}}}"#,
            properties(at + 1)
        )
    };
    let chain: Vec<String> = (0..30).map(definition).collect();
    let chain = format!("{{{}}}", chain.join(", "));
    endless(
        &[
            ("k/kustomization.yaml", "crds: [d.json]\nresources: [c.yaml]\n"),
            ("k/d.json", &chain),
            ("k/c.yaml", MANIFEST),
        ],
        |_| {},
        "k/d.json: the definitions refer to more than 200000 properties",
    );
}

#[test]
fn recursive_definitions_terminate() {
    let refs = |letter: char| format!(r#""{letter}": {{"$ref": "x.Foo"}}"#);
    let refs: Vec<String> = "abcdef".chars().map(refs).collect();
    let definitions = format!(
        r#"{{"x.Foo": {{"Schema": {{"properties": {{"apiVersion": {{}}, "kind": {{}}, "metadata": {{}}, {}}}}}}}}}"#,
        refs.join(", ")
    );
    let tree = Memory::new(&[
        ("k/kustomization.yaml", "crds: [d.json]\nresources: [c.yaml]\n"),
        ("k/d.json", &definitions),
        ("k/c.yaml", MANIFEST),
    ]);
    assert_eq!(
        kustomize(&tree, "k", &Options::default()).unwrap().objects.len(),
        1
    );
}

#[test]
fn replacements_that_double_are_refused() {
    let replacement = "- source: {kind: ConfigMap, fieldPath: data.x}\n  targets:\n  - select: {kind: ConfigMap}\n    \
                       fieldPaths: [data.x]\n    options: {delimiter: q, index: -1}\n";
    let kustomization = format!("resources: [c.yaml]\nreplacements:\n{}", replacement.repeat(60));
    let manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {x: text}\n";
    endless(
        &[("k/kustomization.yaml", &kustomization), ("k/c.yaml", manifest)],
        |limits| limits.made_bytes_max = 1 << 20,
        "k/kustomization.yaml:83:3: the build produces more than 1048576 bytes",
    );
    let nested = "- source: {kind: ConfigMap, fieldPath: data}\n  targets:\n  - select: {kind: ConfigMap}\n    \
                  fieldPaths: [data.y]\n    options: {create: true}\n";
    let kustomization = format!("resources: [c.yaml]\nreplacements:\n{}", nested.repeat(600));
    endless(
        &[("k/kustomization.yaml", &kustomization), ("k/c.yaml", manifest)],
        |_| {},
        "k/kustomization.yaml:2548:3: values are nested deeper than 512 levels",
    );
}

#[test]
fn common_values_count_per_object() {
    use std::fmt::Write as _;
    let manifests = (0..300).fold(String::new(), |mut all, at| {
        let _ = write!(
            all,
            "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c{at}}}\n"
        );
        all
    });
    let long = "x".repeat(10 << 10);
    for (field, place) in [
        (format!("namePrefix: {long}\n"), "2:13"),
        (format!("nameSuffix: {long}\n"), "2:13"),
        (format!("namespace: {long}\n"), "2:12"),
        (format!("commonAnnotations: {{a: {long}}}\n"), "2:20"),
        (format!("commonLabels: {{a: {long}}}\n"), "2:15"),
        (
            format!(
                "patches:\n- target: {{kind: ConfigMap}}\n  patch: '{{kind: ConfigMap, metadata: {{name: c}}, data: {{a: {long}}}}}'\n"
            ),
            "3:3",
        ),
        (
            format!(
                "patches:\n- target: {{kind: ConfigMap}}\n  patch: '[{{\"op\": \"add\", \"path\": \"/data\", \
                 \"value\": {{\"a\": \"{long}\"}}}}]'\n"
            ),
            "3:3",
        ),
    ] {
        let kustomization = format!("resources: [c.yaml]\n{field}");
        let mut options = Options::default();
        options.limits.made_bytes_max = 2 << 20;
        let files = [
            ("k/kustomization.yaml", kustomization.as_str()),
            ("k/c.yaml", &manifests),
        ];
        let found = failure(&files, &options);
        assert!(
            found.starts_with(&format!("k/kustomization.yaml:{place}: "))
                && found.ends_with("the build produces more than 2097152 bytes"),
            "{found}"
        );
    }
}

#[test]
fn bases_that_double_are_refused() {
    let files: Vec<(String, String)> = (0..30)
        .flat_map(|at| {
            let next = at + 1;
            let text = match at {
                29 => "resources: [c.yaml]\n".to_owned(),
                _ => format!("resources: [../d{next}, ../e{next}]\n"),
            };
            [
                (format!("d{at}/kustomization.yaml"), text.clone()),
                (format!("e{at}/kustomization.yaml"), text),
            ]
        })
        .collect();
    let mut all: Vec<(&str, &str)> = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    let top = ("k/kustomization.yaml", "resources: [../d0]\n");
    // bases that contain only bases do not collide
    let empty = "apiVersion: v1\nkind: List\nmetadata: {name: l}\nitems: []\n";
    all.extend([top, ("d29/c.yaml", empty), ("e29/c.yaml", empty)]);
    let mut options = Options::default();
    options.limits.kustomizations_max = 2_000;
    let found = failure(&all, &options);
    assert!(
        found.contains(
            ": the build uses more than 2000 kustomizations: bases that list bases more than once multiply them; \
             included from "
        ) && found.ends_with(", and 20 more"),
        "{found}"
    );
}

#[test]
fn expressions_beyond_a_total_are_refused() {
    // equal ones are compiled once
    let patch = |at| format!("- target: {{name: '(.*a.*b.*c){{50}}N{at}'}}\n  patch: '[]'\n");
    let patches: String = (0..2_000).map(patch).collect();
    let kustomization = format!("resources: [c.yaml]\npatches:\n{patches}");
    endless(
        &[("k/kustomization.yaml", &kustomization), ("k/c.yaml", MANIFEST)],
        |limits| limits.pattern_bytes_max = 4 << 20,
        "k/kustomization.yaml:35:3: the regular expressions of the build take more than 4194304 bytes",
    );
}
