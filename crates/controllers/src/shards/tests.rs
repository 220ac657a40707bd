use super::*;

fn meta(namespace: &str, name: &str, labels: &[(&str, &str)]) -> ObjectMeta {
    let labels = labels
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    ObjectMeta {
        namespace: Some(namespace.to_owned()),
        name: Some(name.to_owned()),
        labels: Some(labels.collect()),
        ..ObjectMeta::default()
    }
}

#[test]
fn a_selector_matches_as_in_kubernetes() {
    const KEY: &str = "sharding.fluxcd.io/key";
    let labelled = [
        ("none", meta("a", "none", &[])),
        ("one", meta("a", "one", &[(KEY, "one")])),
        ("two", meta("a", "two", &[(KEY, "two"), ("app", "web")])),
        ("empty", meta("a", "empty", &[(KEY, "")])),
    ];
    let check = |selector: &str, expected: &[&str]| {
        let shards = Shards::default().labels(selector).unwrap();
        let own = labelled.iter().filter(|(_, meta)| shards.own(meta));
        let own: Vec<&str> = own.map(|(name, _)| *name).collect();
        assert_eq!(own, expected, "{selector}");
    };
    check("", &["none", "one", "two", "empty"]);
    check("!sharding.fluxcd.io/key", &["none"]);
    check("! sharding.fluxcd.io/key", &["none"]);
    check("sharding.fluxcd.io/key", &["one", "two", "empty"]);
    check("sharding.fluxcd.io/key=one", &["one"]);
    check(" sharding.fluxcd.io/key == one ", &["one"]);
    check("sharding.fluxcd.io/key=", &["empty"]);
    check("sharding.fluxcd.io/key!=one", &["none", "two", "empty"]);
    check("sharding.fluxcd.io/key in (one, two)", &["one", "two"]);
    check("sharding.fluxcd.io/key in (one,)", &["one", "empty"]);
    check("sharding.fluxcd.io/key in()", &["empty"]);
    check("sharding.fluxcd.io/key notin (one,two)", &["none", "empty"]);
    check("sharding.fluxcd.io/key, app=web", &["two"]);
    check("app notin (web),sharding.fluxcd.io/key=two", &[]);
}

#[test]
fn invalid_selectors_are_rejected() {
    let check = |selector: &str, problem: &str| {
        let error = Shards::default().labels(selector).unwrap_err().to_string();
        assert!(error.contains(problem), "{selector}: {error}");
    };
    check("a=b,", "identifier after ','");
    check("a b", "found 'b', expected: in, notin");
    check("a=b c", "found 'c', expected: ','");
    check("=b", "found '=b', expected: !, identifier");
    check("a in b", "expected: '('");
    check("a in (b", "expected: ',' or ')'");
    check("a in (b c)", "found 'c)', expected: ',' or ')'");
    check("a>1", "\">\" is not a valid label selector operator");
    check("-a", "Invalid value: \"-a\"");
    check("A_b/c", "Invalid value: \"A_b/c\"");
    check("a=b_", "Invalid value: \"b_\"");
    check(&"a".repeat(64), "at most 63");
    check(&"a,".repeat(2049), "4098 bytes");
}

#[test]
fn each_object_is_in_one_slice_and_seldom_moves() {
    let names = |n: u32| format!("app-{n}");
    let place = |name: &str, of: u32| -> Vec<u32> {
        let within = |index: &u32| Slice::new(*index, of).unwrap().has("flux-system", name);
        (0..of).filter(within).collect()
    };
    for of in [1, 2, 3, 7] {
        let mut sizes = vec![0; of as usize];
        for name in (0..1000).map(names) {
            let (now, later) = (place(&name, of), place(&name, of + 1));
            assert_eq!((now.len(), later.len()), (1, 1), "{name} of {of}");
            assert!(
                later == now || later == [of],
                "{name} moved from {now:?} to {later:?}"
            );
            sizes[now[0] as usize] += 1;
        }
        let fair = 1000 / of;
        assert!(
            sizes
                .iter()
                .all(|size| *size > fair * 3 / 4 && *size < fair * 5 / 4 + 1),
            "{of}: {sizes:?}"
        );
    }
}

/// Two versions that disagree would both reconcile an object, or neither would.
#[test]
fn the_hash_never_changes() {
    let places = ["apps", "infra", "monitoring", "podinfo", "tenants"].map(|name| {
        let within = |index: &u32| Slice::new(*index, 16).unwrap().has("flux-system", name);
        (name, (0..16).find(within).unwrap())
    });
    assert_eq!(
        places,
        [
            ("apps", 4),
            ("infra", 15),
            ("monitoring", 3),
            ("podinfo", 9),
            ("tenants", 13)
        ]
    );
}

#[test]
fn slices_are_written_as_fractions() {
    let check = |text: &str, expected: Result<Slice, &str>| {
        let read = text.parse::<Slice>().map_err(|error| error.to_string());
        assert_eq!(read, expected.map_err(str::to_owned), "{text}");
    };
    check("0/1", Ok(Slice::default()));
    check("2/3", Ok(Slice { index: 2, of: 3 }));
    check("3/3", Err("shard 3/3 does not exist: the last one is 2/3"));
    check("0/2000", Err("2000 shards are too many: the limit is 1024"));
    for text in ["", "1", "a/3", "-1/3", "+1/3", "0/0", "1/3/5", "1/99999999999"] {
        check(
            text,
            Err(&format!(
                "{text:?} is not a shard: expected INDEX/COUNT, such as 0/3, the first of three"
            )),
        );
    }
    assert_eq!(Slice { index: 2, of: 3 }.to_string(), "2/3");
}

#[test]
fn all_selections_have_to_match() {
    let shards = Shards::default().namespace("a").labels("team").unwrap();
    assert!(shards.own(&meta("a", "x", &[("team", "")])));
    assert!(!shards.own(&meta("b", "x", &[("team", "")])));
    assert!(!shards.own(&meta("a", "x", &[])));
    assert!(!shards.are_all());
    assert!(!Shards::none().are_all() && !Shards::none().own(&meta("a", "x", &[])));
    assert!(Shards::default().are_all());
}
