//! Small trees with a large product end by the limit on work, and by a stop. Both are checked without a clock.

use crate::memory::Memory;
use equate_kustomize::{
    BuildError, Built, Exhausted, Fault, Limits, Loaders, Options, Spec, Stop, Substitution, build_with,
    kustomize_with,
};
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Some forty milliseconds.
const STEPS_MAX: u64 = 4_000_000;
/// A build pauses at least this often.
const STEPS_PER_PAUSE_MAX: u64 = 100_000;

struct Attack {
    tree: Memory,
    substitution: Option<Substitution>,
}

impl Attack {
    fn build(&self, steps_max: u64, stop: &Stop) -> Result<Built, BuildError> {
        let limits = Limits {
            steps_max,
            threads_max: 1,
            ..Limits::default()
        };
        let loaders = Loaders {
            stop: Some(stop),
            ..Loaders::default()
        };
        if self.substitution.is_some() {
            let spec = Spec {
                substitute: self.substitution.clone(),
                limits,
                ..Spec::default()
            };
            return build_with(&self.tree, &spec, loaders);
        }
        let options = Options {
            limits,
            ..Options::default()
        };
        kustomize_with(&self.tree, ".", &options, loaders)
    }
}

/// A stop that counts its pauses and stops itself at one of them.
fn counting(stops_at: usize) -> (Stop, Arc<AtomicUsize>) {
    let pauses = Arc::new(AtomicUsize::new(0));
    let own: Arc<Mutex<Option<Stop>>> = Arc::default();
    let (counted, held) = (Arc::clone(&pauses), Arc::clone(&own));
    let stop = Stop::pausing(move |_| {
        if counted.fetch_add(1, Ordering::Relaxed) + 1 == stops_at {
            let held = held.lock().unwrap_or_else(PoisonError::into_inner);
            held.as_ref().unwrap().stop();
        }
        true
    });
    *own.lock().unwrap() = Some(stop.clone());
    (stop, pauses)
}

/// `of` makes the tree for a number of entries: few build within the limit, and many do not.
fn check(name: &str, few: usize, many: usize, of: impl Fn(usize) -> Attack) {
    let built = of(few).build(STEPS_MAX, &Stop::default());
    assert!(built.is_ok(), "{name}: {}", built.unwrap_err());

    let attack = of(many);
    let (stop, pauses) = counting(usize::MAX);
    let error = attack.build(STEPS_MAX, &stop).err().unwrap();
    let limit = Exhausted::Steps(STEPS_MAX);
    assert!(
        matches!(*error.fault, Fault::Exhausted(found) if found == limit),
        "{name}: {error}"
    );
    assert!(!error.place.path.is_empty(), "{name}: {error}");
    let pauses = pauses.load(Ordering::Relaxed) as u64;
    assert!(
        pauses >= STEPS_MAX / STEPS_PER_PAUSE_MAX,
        "{name}: {pauses} pauses"
    );

    let stops_at = 20;
    let (stop, pauses) = counting(stops_at);
    let error = attack.build(u64::MAX, &stop).err().unwrap();
    assert!(
        matches!(*error.fault, Fault::Exhausted(Exhausted::Stopped)),
        "{name}: {error}"
    );
    let pauses = pauses.load(Ordering::Relaxed);
    assert!(pauses <= stops_at + 5, "{name}: {pauses} pauses");
}

fn tree(files: &[(&str, String)]) -> Attack {
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    Attack {
        tree: Memory::new(&files),
        substitution: None,
    }
}

/// A text for each number.
fn each(count: usize, text: impl Fn(usize) -> String) -> String {
    (0..count).map(text).collect()
}

fn config_maps(count: usize) -> String {
    each(count, |at| {
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: x{at}}}\ndata: {{a: b}}\n---\n")
    })
}

/// ConfigMaps, and a kustomization with this field.
fn over_config_maps(count: usize, field: &str, entries: &str) -> Attack {
    let kustomization = format!("resources: [all.yaml]\n{field}:\n{entries}");
    tree(&[
        ("all.yaml", config_maps(count)),
        ("kustomization.yaml", kustomization),
    ])
}

#[test]
fn a_build_tells_what_it_holds_and_ends_when_that_is_too_much() {
    let attack = tree(&[
        ("all.yaml", config_maps(4_000)),
        ("kustomization.yaml", "resources: [all.yaml]".to_owned()),
    ]);
    let seen = |max: usize| {
        let most = Arc::new(AtomicUsize::new(0));
        let own = Arc::clone(&most);
        let stop = Stop::pausing(move |held| {
            own.fetch_max(held, Ordering::Relaxed);
            held <= max
        });
        let built = attack.build(u64::MAX, &stop);
        (built, most.load(Ordering::Relaxed) >> 20)
    };
    let (built, mebibytes) = seen(usize::MAX);
    // seven values in each of 4,000 objects
    assert_eq!(built.unwrap().objects.len(), 4_000);
    assert!((5..=20).contains(&mebibytes), "{mebibytes} MiB");
    let (built, _) = seen(4 << 20);
    let error = built.err().unwrap();
    assert!(
        matches!(*error.fault, Fault::Exhausted(Exhausted::Stopped)),
        "{error}"
    );
}

#[test]
fn replacements_over_all_objects() {
    check("targets", 5, 3_000, |entries| {
        let entry = "- sourceValue: v\n  targets: [{select: {name: y.*}, fieldPaths: [data.a]}]\n";
        over_config_maps(500, "replacements", &entry.repeat(entries))
    });
    check("sources", 5, 3_000, |entries| {
        let entry =
            "- source: {version: v1, fieldPath: data.a, name: ''}\n  targets: [{select: {name: none}}]\n";
        let one = "apiVersion: a/v2\nkind: A\nmetadata: {name: a}\ndata: {a: b}\n";
        let entry = entry.replace("v1", "v2");
        let kustomization = format!(
            "resources: [all.yaml, one.yaml]\nreplacements:\n{}",
            entry.repeat(entries)
        );
        tree(&[
            ("all.yaml", config_maps(500)),
            ("one.yaml", one.to_owned()),
            ("kustomization.yaml", kustomization),
        ])
    });
}

/// One object with a list of maps.
fn with_items(count: usize) -> String {
    let items = each(count, |at| format!("  - {{name: n{at}, v: w}}\n"));
    format!("apiVersion: a/v1\nkind: A\nmetadata: {{name: a}}\nspec:\n  items:\n{items}")
}

#[test]
fn paths_over_all_items() {
    for path in [
        "spec.items.*.v",
        "'spec.items.[name=n1.*].v'",
        "'spec.items.[name=n19999].v'",
    ] {
        check(path, 1, 2_000, |entries| {
            let entry =
                format!("- sourceValue: v\n  targets: [{{select: {{kind: A}}, fieldPaths: [{path}]}}]\n");
            let kustomization = format!("resources: [a.yaml]\nreplacements:\n{}", entry.repeat(entries));
            let items = with_items(2_000).replace("n1999,", "n19999,");
            tree(&[("a.yaml", items), ("kustomization.yaml", kustomization)])
        });
    }
}

#[test]
fn texts_within_fields() {
    check("texts", 1, 1_000, |entries| {
        let text = each(500, |at| format!("    k{at}: v\n"));
        let object = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata:\n  f: |\n{text}");
        let entry = "- sourceValue: v\n  targets: [{select: {name: a}, fieldPaths: [data.f.k1]}]\n";
        let kustomization = format!("resources: [a.yaml]\nreplacements:\n{}", entry.repeat(entries));
        tree(&[("a.yaml", object), ("kustomization.yaml", kustomization)])
    });
}

#[test]
fn patches_over_all_objects() {
    for select in [
        "name: y.*",
        "labelSelector: a=b",
        "kind: ConfigMap, namespace: none",
    ] {
        check(select, 5, 3_000, |entries| {
            let entry =
                format!("- {{target: {{{select}}}, patch: '[{{\"op\": \"remove\", \"path\": \"/a\"}}]'}}\n");
            over_config_maps(500, "patches", &entry.repeat(entries))
        });
    }
}

#[test]
fn merges_of_long_lists() {
    check("keyed lists", 10, 2_000, |items| {
        let list = |from: usize| each(items, |at| format!("      - {{name: c{}}}\n", from + at));
        let deployment = |from| {
            format!(
                "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: a}}\nspec:\n  template:\n    spec:\n      containers:\n{}",
                list(from)
            )
        };
        tree(&[
            ("a.yaml", deployment(0)),
            ("patch.yaml", deployment(items)),
            (
                "kustomization.yaml",
                "resources: [a.yaml]\npatches: [{path: patch.yaml}]\n".to_owned(),
            ),
        ])
    });
}

#[test]
fn json_patches_of_long_lists() {
    check("operations", 10, 5_000, |operations| {
        let operation = "{\"op\": \"add\", \"path\": \"/spec/items/0\", \"value\": 1},";
        let patch = format!("[{}]", operation.repeat(operations).trim_end_matches(','));
        tree(&[
            ("a.yaml", with_items(10_000)),
            ("patch.json", patch),
            (
                "kustomization.yaml",
                "resources: [a.yaml]\npatches: [{path: patch.json, target: {kind: A}}]\n".to_owned(),
            ),
        ])
    });
}

#[test]
fn references_to_one_name() {
    check("references", 2, 2_000, |referrers| {
        let secrets = each(500, |at| {
            format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: s, namespace: n{at}}}\n---\n")
        });
        let volumes = each(referrers, |at| {
            format!(
                "apiVersion: v1\nkind: PersistentVolume\nmetadata: {{name: v{at}}}\nspec: {{azureFile: {{secretName: s}}}}\n---\n"
            )
        });
        let kustomization = "resources: [secrets.yaml, volumes.yaml]\nnamePrefix: p-\n";
        tree(&[
            ("secrets.yaml", secrets),
            ("volumes.yaml", volumes),
            ("kustomization.yaml", kustomization.to_owned()),
        ])
    });
}

#[test]
fn variables_of_one_name() {
    check("variables", 2, 2_000, |variables| {
        let secrets = each(500, |at| {
            format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: s, namespace: n{at}}}\n---\n")
        });
        let entries = each(variables, |at| {
            format!("- {{name: V{at}, objref: {{apiVersion: v1, kind: Secret, name: s, namespace: n1}}}}\n")
        });
        let kustomization = format!("resources: [all.yaml]\nvars:\n{entries}");
        tree(&[("all.yaml", secrets), ("kustomization.yaml", kustomization)])
    });
}

#[test]
fn labels_of_one_object() {
    check("labels", 5, 1_000, |labels| {
        let object =
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {template: {spec: {}}}\n";
        let entries = each(labels, |at| {
            format!("- {{pairs: {{l{at}: v}}, includeSelectors: true}}\n")
        });
        let kustomization = format!("resources: [a.yaml]\nlabels:\n{entries}");
        tree(&[
            ("a.yaml", object.to_owned()),
            ("kustomization.yaml", kustomization),
        ])
    });
}

#[test]
fn field_specifications() {
    check("equal paths", 10, 4_000, |specs| {
        let entries = each(specs, |at| format!("- {{path: a/b, kind: K{at}}}\n"));
        let kustomization = "resources: [all.yaml]\nconfigurations: [c.yaml]\n";
        tree(&[
            ("all.yaml", config_maps(1)),
            ("c.yaml", format!("commonAnnotations:\n{entries}")),
            ("kustomization.yaml", kustomization.to_owned()),
        ])
    });
    check("kinds times paths", 10, 1_000, |specs| {
        let entries = each(specs, |at| format!("- {{path: a{at}/b}}\n"));
        let objects = each(1_000, |at| {
            format!("apiVersion: a/v1\nkind: K{at}\nmetadata: {{name: a}}\n---\n")
        });
        let kustomization = "resources: [all.yaml]\nconfigurations: [c.yaml]\ncommonAnnotations: {a: b}\n";
        tree(&[
            ("all.yaml", objects),
            ("c.yaml", format!("commonAnnotations:\n{entries}")),
            ("kustomization.yaml", kustomization.to_owned()),
        ])
    });
}

#[test]
fn images_that_follow_each_other() {
    check("images", 5, 1_000, |images| {
        let object =
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{image: i0}]}\nitems:\n";
        let items = "- [1, 2, 3]\n".repeat(2_000);
        let entries = each(images, |at| format!("- {{name: i{at}, newName: i{}}}\n", at + 1));
        let kustomization = format!("resources: [a.yaml]\nimages:\n{entries}");
        tree(&[
            ("a.yaml", format!("{object}{items}")),
            ("kustomization.yaml", kustomization),
        ])
    });
}

#[test]
fn generators_that_merge() {
    check("generators", 5, 1_000, |entries| {
        let merge = "- {name: c, behavior: merge, literals: [a=b]}\n".repeat(entries);
        let kustomization = format!("configMapGenerator:\n- {{name: c, files: [f]}}\n{merge}");
        tree(&[("f", "x".repeat(100_000)), ("kustomization.yaml", kustomization)])
    });
    check("hashes", 2, 500, |entries| {
        let hash = "- |\n  {apiVersion: builtin, kind: HashTransformer, metadata: {name: h".to_owned();
        let hashes = each(entries, |at| format!("{hash}{at}}}}}\n"));
        let kustomization =
            format!("configMapGenerator:\n- {{name: c, files: [f]}}\ntransformers:\n{hashes}");
        tree(&[("f", "x".repeat(100_000)), ("kustomization.yaml", kustomization)])
    });
}

#[test]
fn definitions_reached_in_many_ways() {
    check("crds", 1, 20, |times| {
        let mut levels = String::from("{");
        for level in 0..9 {
            let properties =
                ["a", "b", "c"].map(|name| format!("\"{name}\": {{\"$ref\": \"d{}\"}}", level + 1));
            let root = if level == 0 {
                "\"kind\": {}, \"metadata\": {}, \"apiVersion\": {}, "
            } else {
                ""
            };
            write!(
                levels,
                "\"d{level}\": {{\"Schema\": {{\"properties\": {{{root}{}}}}}}},",
                properties.join(", ")
            )
            .unwrap();
        }
        levels.push_str("\"d9\": {}}");
        let entries = "- crd.json\n".repeat(times);
        let kustomization = format!("resources: [all.yaml]\ncrds:\n{entries}");
        tree(&[
            ("all.yaml", config_maps(1)),
            ("crd.json", levels),
            ("kustomization.yaml", kustomization),
        ])
    });
}

#[test]
fn bases_reached_in_many_ways() {
    check("bases", 3, 13, |levels| {
        let mut files: Vec<(String, String)> = (0..levels)
            .map(|level| {
                let below = format!("../l{}", level + 1);
                let text = format!("resources: [{below}, {below}]\nnamePrefix: p\n");
                (format!("l{level}/kustomization.yaml"), text)
            })
            .collect();
        files.push((
            format!("l{levels}/kustomization.yaml"),
            "namePrefix: p\n".to_owned(),
        ));
        files.push(("kustomization.yaml".to_owned(), "resources: [l0]\n".to_owned()));
        let files: Vec<(&str, String)> = files
            .iter()
            .map(|(path, text)| (path.as_str(), text.clone()))
            .collect();
        tree(&files)
    });
}

#[test]
fn patterns_of_substitutions() {
    check("substitutions", 10, 100_000, |parts| {
        let object = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata:\n  a: ${{v##{}}}\n",
            "*a".repeat(parts)
        );
        Attack {
            substitution: Some(Substitution {
                variables: [("v".to_owned(), "a".repeat(20_000))].into(),
                ..Substitution::default()
            }),
            ..tree(&[("a.yaml", object)])
        }
    });
}

#[test]
fn large_expressions() {
    let patch = |at: usize| {
        let target = format!("{{name: '(a|b)*a(a|b|c[d-f]g){{400}}{at}'}}");
        format!("- {{target: {target}, patch: '[{{\"op\": \"remove\", \"path\": \"/a\"}}]'}}\n")
    };
    check("expressions", 1, 20, |entries| {
        over_config_maps(300, "patches", &each(entries, patch))
    });

    // one match cannot be interrupted
    let object = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {}}}\n",
        "ab".repeat(50_000)
    );
    let kustomization = format!("resources: [a.yaml]\npatches:\n{}", patch(0));
    let attack = tree(&[("a.yaml", object), ("kustomization.yaml", kustomization)]);
    let error = attack
        .build(Limits::default().steps_max, &Stop::default())
        .err()
        .unwrap();
    assert!(
        matches!(*error.fault, Fault::Exhausted(Exhausted::Steps(_))),
        "{error}"
    );
}

#[test]
fn transformers_over_all_objects() {
    let configuration = |kind: &str, rest: &str, at: usize| {
        format!(
            "- |\n  {{apiVersion: builtin, kind: {kind}, metadata: {{name: t{at}, namespace: n{at}}}{rest}}}\n"
        )
    };
    let specs = ", fieldSpecs: [{path: metadata/name}]";
    for (kind, rest, field) in [
        ("NamespaceTransformer", "", "transformers"),
        (
            "PrefixTransformer",
            ", prefix: p, fieldSpecs: [{path: data/b}]",
            "transformers",
        ),
        (
            "ImageTagTransformer",
            ", imageTag: {name: i, newTag: t}",
            "transformers",
        ),
        (
            "ValueAddTransformer",
            ", value: v, targets: [{selector: {kind: B}, fieldPath: data/a}]",
            "transformers",
        ),
        (
            "ReplicaCountTransformer",
            ", replica: {name: x1, count: 1}, fieldSpecs: [{path: data/b, create: true}]",
            "transformers",
        ),
        ("AnnotationsTransformer", specs, "validators"),
    ] {
        check(kind, 2, 3_000, |entries| {
            over_config_maps(400, field, &each(entries, |at| configuration(kind, rest, at)))
        });
    }
}

#[test]
fn notes_of_all_transformers() {
    check("notes", 2, 3_000, |entries| {
        let entry = "- {target: {kind: B}, patch: '[{\"op\": \"remove\", \"path\": \"/a\"}]'}\n";
        let patches = entry.repeat(entries);
        let field =
            format!("buildMetadata: [transformerAnnotations]\npatches:\n{patches}\ncommonAnnotations");
        over_config_maps(400, &field, " {a: b}\n")
    });
}

#[test]
fn values_of_one_file() {
    for (name, line) in [("flow", "- [[], []]\n"), ("anchors", "- &a 1\n")] {
        check(name, 10, 200_000, |lines| {
            let object =
                "apiVersion: a/v1\nkind: A\nmetadata: {name: a}\nitems:\n".to_owned() + &line.repeat(lines);
            let kustomization = "resources: [a.yaml]\n".to_owned();
            tree(&[("a.yaml", object), ("kustomization.yaml", kustomization)])
        });
    }
}

/// Unclosed references were each searched to the end of the text.
#[test]
fn unclosed_variables_are_read_once() {
    let text = "$(".repeat(100_000);
    let object = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nspec: {{containers: [{{name: c, args: ['{text}']}}]}}\n"
    );
    let kustomization =
        "resources: [a.yaml]\nvars: [{name: V, objref: {apiVersion: v1, kind: Pod, name: a}}]\n".to_owned();
    let attack = tree(&[("a.yaml", object), ("kustomization.yaml", kustomization)]);
    let built = attack.build(STEPS_MAX, &Stop::default()).unwrap();
    assert!(built.objects[0].object.0["spec"].to_string().contains(&text));
}

/// Creating it would need more stack than there is.
#[test]
fn deep_field_specification_is_refused() {
    let path = "a/".repeat(100_000) + "b";
    for field in ["commonAnnotations", "namePrefix"] {
        let configuration = format!("{field}: [{{path: {path}, create: true}}]\n");
        let kustomization =
            "resources: [all.yaml]\nconfigurations: [c.yaml]\ncommonAnnotations: {a: b}\nnamePrefix: p\n";
        let attack = tree(&[
            ("all.yaml", config_maps(1)),
            ("c.yaml", configuration),
            ("kustomization.yaml", kustomization.to_owned()),
        ]);
        let error = attack.build(u64::MAX, &Stop::default()).unwrap_err();
        assert!(
            error
                .to_string()
                .ends_with("values are nested deeper than 512 levels"),
            "{field}: {error}"
        );
    }
}

/// Work of others for a build, such as decryption, is charged to it.
#[test]
fn work_outside_is_charged() {
    let attack = over_config_maps(10, "commonAnnotations", " {a: b}\n");
    let stop = Stop::default();
    assert!(attack.build(STEPS_MAX, &stop).is_ok());
    let stop = Stop::default();
    for _ in 0..100 {
        assert!(!stop.work(STEPS_MAX / 50));
    }
    let many = over_config_maps(1_000, "commonAnnotations", " {a: b}\n");
    let error = many.build(STEPS_MAX, &stop).unwrap_err();
    assert!(
        matches!(*error.fault, Fault::Exhausted(Exhausted::Steps(_))),
        "{error}"
    );
    stop.stop();
    assert!(stop.work(STEPS_MAX));
}
