//! Fleets: small repositories in which several Kustomizations declare one ConfigMap.
//!
//! The ConfigMap is `default/contested`. Its value names the Kustomization that wrote it, so a label and
//! a value of different Kustomizations reveal a second write.

/// The declared URL of the second repository, which is read from a directory.
pub(super) const OTHER_URL: &str = "https://example.org/other.git";

/// Files of one commit: path and text.
pub(super) type Files = Vec<(String, String)>;

#[derive(Debug)]
pub(super) struct Fleet {
    pub(super) name: &'static str,
    /// The commits, each run by its own session on kept state. The last one is judged.
    pub(super) commits: Vec<Files>,
    pub(super) other: Option<Files>,
    /// The Kustomization that must own the object; `None` where the first holder keeps it.
    pub(super) owner: Option<&'static str>,
}

pub(super) const ROOT: &str = "clusters";

/// All fleets, the most common cases first.
pub(super) fn all() -> Vec<Fleet> {
    let one = |name, commit: Vec<Files>, owner| Fleet {
        name,
        commits: vec![commit.concat()],
        other: None,
        owner: Some(owner),
    };
    vec![
        one(
            "two siblings",
            vec![contender("a").files(), contender("b").files()],
            "flux-system/a",
        ),
        one(
            "three siblings",
            vec![
                contender("a").files(),
                contender("b").files(),
                contender("c").files(),
            ],
            "flux-system/a",
        ),
        one("the second by name comes first", nested(), "flux-system/b"),
        one(
            "the first waits for a third",
            vec![
                contender("a").with("dependsOn: [{ name: c }]").files(),
                contender("b").files(),
                bystander("c").files(),
            ],
            "flux-system/a",
        ),
        one(
            "the first waits for the second",
            vec![
                contender("a").with("dependsOn: [{ name: b }]").files(),
                contender("b").files(),
            ],
            "flux-system/b",
        ),
        one(
            "the first cannot be built",
            vec![
                contender("a").broken().files(),
                contender("b").files(),
                contender("c").files(),
            ],
            "flux-system/b",
        ),
        one(
            "the first two wait for each other",
            vec![
                contender("a").with("dependsOn: [{ name: b }]").files(),
                contender("b").with("dependsOn: [{ name: a }]").files(),
                contender("c").files(),
            ],
            "flux-system/c",
        ),
        one(
            "the first is suspended",
            vec![
                contender("a").with("suspend: true").files(),
                contender("b").files(),
                contender("c").files(),
            ],
            "flux-system/b",
        ),
        one(
            "a parent and its child",
            vec![
                vec![(
                    format!("{ROOT}/contested.yaml"),
                    config_map("contested", "flux-system"),
                )],
                contender("a").files(),
            ],
            "flux-system/flux-system",
        ),
        one("two namespaces", two_namespaces(), "apps/z"),
        one(
            "both wait for health",
            vec![
                contender("a").with("wait: true").files(),
                contender("b").with("wait: true").files(),
                bystander("c").with("wait: true").files(),
            ],
            "flux-system/a",
        ),
        different_sources(
            "different sources, one after the other",
            "dependsOn: [{ name: b }]",
            Some("flux-system/b"),
        ),
        held_since_an_earlier_commit(),
        different_sources("different sources, at the same time", "", None),
    ]
}

/// `b` is a child of the root and exists before `a`, which is a grandchild.
fn nested() -> Vec<Files> {
    vec![
        contender("b").files(),
        vec![
            declaration(ROOT, "flux-system", "nest", "./nest", ""),
            declaration("nest", "flux-system", "a", "./a", ""),
            ("a/contested.yaml".into(), config_map("contested", "a")),
        ],
    ]
}

fn two_namespaces() -> Vec<Files> {
    let namespace = |name: &str| {
        let text = format!("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {name}\n");
        (format!("{ROOT}/namespace-{name}.yaml"), text)
    };
    vec![
        vec![namespace("apps"), namespace("teams")],
        contender("z").within("apps").files(),
        contender("a").within("teams").files(),
    ]
}

/// `a` reads another repository than `b`.
fn different_sources(name: &'static str, more: &str, owner: Option<&'static str>) -> Fleet {
    let source = format!(
        "apiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\nmetadata:\n  name: other\n  \
         namespace: flux-system\nspec:\n  interval: 1m\n  ref:\n    branch: main\n  url: {OTHER_URL}\n"
    );
    let (path, text) = declaration(ROOT, "flux-system", "a", "./", more);
    let text = text.replace("    name: flux-system\n", "    name: other\n");
    let first = [
        vec![(format!("{ROOT}/other.yaml"), source), (path, text)],
        contender("b").files(),
    ];
    Fleet {
        name,
        commits: vec![first.concat()],
        other: Some(vec![("contested.yaml".into(), config_map("contested", "a"))]),
        owner,
    }
}

/// `b` holds the object since the first commit; the second declares it for `a` as well.
fn held_since_an_earlier_commit() -> Fleet {
    Fleet {
        name: "held since an earlier commit",
        commits: vec![
            [bystander("a").files(), contender("b").files()].concat(),
            vec![("a/contested.yaml".into(), config_map("contested", "a"))],
        ],
        other: None,
        owner: Some("flux-system/b"),
    }
}

struct Member {
    namespace: &'static str,
    name: &'static str,
    /// More lines of its spec.
    more: String,
    contends: bool,
    broken: bool,
}

fn contender(name: &'static str) -> Member {
    Member {
        namespace: "flux-system",
        name,
        more: String::new(),
        contends: true,
        broken: false,
    }
}

/// A member that declares only its own objects.
fn bystander(name: &'static str) -> Member {
    Member {
        contends: false,
        ..contender(name)
    }
}

impl Member {
    fn with(mut self, line: &str) -> Self {
        self.more = line.to_owned();
        self
    }

    fn within(self, namespace: &'static str) -> Self {
        Self { namespace, ..self }
    }

    fn broken(self) -> Self {
        Self { broken: true, ..self }
    }

    fn files(&self) -> Files {
        let name = self.name;
        let mut files = vec![
            declaration(ROOT, self.namespace, name, &format!("./{name}"), &self.more),
            (
                format!("{name}/own.yaml"),
                config_map(&format!("of-{name}"), name),
            ),
        ];
        if self.contends {
            files.push((format!("{name}/contested.yaml"), config_map("contested", name)));
        }
        if self.broken {
            let text = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n\
                        resources: [contested.yaml, missing.yaml]\n";
            files.push((format!("{name}/kustomization.yaml"), text.into()));
        }
        files
    }
}

/// The file that declares a Kustomization of the root's source for a directory.
fn declaration(directory: &str, namespace: &str, name: &str, path: &str, more: &str) -> (String, String) {
    let mut text = format!(
        "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata:\n  name: {name}\n  \
         namespace: {namespace}\nspec:\n  interval: 10m\n  path: {path}\n  prune: true\n  sourceRef:\n    \
         kind: GitRepository\n    name: flux-system\n    namespace: flux-system\n"
    );
    if !more.is_empty() {
        text.push_str(&format!("  {more}\n"));
    }
    (format!("{directory}/{namespace}-{name}.yaml"), text)
}

fn config_map(name: &str, value: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: default\ndata:\n  value: {value}\n"
    )
}
