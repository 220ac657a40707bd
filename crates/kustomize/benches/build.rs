//! The cost of a build: n objects of four kinds with namespace, prefix, labels and images, as objects and as
//! YAML; and potentially slow shapes, each in two sizes, one four times the other.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "criterion's macros; a bench may fail"
)]

mod shapes;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use equate_kustomize::{Options, kustomize};
use equate_manifest::yaml;
use shapes::{Files, SHAPES, plain};
use std::hint::black_box;

fn text(tree: &Files) -> String {
    let built = kustomize(tree, "", &Options::default()).unwrap();
    let mut text = String::new();
    for (at, resource) in built.objects.into_iter().enumerate() {
        if at > 0 {
            text.push_str("---\n");
        }
        text.push_str(&yaml::to_string(&resource.object.into_value()));
    }
    text
}

fn build(c: &mut Criterion) {
    let mut group = c.benchmark_group("build");
    group.sample_size(20);
    for objects in [100, 1_000, 4_000] {
        let tree = plain(objects);
        let built = kustomize(&tree, "", &Options::default()).unwrap();
        assert_eq!(built.objects.len(), objects);
        group.throughput(Throughput::Elements(objects as u64));
        group.bench_function(BenchmarkId::new("objects", objects), |b| {
            b.iter(|| kustomize(black_box(&tree), "", &Options::default()).unwrap());
        });
        group.bench_function(BenchmarkId::new("text", objects), |b| {
            b.iter(|| text(black_box(&tree)));
        });
        let content = std::str::from_utf8(&tree.0["all.yaml"]).unwrap();
        let options = yaml::Options {
            dialect: yaml::Dialect::Yaml12,
            ..yaml::Options::default()
        };
        group.bench_function(BenchmarkId::new("reading alone", objects), |b| {
            b.iter(|| yaml::load(black_box(content), &options).unwrap());
        });
    }
    group.finish();
}

fn shapes(c: &mut Criterion) {
    for shape in SHAPES {
        let mut group = c.benchmark_group(shape.name);
        group.sample_size(10);
        for n in [shape.small, shape.large] {
            let tree = (shape.make)(n);
            group.throughput(Throughput::Elements(n as u64));
            group.bench_function(BenchmarkId::from_parameter(n), |b| {
                b.iter(|| kustomize(black_box(&tree), "", &Options::default()).unwrap());
            });
        }
        group.finish();
    }
}

criterion_group!(benches, build, shapes);
criterion_main!(benches);
