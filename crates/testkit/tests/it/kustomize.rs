//! The real kustomize engine answers, warns, and survives errors.

use equate_testkit::peers::{self, KustomizeOptions};
use std::fs;

#[test]
fn the_real_kustomize_answers() {
    if let Err(skip) = peers::wanted() {
        println!("{}", skip.0);
        return;
    }
    let mut progress = |line: &str| println!("peers: {line}");
    let mut real = match peers::available(peers::kustomize(&mut progress)).unwrap() {
        Ok(real) => real,
        Err(skip) => {
            println!("{}", skip.0);
            return;
        }
    };
    let home = tempfile::tempdir().unwrap();
    let options = KustomizeOptions::default();
    let write = |name: &str, text: &str| fs::write(home.path().join(name), text).unwrap();

    write(
        "kustomization.yaml",
        "commonLabels: {a: b}\nresources: [c.yaml]\n",
    );
    let error = real.build(home.path(), options).unwrap().result.unwrap_err();
    assert!(error.contains("c.yaml"), "{error}");

    write("c.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n");
    let answer = real.build(home.path(), options).unwrap();
    assert_eq!(
        answer.result.unwrap(),
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  labels:\n    a: b\n  name: c\n"
    );
    let warnings = answer.warnings;
    assert!(warnings.contains("'commonLabels' is deprecated"), "{warnings}");
}
