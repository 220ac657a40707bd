use super::*;
use proptest::prelude::*;
use serde_json::json;

fn element() -> impl Strategy<Value = PathElement> {
    prop_oneof![
        4 => "[a-c]".prop_map(|s| PathElement::field(&s)),
        1 => (0..3i64).prop_map(|n| PathElement::key(vec![("n".into(), json!(n))])),
        1 => (0..3i64).prop_map(|n| PathElement::Value(json!(n).into())),
    ]
}

fn set() -> impl Strategy<Value = Set> {
    prop::collection::vec(prop::collection::vec(element(), 1..4).prop_map(Path), 0..12)
        .prop_map(|paths| Set::of(&paths))
}

/// The set as a list of printed paths: a slow but obvious model.
fn model(set: &Set) -> std::collections::BTreeSet<Path> {
    set.paths().into_iter().collect()
}

proptest! {
    #[test]
    fn algebra_equals_sets_of_paths(a in set(), b in set()) {
        prop_assert_eq!(model(&a.union(&b)), &model(&a) | &model(&b));
        prop_assert_eq!(model(&a.intersection(&b)), &model(&a) & &model(&b));
        prop_assert_eq!(model(&a.difference(&b)), &model(&a) - &model(&b));
        prop_assert_eq!(a.is_subset(&b), model(&a).is_subset(&model(&b)));
        prop_assert_eq!(a.len(), model(&a).len());
        let below = |path: &Path| model(&b).iter().any(|p| path.0.starts_with(&p.0));
        let kept: std::collections::BTreeSet<Path> = model(&a).into_iter().filter(|p| !below(p)).collect();
        prop_assert_eq!(model(&a.recursive_difference(&b)), kept);
        for path in a.paths() {
            prop_assert!(a.has(&path.0));
            prop_assert_eq!(b.has(&path.0), model(&b).contains(&path));
        }
    }

    #[test]
    fn equal_sets_are_equal_trees(a in set(), b in set()) {
        prop_assert_eq!(a.union(&b), b.union(&a));
        prop_assert_eq!(a.difference(&b).union(&a.intersection(&b)), a.clone());
        prop_assert_eq!(Set::of(&a.paths()), a.clone());
        prop_assert_eq!(Set::from_fields_v1(&a.to_fields_v1()).unwrap(), a);
    }
}

#[test]
fn integer_and_float_are_the_same_element() {
    let whole = PathElement::parse("v:1").unwrap();
    let float = PathElement::parse("v:1.0").unwrap();
    assert_eq!(whole, float);
    assert_eq!(float.to_wire(), "v:1");
    assert!(equal(&json!({"a": [1, -0.0]}), &json!({"a": [1.0, 0]})));
    assert!(!equal(
        &json!(9_007_199_254_740_993_i64),
        &json!(9_007_199_254_740_992_i64)
    ));
}

#[test]
fn a_path_prints_as_upstream_prints_it() {
    let path = Path(vec![
        PathElement::field("spec"),
        PathElement::key(vec![
            ("protocol".into(), json!("T\"C\u{1}P")),
            ("port".into(), json!(80)),
        ]),
        PathElement::Value(json!("x").into()),
        PathElement::Index(3),
    ]);
    assert_eq!(
        path.to_string(),
        r#".spec[port=80,protocol="T\"C\x01P"][="x"][3]"#
    );
}
