//! Nothing that an expression contains exceeds the limits of cost, memory, time and stack.

use super::{BYTES_MAX, LIMITS, environment, program};
use crate::{Budget, Environment, Fail, Library, Program, Schema as _, UNTYPED, Val, Variables};
use serde_json::{Value, json};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

const KUBERNETES: Library = Library::Kubernetes(super::FORMATS);

/// The result of an expression over `v`, in short.
fn outcome(text: &str, v: &Value, budget: &mut Budget<'_>) -> String {
    let program = program(KUBERNETES, text);
    let answer = program.evaluate(&[UNTYPED.read(v), Ok(Val::Null)], budget);
    match answer {
        Ok(Val::Bool(answer)) => answer.to_string(),
        Ok(other) => other.type_name().to_owned(),
        Err(Fail::Cost) => "cost".to_owned(),
        Err(Fail::Memory) => "memory".to_owned(),
        Err(Fail::Stopped) => "stopped".to_owned(),
        Err(fail) => fail.to_string(),
    }
}

#[test]
fn hostile_expressions_end_at_the_budget() {
    let v = json!({ "n": (0..300).collect::<Vec<_>>(), "t": "a".repeat(100_000) });
    let mut wrong = Vec::new();
    let mut check = |text: &str, expected: &str| {
        let mut budget = Budget::new(500_000, BYTES_MAX);
        let started = Instant::now();
        let found = outcome(text, &v, &mut budget);
        let elapsed = started.elapsed();
        println!("{elapsed:?} for {} units: {text:.60}", 500_000 - budget.left());
        if found != expected || elapsed > Duration::from_secs(30) {
            wrong.push(format!("{text:.200}: {found} after {elapsed:?}, not {expected}"));
        }
    };
    // many computed patterns
    check(
        "v.n.all(n, !'a'.matches('([b-z]{1,300}){1,3}' + string(n)))",
        "cost",
    );
    check("v.n.all(n, 'a'.find('(x+x+)+y' + string(n)) == '')", "cost");
    // one pattern is compiled once
    check("v.n.all(n, 'a'.matches('[a-z' + ']{1,100}'))", "true");
    // large literal patterns over long texts
    check("v.t.matches('([a-z]{1,200}b?){1,4}c')", "cost");
    check("v.t.findAll('a*?b').size() == 0", "true");
    check("v.t.findAll('a??').size() == 0", "cost");
    // loops
    check("v.n.all(a, v.n.all(b, v.n.all(c, true)))", "cost");
    check("v.n.map(a, v.n.map(b, v.n)).size() == 0", "false");
    check("(v.n.all(a, v.n.all(b, v.n.all(c, true)))) || true", "cost");
    check(
        "[1].all(x, v.n.all(a, v.n.all(b, v.n.all(c, 1 / 0 == 1))))",
        "cost",
    );
    // texts and lists that double
    check(
        &format!("{}.size() == 0", doubled("'a'", ".map(x, x + x)[0]")),
        "cost",
    );
    check(
        &format!("('a'{}) == ''", ".replace('a', 'aa')".repeat(40)),
        "cost",
    );
    check(&format!("('a'{}) == ''", ".replace('', v.t)".repeat(3)), "memory");
    check(&format!("{} == []", doubled("[[1]]", ".map(x, x + x)")), "cost");
    // values that share their parts are small, but not to those who walk them
    check(
        &format!("{0} == {0}", doubled("[[1]]", ".map(x, [x, x])")),
        "cost",
    );
    check(
        &format!("'%s'.format([{}]) == ''", doubled("[[1]]", ".map(x, [x, x])")),
        "cost",
    );
    check(
        &format!("{}.flatten(1000) == []", doubled("[[1]]", ".map(x, [x, x])")),
        "cost",
    );
    // functions whose work grows with their arguments
    check("lists.range(100000000000).size() == 0", "cost");
    check("v.n.map(n, v.t.split('')).size() == 0", "cost");
    check(
        "v.n.all(n, v.t.lastIndexOf('aaaaaaaaaaaaaaaaaaaaaaaab') == -1)",
        "cost",
    );
    check("v.n.all(n, v.n.distinct().size() > 0)", "cost");
    check("v.n.all(n, sets.equivalent(v.n, v.n))", "cost");
    check("v.n.all(n, v.n.map(m, -m).sort().size() > 0)", "cost");
    check("'%.999f'.format([1.0]).size() == 1001", "true");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn doubled(start: &str, step: &str) -> String {
    match start.starts_with('\'') {
        true => format!("[{start}]{}[0]", ".map(x, x + x)".repeat(40)),
        false => format!("{start}{}", step.repeat(40)),
    }
}

/// A text has room for hundreds of literal patterns; each takes milliseconds.
#[test]
fn literal_patterns_of_a_program_are_limited() {
    let many: Vec<String> = (0..500)
        .map(|n| format!("'a'.matches('\\\\pL{{1,20}}{n}')"))
        .collect();
    let text = many.join("||");
    let started = Instant::now();
    assert_eq!(outcome(&text, &Value::Null, &mut super::budget()), "cost");
    assert!(
        started.elapsed() < Duration::from_secs(10),
        "{:?}",
        started.elapsed()
    );
    // others of the program are compiled by the run, which pays for them
    assert_eq!(
        outcome(
            &format!("'b'.matches('^b$') || {text}"),
            &Value::Null,
            &mut super::budget()
        ),
        "true"
    );
}

#[test]
fn values_of_a_run_are_limited_in_memory() {
    let v = json!(vec!["x".repeat(1000); 50]);
    let check = |text: &str| {
        let mut budget = Budget::new(u64::MAX / 2, 20_000);
        assert_eq!(outcome(text, &v, &mut budget), "memory", "{text}");
    };
    check("v.map(x, x + x).size() == 0");
    check("v.join().size() == 0");
    check("v.map(x, x.split('')).size() == 0");
    check("lists.range(100000).size() == 0");
    check("v.map(x, x.replace('x', 'yy')).size() == 0");
    check("v.map(x, v).map(y, y + y).size() == 0");
    check("v.map(x, '%s%s'.format([x, x])).size() == 0");
    check("lists.range(1000).transformMap(i, x, x).size() == 0");
}

#[test]
fn a_caller_can_interrupt_a_run() {
    let v = json!((0..1000).collect::<Vec<_>>());
    let text = "v.all(a, v.all(b, v.all(c, v.all(d, true))))";
    let stop = AtomicBool::new(true);
    let mut stopped = Budget::new(u64::MAX / 2, BYTES_MAX).stopped_by(&stop);
    assert_eq!(outcome(text, &v, &mut stopped), "stopped");
    let soon = Instant::now() + Duration::from_millis(20);
    let mut late = Budget::new(u64::MAX / 2, BYTES_MAX).until(soon);
    assert_eq!(outcome(text, &v, &mut late), "stopped");
    assert!(Instant::now() >= soon);
    assert!(soon.elapsed() < Duration::from_secs(5), "{:?}", soon.elapsed());
}

#[test]
fn a_budget_is_shared_by_runs() {
    let program = program(Library::Flux, "[1, 2, 3].all(x, x > 0)");
    let mut budget = Budget::new(1000, BYTES_MAX);
    assert!(program.evaluate(&[], &mut budget).is_ok());
    let cost = 1000 - budget.left();
    assert!((10..50).contains(&cost), "{cost}");
    assert!(program.evaluate(&[], &mut budget).is_ok());
    assert_eq!(budget.left(), 1000 - 2 * cost);
    let mut small = Budget::new(cost - 1, BYTES_MAX);
    assert_eq!(program.evaluate(&[], &mut small).unwrap_err(), Fail::Cost);
    assert_eq!(small.left(), 0);
}

#[test]
fn floats_that_are_no_numbers_are_sorted() {
    let mut budget = super::budget();
    let text = "[2.0, double('NaN'), 1.0, double('-Infinity'), double('NaN'), 0.0].sort()[1] == 0.0";
    assert_eq!(outcome(text, &Value::Null, &mut budget), "true");
}

#[test]
fn deep_and_long_texts_fit_the_stack() {
    let check = |head: &str, part: &str, middle: &str, tail: &str| {
        for times in [1, 10, 90, 124, 240, 249, 260, 1_000, 16_000 / part.len()] {
            let text = format!("{head}{}{middle}{}", part.repeat(times), tail.repeat(times));
            let run = move || {
                for (library, variables) in [
                    (Library::Flux, Variables::Fields),
                    (KUBERNETES, Variables::Declared(&["v"])),
                ] {
                    let environment = Environment {
                        variables,
                        library,
                        limits: LIMITS,
                    };
                    if let Ok(program) = Program::compile(&text, &environment) {
                        drop(program.check_names(&text));
                        let v = json!({ "a": [[1]] });
                        let variables = vec![UNTYPED.read(&v); program.names().len()];
                        drop(program.evaluate(&variables, &mut super::budget()));
                    }
                }
            };
            // the stack of a worker
            let thread = std::thread::Builder::new().stack_size(2 << 20);
            thread.spawn(run).unwrap().join().unwrap();
        }
    };
    check("v", ".a", "", "");
    check("v", ".?a", "", "");
    check("v", "[0]", "", "");
    check("1", "+1", "", "");
    check("1", " in [1]", "", "");
    check("1", "<1", "", "");
    check("true", "&&true", "", "");
    check("true", "||true", "", "");
    check("", "true?1:", "1", "");
    check("'a'", ".trim()", "", "");
    check("'a'", ".lowerAscii()", "== ''", "");
    check("", "!", "true", "");
    check("", "-", "1", "");
    check("", "(", "1", ")");
    check("", "(')'+", "''", ")");
    check("", "[", "1", "]");
    check("", "{1:", "1", "}");
    check("", "int(", "1", ")");
    check("", "[1].all(x,", "true", ")");
    check("", "[1].map(x,", "1", ")");
    check("[1]", ".map(x, [x])", "", "");
    check("", "{", "", "");
    check("", "'", "", "");
    check("", "v{", "", "}");
    check("", "v{a:", "1", "}");
}

#[test]
fn limits_of_the_text_are_named() {
    let refused = |text: &str| {
        let refused = Program::compile(text, &environment(Library::Flux));
        refused.unwrap_err().to_string()
    };
    let long = "a".repeat(LIMITS.bytes_max + 1);
    assert_eq!(
        refused(&long),
        "the expression has 16385 bytes; the limit is 16384"
    );
    let deep = format!("{}1{}", "(".repeat(251), ")".repeat(251));
    assert_eq!(
        refused(&deep),
        "the expression is nested more than 250 levels deep"
    );
    // a condition with many parts is not deep
    let flat = format!("true{}", " && true".repeat(1000));
    assert!(Program::compile(&flat, &environment(Library::Flux)).is_ok());
}
