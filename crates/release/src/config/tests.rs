use super::{Config, SCHEMA, parse_duration};
use std::time::Duration;

fn config(rules: &str) -> String {
    format!(
        "version: 1\nenvironments: [dev, staging, {{prod: [prod-eu, prod-us]}}]\n\
         services: apps/{{environment}}/{{service}}\n{rules}"
    )
}

#[test]
fn environments_have_an_order() {
    let config = Config::parse("equate.yaml", &config("")).unwrap();
    let names: Vec<&str> = config.environments().collect();
    assert_eq!(names, ["dev", "staging", "prod-eu", "prod-us"]);
    assert_eq!(config.before("prod-us"), ["staging"]);
    assert_eq!(config.before("dev"), [""; 0]);
    assert_eq!(config.all_before("prod-eu"), ["staging", "dev"]);
    assert_eq!(config.resolve("prod").unwrap(), ["prod-eu", "prod-us"]);
    assert_eq!(config.resolve("prod-eu").unwrap(), ["prod-eu"]);
    assert_eq!(config.resolve("production"), None);
    assert_eq!(config.nearest("stagging"), Some("staging"));
}

#[test]
fn errors_have_a_place_and_a_hint() {
    #[track_caller]
    fn check(text: &str, expected: &str) {
        let error = Config::parse("equate.yaml", text).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    check("", "equate.yaml:1:1: the file is empty; correct the YAML");
    check("a: [", "equate.yaml:1:4: unclosed bracket '['; correct the YAML");
    check(
        "version: 2\n",
        "equate.yaml:1:10: unknown version 2; this equate reads version 1",
    );
    check(
        "version: 1\nenvironment: [a]\n",
        "equate.yaml:2:14: unknown field \"environment\"; did you mean `environments`?",
    );
    check(
        "version: 1\nenvironments: [a, a]\nservices: x/{environment}\n",
        "equate.yaml:2:19: \"a\" is listed twice; give each environment and group its own name",
    );
    check(
        "version: 1\nenvironments: [a, ../b]\nservices: x/{environment}\n",
        "equate.yaml:2:19: \"../b\" cannot name an environment; use letters, digits, `-`, `_` and `.`",
    );
    check(
        "version: 1\nenvironments: [1]\nservices: x/{environment}\n",
        "equate.yaml:2:16: \"0\" is a number, not a text; put it in quotes",
    );
    check(
        "version: 1\nenvironments: [a]\nservices: ../x/{environment}\n",
        "equate.yaml:3:11: \"../x/{environment}\" is not a path inside the repository; write it as \
         `apps/{environment}/{service}`",
    );
    check(
        &config("rules:\n- to: prd\n"),
        "equate.yaml:5:7: unknown environment \"prd\"; did you mean `prod`?",
    );
    check(
        &config("rules:\n- to: prod\n  soak: soon\n"),
        "equate.yaml:6:9: \"soon\" is not a duration; write it as 30m, 4h or 2d",
    );
    check(
        &config("rules:\n- freeze: [{from: Fri 16:00, until: 2026-01-01}]\n"),
        "equate.yaml:5:37: a day of the week and a date do not go together; give two days of the week, or two \
         dates",
    );
    check(
        &config("rules:\n- freeze: [{from: Fri 16:00, until: Mon 07:00, zone: Mars}]\n"),
        "equate.yaml:5:54: unknown time zone \"Mars\"; write a name such as Europe/Copenhagen",
    );
}

#[test]
fn durations_are_read() {
    let hours = |hours: u64| Some(Duration::from_secs(hours * 3600));
    assert_eq!(parse_duration("4h"), hours(4));
    assert_eq!(parse_duration("1d12h"), hours(36));
    assert_eq!(parse_duration("1w"), hours(168));
    for wrong in ["", "4", "h", "4 h", "-1h", "99999999999999999999d"] {
        assert_eq!(parse_duration(wrong), None, "{wrong}");
    }
}

#[test]
fn weekly_freeze_follows_the_clocks_of_its_zone() {
    let text = config("rules:\n- freeze: [{from: Fri 16:00, until: Mon 07:00, zone: Europe/Copenhagen}]\n");
    let config = Config::parse("equate.yaml", &text).unwrap();
    let freeze = &config.rules[0].freeze[0];
    #[track_caller]
    fn check(freeze: &super::Freeze, now: &str, until: Option<&str>) {
        let until = until.map(|until| until.parse().unwrap());
        assert_eq!(freeze.until(now.parse().unwrap()), until, "{now}");
    }
    // winter: UTC+1
    check(freeze, "2026-11-27T14:59:59Z", None);
    check(freeze, "2026-11-27T15:00:00Z", Some("2026-11-30T06:00:00Z"));
    check(freeze, "2026-11-30T05:59:59Z", Some("2026-11-30T06:00:00Z"));
    check(freeze, "2026-11-30T06:00:00Z", None);
    // the clocks change on Sunday, 29 March 2026: the end is UTC+2
    check(freeze, "2026-03-27T15:00:00Z", Some("2026-03-30T05:00:00Z"));
    check(freeze, "2026-03-30T05:00:00Z", None);
}

#[test]
fn dates_include_their_last_day() {
    let text = config("rules:\n- freeze: [{from: 2026-12-20, until: 2027-01-03, reason: Christmas}]\n");
    let config = Config::parse("equate.yaml", &text).unwrap();
    let freeze = &config.rules[0].freeze[0];
    let until = |now: &str| freeze.until(now.parse().unwrap());
    assert_eq!(until("2026-12-19T23:59:59Z"), None);
    assert_eq!(
        until("2027-01-03T23:59:59Z"),
        Some("2027-01-04T00:00:00Z".parse().unwrap())
    );
    assert_eq!(until("2027-01-04T00:00:00Z"), None);
}

#[test]
fn schema_lists_the_same_fields() {
    let schema: serde_json::Value = serde_json::from_str(SCHEMA).unwrap();
    let keys = |pointer: &str| -> Vec<String> {
        let map = schema.pointer(pointer).unwrap().as_object().unwrap();
        map.keys().cloned().collect()
    };
    // an unknown field's error lists those that the parser reads
    let listed = |text: &str| -> Vec<String> {
        let error = Config::parse("f", text).unwrap_err();
        let fields = error.hint.strip_prefix("the fields are ").unwrap();
        let mut fields: Vec<String> = fields.split(", ").map(str::to_owned).collect();
        fields.sort();
        fields
    };
    let sorted = |mut keys: Vec<String>| {
        keys.sort();
        keys
    };
    let unknown = "zzzzzzzzzzzz: 1";
    assert_eq!(listed(unknown), sorted(keys("/properties")));
    let rule = config(&format!("rules: [{{{unknown}}}]\n"));
    assert_eq!(listed(&rule), sorted(keys("/properties/rules/items/properties")));
    let value = config(&format!("values: [{{{unknown}}}]\n"));
    assert_eq!(
        listed(&value),
        sorted(keys("/properties/values/items/properties"))
    );
    let freeze = config(&format!("rules: [{{freeze: [{{{unknown}}}]}}]\n"));
    let place = "/properties/rules/items/properties/freeze/items/properties";
    assert_eq!(listed(&freeze), sorted(keys(place)));
}
