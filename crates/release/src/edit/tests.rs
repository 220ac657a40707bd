use super::{Change, copy, set_versions};
use crate::artifact::{Artifact, Subject, Version};
use crate::config::Config;
use crate::fleet::Fleet;
use crate::overlay::Memory;

pub(crate) fn tree(files: &[(&str, &str)]) -> Memory {
    files.iter().fold(Memory::default(), |tree, (path, text)| {
        tree.with(path, (*text).to_owned())
    })
}

fn deployment(name: &str, image: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {name}\nspec:\n  selector:\n    matchLabels: \
         {{app: {name}}}\n  template:\n    metadata:\n      labels: {{app: {name}}}\n    spec:\n      containers:\n\
         \x20     - name: {name}\n        image: {image}  # pinned\n"
    )
}

fn image(name: &str, version: &str) -> Artifact {
    let mut artifact = Artifact::default();
    artifact.set(Subject::Image(name.to_owned()), Version::parse(version).unwrap());
    artifact
}

fn config(services: &str) -> Config {
    let text = format!("version: 1\nenvironments: [dev, prod]\nservices: {services}\n");
    Config::parse("equate.yaml", &text).unwrap()
}

/// Sets a version in prod; returns the changes and the changed texts, or the error.
fn set(files: &[(&str, &str)], services: &str, service: &str, wanted: &Artifact) -> String {
    let (tree, config) = (tree(files), config(services));
    let fleet = Fleet::build(&tree, &config);
    match set_versions(&tree, &config, &fleet, ("prod", service), wanted) {
        Ok(edited) => {
            let lines = edited.changes.iter().map(|change: &Change| {
                let Change {
                    path,
                    line,
                    key,
                    old,
                    new,
                } = change;
                format!("{path}:{line} {key}: {old} -> {new}\n")
            });
            let mut text: String = lines.collect();
            for (path, content) in &edited.files {
                let content = content.as_deref().unwrap_or_default();
                let new = std::str::from_utf8(content).unwrap();
                let old = files
                    .iter()
                    .find(|(known, _)| known == path)
                    .map_or("", |(_, text)| text);
                for line in similar(old, new) {
                    text.push_str(&line);
                }
            }
            text
        }
        Err(error) => format!("error: {error}\n"),
    }
}

/// Lines that only one of the texts has.
fn similar(old: &str, new: &str) -> Vec<String> {
    let removed = old
        .lines()
        .filter(|line| !new.lines().any(|other| other == *line));
    let added = new
        .lines()
        .filter(|line| !old.lines().any(|other| other == *line));
    removed
        .map(|line| format!("-{line}\n"))
        .chain(added.map(|line| format!("+{line}\n")))
        .collect()
}

const BASE: &str = "resources: [deployment.yaml]\n";

fn kustomization(images: &str) -> String {
    format!("# overlay\nresources:\n- ../../../base/cart  # shared\n{images}")
}

#[test]
fn entry_of_images_is_edited_in_place() {
    let base = deployment("cart", "registry.example/cart:0.0.0");
    let prod = kustomization("images:\n- name: registry.example/cart\n  newTag: 2.3.9 # {\"x\": 1}\n");
    let dev = kustomization("images:\n- name: registry.example/cart\n  newTag: \"2.4.1\"\n");
    let files = [
        ("base/cart/kustomization.yaml", BASE),
        ("base/cart/deployment.yaml", &base),
        ("apps/prod/cart/kustomization.yaml", &prod),
        ("apps/dev/cart/kustomization.yaml", &dev),
    ];
    let pattern = "apps/{environment}/{service}";
    assert_eq!(
        set(&files, pattern, "cart", &image("registry.example/cart", "2.4.1")),
        "apps/prod/cart/kustomization.yaml:6 newTag: 2.3.9 -> 2.4.1\n\
         -  newTag: 2.3.9 # {\"x\": 1}\n+  newTag: 2.4.1 # {\"x\": 1}\n"
    );
    // a digest is added beside the tag
    assert_eq!(
        set(
            &files,
            pattern,
            "cart",
            &image("registry.example/cart", "2.4.1@sha256:ab")
        ),
        "apps/prod/cart/kustomization.yaml:6 digest:  -> sha256:ab\n\
         apps/prod/cart/kustomization.yaml:6 newTag: 2.3.9 -> 2.4.1\n\
         -  newTag: 2.3.9 # {\"x\": 1}\n+  newTag: 2.4.1 # {\"x\": 1}\n+  digest: sha256:ab\n"
    );
    // another registry of the same image
    assert_eq!(
        set(&files, pattern, "cart", &image("mirror.example/x/cart", "1.10")),
        "apps/prod/cart/kustomization.yaml:6 newTag: 2.3.9 -> 1.10\n\
         -  newTag: 2.3.9 # {\"x\": 1}\n+  newTag: \"1.10\" # {\"x\": 1}\n"
    );
    assert_eq!(
        set(&files, pattern, "cart", &image("registry.example/cart", "2.3.9")),
        ""
    );
    assert_eq!(
        set(&files, pattern, "crat", &Artifact::default()),
        "error: prod has no service crat; add its manifests there first\n"
    );
}

#[test]
fn new_name_stays_with_its_environment() {
    let base = deployment("cart", "cart");
    let prod = kustomization("images:\n- name: cart\n  newName: eu.example/shop/cart\n  newTag: 2.3.9\n");
    let files = [
        ("base/cart/kustomization.yaml", BASE),
        ("base/cart/deployment.yaml", &base),
        ("apps/prod/cart/kustomization.yaml", &prod),
    ];
    assert_eq!(
        set(
            &files,
            "apps/{environment}/{service}",
            "cart",
            &image("us.example/shop/cart", "2.4.1")
        ),
        "apps/prod/cart/kustomization.yaml:7 newTag: 2.3.9 -> 2.4.1\n-  newTag: 2.3.9\n+  newTag: 2.4.1\n"
    );
}

#[test]
fn version_of_a_shared_base_is_overridden() {
    let base = deployment("cart", "registry.example/cart:2.3.9");
    let (prod, dev) = (kustomization(""), kustomization(""));
    let files = [
        ("base/cart/kustomization.yaml", BASE),
        ("base/cart/deployment.yaml", &base),
        ("apps/prod/cart/kustomization.yaml", &prod),
        ("apps/dev/cart/kustomization.yaml", &dev),
    ];
    assert_eq!(
        set(
            &files,
            "apps/{environment}/{service}",
            "cart",
            &image("registry.example/cart", "2.4.1")
        ),
        "apps/prod/cart/kustomization.yaml:4 images: cart: 2.3.9 -> 2.4.1\n\
         +images:\n+- name: registry.example/cart\n+  newTag: 2.4.1\n"
    );
}

#[test]
fn chart_version_of_a_shared_base_is_refused_with_its_file() {
    let release = "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata:\n  name: podinfo\n\
                   \x20 namespace: podinfo\nspec:\n  chart:\n    spec:\n      chart: podinfo\n      version: 6.5.0\n";
    let patch = "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata:\n  name: podinfo\n\
                 \x20 namespace: podinfo\nspec:\n  values: {a: b}\n";
    let with_version = patch.replace(
        "  values: {a: b}\n",
        "  chart:\n    spec:\n      version: '>=1.0.0' # range\n",
    );
    let overlay =
        "resources:\n- ../base/podinfo\npatches:\n- path: values.yaml\n  target: {kind: HelmRelease}\n";
    let mut files = vec![
        (
            "apps/base/podinfo/kustomization.yaml",
            "resources: [release.yaml]\n",
        ),
        ("apps/base/podinfo/release.yaml", release),
        ("apps/prod/kustomization.yaml", overlay),
        ("apps/prod/values.yaml", patch),
        ("apps/dev/kustomization.yaml", overlay),
        ("apps/dev/values.yaml", patch),
    ];
    let mut wanted = Artifact::default();
    wanted.set(Subject::Chart("podinfo".to_owned()), Version::tag("6.6.0"));
    assert_eq!(
        set(&files, "apps/{environment}", "podinfo", &wanted),
        "error: chart podinfo of prod is set in apps/base/podinfo/release.yaml:10, outside apps/prod; set it in \
         apps/prod, so that other environments keep theirs\n"
    );
    files[3].1 = &with_version;
    assert_eq!(
        set(&files, "apps/{environment}", "podinfo", &wanted),
        "apps/prod/values.yaml:9 version: >=1.0.0 -> 6.6.0\n\
         -      version: '>=1.0.0' # range\n+      version: '6.6.0' # range\n"
    );
}

#[test]
fn image_of_another_service_is_not_changed() {
    let (cart, ledger) = (deployment("cart", "proxy:1.0"), deployment("ledger", "proxy:1.0"));
    let files = [
        ("apps/prod/cart.yaml", cart.as_str()),
        ("apps/prod/ledger.yaml", ledger.as_str()),
    ];
    // two manifests: only the one of the service is edited
    assert_eq!(
        set(&files, "apps/{environment}", "cart", &image("proxy", "1.1")),
        "apps/prod/cart.yaml:14 image: proxy:1.0 -> proxy:1.1\n\
         -        image: proxy:1.0  # pinned\n+        image: proxy:1.1  # pinned\n"
    );
    // one entry for both services: refused
    let files = [
        files[0],
        files[1],
        (
            "apps/prod/kustomization.yaml",
            "resources: [cart.yaml, ledger.yaml]\nimages:\n- {name: proxy, newTag: \"1.0\"}\n",
        ),
    ];
    assert_eq!(
        set(&files, "apps/{environment}", "cart", &image("proxy", "1.1")),
        "error: setting proxy to 1.1 would also change Deployment ledger; nothing was written\n"
    );
}

#[test]
fn environment_that_uses_the_target_as_its_base_is_not_changed() {
    let cart = deployment("cart", "cart:1.0");
    let files = [
        ("apps/prod/cart/kustomization.yaml", "resources: [cart.yaml]\n"),
        ("apps/prod/cart/cart.yaml", &cart),
        (
            "apps/dev/cart/kustomization.yaml",
            "resources: [../../prod/cart]\n",
        ),
    ];
    assert_eq!(
        set(
            &files,
            "apps/{environment}/{service}",
            "cart",
            &image("cart", "1.1")
        ),
        "error: setting cart to 1.1 would also change Deployment cart in dev; nothing was written\n"
    );
}

#[test]
fn version_in_a_patch_s_text_is_overridden() {
    let patch = "patches:\n- target: {kind: Deployment}\n  patch: |\n    - op: replace\n      path: \
                 /spec/template/spec/containers/0/image\n      value: cart:1.0\n";
    let cart = deployment("cart", "cart:0.9");
    let overlay = format!("resources: [cart.yaml]\n{patch}");
    let files = [
        ("apps/prod/cart/kustomization.yaml", overlay.as_str()),
        ("apps/prod/cart/cart.yaml", &cart),
    ];
    assert_eq!(
        set(
            &files,
            "apps/{environment}/{service}",
            "cart",
            &image("cart", "1.1")
        ),
        "apps/prod/cart/kustomization.yaml:8 images: cart: 1.0 -> 1.1\n+images:\n+- name: cart\n\
         +  newTag: \"1.1\"\n"
    );
}

#[test]
fn directory_is_copied_except_what_stays() {
    let (old, new) = (deployment("cart", "cart:1"), deployment("cart", "cart:2"));
    let files = [
        ("envs/dev/cart/cart.yaml", new.as_str()),
        (
            "envs/dev/cart/extra.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n",
        ),
        (
            "envs/dev/cart/ingress.yaml",
            "apiVersion: v1\nkind: Service\nmetadata: {name: dev}\n",
        ),
        ("envs/prod/cart/cart.yaml", &old),
        (
            "envs/prod/cart/gone.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: y}\n",
        ),
        (
            "envs/prod/cart/ingress.yaml",
            "apiVersion: v1\nkind: Service\nmetadata: {name: prod}\n",
        ),
    ];
    let config = config("{copy: \"envs/{environment}/{service}\", keep: [\"ing*.yaml\"]}");
    let tree = tree(&files);
    let fleet = Fleet::build(&tree, &config);
    let edited = copy(&tree, &config, &fleet, "cart", ("dev", "prod")).unwrap();
    let changes: Vec<String> = edited
        .changes
        .iter()
        .map(|change| format!("{} {}", change.path, change.new))
        .collect();
    assert_eq!(
        changes,
        [
            "envs/prod/cart/cart.yaml replaced",
            "envs/prod/cart/extra.yaml added",
            "envs/prod/cart/gone.yaml removed",
        ]
    );
    let after = tree.changed(&edited.files);
    let fleet = Fleet::build(&after, &config);
    assert_eq!(fleet.artifact("prod", "cart"), Some(image("cart", "2")));
}
