//! Remote bases, components and files.

use crate::memory::Memory;
use bytes::Bytes;
use equate_kustomize::{
    Fetched, FileError, LoadRestriction, Loaders, Options, RemoteError, RemoteInput, RemoteRepository,
    Remotes, kustomize_with,
};
use std::cell::RefCell;
use std::collections::BTreeMap;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

fn manifest(name: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n")
}

/// Repositories by clone URL and reference, files by URL; records requests.
#[derive(Default)]
struct World {
    repositories: BTreeMap<(String, String), Memory>,
    files: BTreeMap<String, String>,
    asked: RefCell<Vec<String>>,
}

impl Remotes for World {
    fn repository(&self, wanted: &RemoteRepository) -> Result<Fetched, RemoteError> {
        self.asked.borrow_mut().push(wanted.to_string());
        let key = (wanted.clone_url(), wanted.reference.clone());
        let tree = self.repositories.get(&key).ok_or("no such repository")?;
        Ok(Fetched {
            tree: Box::new(tree.clone()),
            commit: COMMIT.to_owned(),
        })
    }

    fn file(&self, url: &str, _: usize) -> Result<Bytes, FileError> {
        self.asked.borrow_mut().push(format!("GET {url}"));
        let text = self.files.get(url).ok_or(FileError::Status(404))?;
        Ok(Bytes::from(text.clone()))
    }
}

fn world() -> World {
    let mut base = Memory::new(&[
        (
            "app/kustomization.yaml",
            "namePrefix: base-\nresources: [a.yaml, ../more]\n",
        ),
        ("app/a.yaml", &manifest("a")),
        (
            "more/kustomization.yaml",
            "configMapGenerator: [{name: g, literals: [a=b]}]\n",
        ),
        ("out/kustomization.yaml", "resources: [../../x]\n"),
        ("file/kustomization.yaml", "resources: [../app/a.yaml]\n"),
        ("link/kustomization.yaml", "resources: [away]\n"),
        (
            "again/kustomization.yaml",
            "resources: ['https://h.example/o/base//again?ref=v1']\n",
        ),
        (
            "round/kustomization.yaml",
            "resources: ['https://h.example/o/base//back?ref=v1']\n",
        ),
        ("back/kustomization.yaml", "resources: [../round]\n"),
        (
            "component/kustomization.yaml",
            "kind: Component\nnameSuffix: -component\n",
        ),
        ("kustomization.yaml", "resources: [root.yaml]\n"),
        ("root.yaml", &manifest("root")),
    ]);
    base.link("link/away", "../../../../etc/passwd");
    let mut world = World::default();
    let url = |name: &str| format!("https://h.example/o/{name}");
    world
        .repositories
        .insert((url("base"), "v1".to_owned()), base.clone());
    world
        .repositories
        .insert((url("base"), COMMIT.to_owned()), base.clone());
    world.repositories.insert((url("base"), String::new()), base);
    for (name, text) in [
        ("f.yaml", manifest("f")),
        ("patch.yaml", manifest("f") + "data: {k: v}\n"),
        ("page", "<html>\n".to_owned()),
    ] {
        world.files.insert(format!("https://h.example/{name}"), text);
    }
    world
}

fn loaders(world: &World) -> Loaders<'_> {
    Loaders {
        remotes: Some(world),
        ..Loaders::default()
    }
}

fn built(kustomization: &str, tree: &[(&str, &str)], world: &World) -> String {
    let mut all = vec![("k/kustomization.yaml", kustomization)];
    all.extend_from_slice(tree);
    let loaders = loaders(world);
    let options = Options {
        restriction: LoadRestriction::Tree,
        ..Options::default()
    };
    match kustomize_with(&Memory::new(&all), "k", &options, loaders) {
        Ok(built) => {
            let names: Vec<&str> = built.objects.iter().map(|one| one.object.name()).collect();
            format!("{} <- {}", names.join(" "), world.asked.borrow().join(", "))
        }
        Err(error) => {
            let mut text = error.to_string();
            let mut cause = std::error::Error::source(&error);
            while let Some(error) = cause {
                text.push_str(&format!(": {error}"));
                cause = error.source();
            }
            text
        }
    }
}

#[test]
fn remote_resources_are_built() {
    let mut wrong = Vec::new();
    for (kustomization, expected) in [
        (
            "resources: ['https://h.example/o/base//app?ref=v1']\n",
            "base-a base-g-4h2mbtbbt6 <- https://h.example/o/base@v1",
        ),
        // once per build, however many of its directories are used
        (
            "resources: ['https://h.example/o/base//app?ref=v1', 'https://h.example/o/base?ref=v1']\n",
            "base-a base-g-4h2mbtbbt6 root <- https://h.example/o/base@v1",
        ),
        (
            "resources: ['https://h.example/f.yaml']\npatches: [{path: 'https://h.example/patch.yaml'}]\n",
            "f <- GET https://h.example/f.yaml, GET https://h.example/patch.yaml",
        ),
        // a host and three segments: a file's URL looks the same
        (
            "resources: ['https://h.example/o/base/more']\n",
            "g-4h2mbtbbt6 <- GET https://h.example/o/base/more, https://h.example/o/base",
        ),
        (
            "resources: ['https://h.example/f.yaml']\ncomponents: ['https://h.example/o/base//component?ref=v1']\n",
            "f-component <- GET https://h.example/f.yaml, https://h.example/o/base@v1",
        ),
        (
            "resources: ['https://h.example/o/none//app?ref=v1']\n",
            "k/kustomization.yaml:1:13: https://h.example/o/none//app?ref=v1 cannot be fetched: no such repository",
        ),
        (
            "resources: ['https://u:secret@h.example/o/none.git']\n",
            "k/kustomization.yaml:1:13: https://h.example/o/none.git cannot be fetched: no such repository",
        ),
        (
            "resources: ['https://h.example/absent.yaml']\n",
            "k/kustomization.yaml:1:13: https://h.example/absent.yaml cannot be read: HTTP Error: status code 404",
        ),
        (
            "resources: ['https://h.example/page']\n",
            "https://h.example/page:1:1: missing Resource metadata: a manifest must be a map, but this is of type string",
        ),
        (
            "resources: ['https://h.example/o/base//absent?ref=v1']\n",
            "k/kustomization.yaml:1:13: no such file or directory: 'https://h.example/o/base@v1//absent'",
        ),
        (
            "resources: ['https://h.example/o/base//app/a.yaml?ref=v1']\n",
            "k/kustomization.yaml:1:13: 'https://h.example/o/base@v1//app/a.yaml' refers to a file; expecting directory",
        ),
        // nothing leads out of a repository or above the directory being built
        (
            "resources: ['https://h.example/o/base//out?ref=v1']\n",
            "https://h.example/o/base@v1//out/kustomization.yaml:1:13: security; bases in kustomizations found in cloned git repos must be within the repo, but base '../../x' is outside 'https://h.example/o/base@v1'; included from k/kustomization.yaml:1:13",
        ),
        (
            "resources: ['https://h.example/o/base//file?ref=v1']\n",
            "https://h.example/o/base@v1//file/kustomization.yaml:1:13: security; file 'https://h.example/o/base@v1//app/a.yaml' is not in or below 'https://h.example/o/base@v1//file'; included from k/kustomization.yaml:1:13",
        ),
        (
            "resources: ['https://h.example/o/base//link?ref=v1']\n",
            "https://h.example/o/base@v1//link/kustomization.yaml:1:13: security; 'away' is not read: the symbolic link 'https://h.example/o/base@v1//link/away' leads out of the source; included from k/kustomization.yaml:1:13",
        ),
        (
            "resources: ['https://h.example/o/base//again?ref=v1']\n",
            "https://h.example/o/base@v1//again/kustomization.yaml:1:13: cycle detected: URI 'https://h.example/o/base//again?ref=v1' referenced by previous URI 'https://h.example/o/base//again?ref=v1'; included from k/kustomization.yaml:1:13",
        ),
        (
            "resources: ['https://h.example/o/base//round?ref=v1']\n",
            "https://h.example/o/base@v1//round/kustomization.yaml:1:13: cycle detected: URI 'https://h.example/o/base//back?ref=v1' referenced by previous URI 'https://h.example/o/base//back?ref=v1'; included from https://h.example/o/base@v1//back/kustomization.yaml:1:13, from https://h.example/o/base@v1//round/kustomization.yaml:1:13, from k/kustomization.yaml:1:13",
        ),
    ] {
        let found = built(kustomization, &[], &world());
        if found != expected {
            wrong.push(format!(
                "{kustomization}  expected {expected}\n  found    {found}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn fetched_kustomization_cannot_read_local_repositories() {
    let mut world = world();
    for field in ["resources", "components"] {
        let text = format!("{field}: ['file:///srv/me/fleet//app']\n");
        let hostile = Memory::new(&[("kustomization.yaml", &text)]);
        for url in ["https://h.example/o/hostile", "file:///srv/me/other"] {
            let key = (url.to_owned(), String::new());
            world.repositories.insert(key, hostile.clone());
        }
        let key = ("file:///srv/me/fleet".to_owned(), String::new());
        let fleet = [
            ("app/kustomization.yaml", "kind: Component\nresources: [a.yaml]\n"),
            ("app/a.yaml", &manifest("a")),
        ];
        let mut fleet = Memory::new(&fleet);
        if field == "resources" {
            fleet = fleet.with("app/kustomization.yaml", "resources: [a.yaml]\n");
        }
        world.repositories.insert(key, fleet);
        world.asked.borrow_mut().clear();
        let column = field.len() + 4;
        assert_eq!(
            built("resources: ['https://h.example/o/hostile']\n", &[], &world),
            format!(
                "https://h.example/o/hostile//kustomization.yaml:1:{column}: security; file:///srv/me/fleet//app is a local directory, and 'https://h.example/o/hostile', which refers to it, came over the network; included from k/kustomization.yaml:1:13"
            )
        );
        assert!(!world.asked.borrow().contains(&"file:///srv/me/fleet".to_owned()));
        world.asked.borrow_mut().clear();
        assert_eq!(
            built("resources: ['file:///srv/me/other']\n", &[], &world),
            "a <- file:///srv/me/other, file:///srv/me/fleet"
        );
    }
}

#[test]
fn built_url_appears_once_in_errors() {
    let world = world();
    let tree = Memory::new(&[]);
    for (url, loaders, expected) in [
        (
            "https://h.example/o/none//app?ref=v1",
            loaders(&world),
            "https://h.example/o/none//app?ref=v1 cannot be fetched: no such repository",
        ),
        (
            "https://h.example/o/base//none?ref=v1",
            loaders(&world),
            "no such file or directory: 'https://h.example/o/base@v1//none'",
        ),
        (
            "https://h.example/o/base//link?ref=v1",
            loaders(&world),
            "https://h.example/o/base@v1//link/kustomization.yaml:1:13: security; 'away' is not read: the symbolic link 'https://h.example/o/base@v1//link/away' leads out of the source",
        ),
        (
            "https://h.example/o/base?ref=v1",
            Loaders::default(),
            "https://h.example/o/base?ref=v1 is remote, and remote bases are refused here: commit a copy and name its directory",
        ),
    ] {
        let error = kustomize_with(&tree, url, &Options::default(), loaders).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn url_build_does_not_read_the_tree() {
    let world = world();
    let loaders = loaders(&world);
    let tree = Memory::new(&[("x/kustomization.yaml", "resources: []\n")]);
    let name = |dir: &str| {
        let built = kustomize_with(&tree, dir, &Options::default(), loaders);
        built
            .map(|built| built.objects[0].object.name().to_owned())
            .map_err(|error| error.to_string())
    };
    assert_eq!(name("https://h.example/o/base?ref=v1"), Ok("root".to_owned()));
    assert!(
        name("https://h.example/o/base//out?ref=v1")
            .unwrap_err()
            .contains("security;")
    );
}

#[test]
fn inputs_include_remotes() {
    let world = world();
    let loaders = loaders(&world);
    let inputs = |reference: &str, file: &str| {
        let text = format!("resources: ['https://h.example/o/base//more?ref={reference}'{file}]\n");
        let tree = Memory::new(&[("kustomization.yaml", &text)]);
        let built = kustomize_with(&tree, "", &Options::default(), loaders).unwrap();
        (tree, built.inputs)
    };
    let (tree, by_tag) = inputs("v1", "");
    assert_eq!(
        by_tag.remotes(),
        [RemoteInput::Repository {
            url: "https://h.example/o/base".to_owned(),
            reference: "v1".to_owned(),
            commit: COMMIT.to_owned(),
        }]
    );
    assert!(!by_tag.unchanged(&tree));
    assert!(by_tag.unchanged_with(&tree, |_| true));
    let (tree, pinned) = inputs(COMMIT, "");
    assert!(pinned.unchanged(&tree));
    let (tree, with_file) = inputs(COMMIT, ", 'https://h.example/f.yaml'");
    assert!(!with_file.unchanged(&tree));
    let (other, _) = inputs("v1", "");
    assert!(!pinned.unchanged(&other));
}

#[test]
fn origins_name_the_repository() {
    let world = world();
    let loaders = loaders(&world);
    let origin = |entry: &str| {
        let text = format!("buildMetadata: [originAnnotations]\nresources: ['{entry}']\n");
        let tree = Memory::new(&[("kustomization.yaml", &text)]);
        let built = kustomize_with(&tree, "", &Options::default(), loaders).unwrap();
        let annotations = &built.objects[0].object.metadata().unwrap()["annotations"];
        annotations["config.kubernetes.io/origin"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    for (entry, expected) in [
        (
            "https://h.example/o/base//app?ref=v1",
            "path: app/a.yaml\nrepo: https://h.example/o/base\nref: v1\n",
        ),
        (
            "https://h.example/o/base?ref=v1",
            "path: notCloned/root.yaml\nrepo: https://h.example/o/base\nref: v1\n",
        ),
        (
            "https://h.example/o/base//more",
            "repo: https://h.example/o/base\nconfiguredIn: more/kustomization.yaml\nconfiguredBy:\n  apiVersion: builtin\n  kind: ConfigMapGenerator\n",
        ),
    ] {
        assert_eq!(origin(entry), expected, "{entry}");
    }
}
