//! The engine against recorded answers of cel-go, and its limits.

mod answers;
mod limits;

use crate::{Budget, Environment, Evaluated, Library, Limits, NamedFormat, Program, Variables};

const LIMITS: Limits = Limits {
    bytes_max: 16 << 10,
    depth_max: 250,
};

const BYTES_MAX: usize = 32 << 20;

fn no_upper_case(text: &str) -> Vec<String> {
    let upper = text.chars().any(char::is_uppercase);
    upper.then(|| "has upper case".to_owned()).into_iter().collect()
}

const FORMATS: &[NamedFormat] = &[NamedFormat {
    name: "dns1123Label",
    problems: no_upper_case,
}];

fn environment(library: Library) -> Environment {
    Environment {
        variables: Variables::Declared(&["v", "w"]),
        library,
        limits: LIMITS,
    }
}

fn program(library: Library, text: &str) -> Program {
    Program::compile(text, &environment(library)).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn budget() -> Budget<'static> {
    Budget::new(1_000_000, BYTES_MAX)
}

fn run<'a>(program: &'a Program, variables: &[Evaluated<'a>]) -> Evaluated<'a> {
    program.evaluate(variables, &mut budget())
}
