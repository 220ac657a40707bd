//! The cost of typical rules: `cargo bench -p equate-cel`.

#![expect(clippy::unwrap_used, reason = "a benchmark that fails should stop")]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use equate_cel::{Budget, Environment, Library, Limits, Program, Schema as _, UNTYPED, Val, Variables};
use serde_json::{Value, json};

static ENVIRONMENT: Environment = Environment {
    variables: Variables::Declared(&["self"]),
    library: Library::Kubernetes(&[]),
    limits: Limits {
        bytes_max: 4096,
        depth_max: 100,
    },
};

const RULES: [(&str, &str); 7] = [
    (
        "choice",
        "has(self.url) && !has(self.ref) || !has(self.url) && has(self.ref)",
    ),
    (
        "prefix",
        "self.url.startsWith('https://') || self.url.startsWith('oci://')",
    ),
    (
        "pattern",
        "self.url.matches('^https://[a-z0-9.-]+(/[a-zA-Z0-9._-]+)*$')",
    ),
    ("member", "self.type in ['generic', 'aws', 'azure', 'gcp']"),
    (
        "conditions",
        "self.conditions.exists(c, c.type == 'Ready' && c.status == 'True')",
    ),
    ("all", "self.ports.all(p, p > 0 && p < 65536)"),
    (
        "sizes",
        "self.ports.filter(p, p > 1024).map(p, p + 1).size() == size(self.ports) - 2",
    ),
];

fn object() -> Value {
    json!({
        "url": "https://git.example.com/team/fleet",
        "type": "gcp",
        "conditions": [
            { "type": "Reconciling", "status": "False" },
            { "type": "Stalled", "status": "False" },
            { "type": "Ready", "status": "True" },
        ],
        "ports": [80, 443, 2000, 2001, 2002, 2003, 2004, 2005, 2006, 2007],
    })
}

fn rules(criterion: &mut Criterion) {
    let object = object();
    for (name, rule) in RULES {
        let program = Program::compile(rule, &ENVIRONMENT).unwrap();
        let run = || {
            let answer = program.evaluate(&[UNTYPED.read(&object)], &mut Budget::new(1_000_000, 1 << 20));
            assert!(matches!(answer, Ok(Val::Bool(true))), "{rule}");
        };
        criterion.bench_function(&format!("evaluate {name}"), |bench| bench.iter(run));
        criterion.bench_function(&format!("compile {name}"), |bench| {
            bench.iter(|| Program::compile(black_box(rule), &ENVIRONMENT).unwrap());
        });
    }
}

criterion_group!(benches, rules);
criterion_main!(benches);
