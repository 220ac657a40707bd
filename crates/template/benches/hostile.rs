//! The cost of hostile templates until a limit ends them: processor time and peak memory, with a render's
//! limits. Runs each once, without criterion.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a bench")]

#[path = "../tests/it/hostile.rs"]
mod hostile;

use equate_template::{Library, Options, Seeded, Session, TemplateSet, Value};

/// Processor time so far, in milliseconds; the system's resolution is hundredths of a second.
fn cpu_ms() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // after the name in parentheses: user and system time are the 12th and 13th field
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(|field| field.parse::<u64>().unwrap_or(0));
    ticks.sum::<u64>() * 10
}

/// The peak memory since the last reset, in MiB; 0 if unavailable.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1_024
}

fn main() {
    let mut rows = Vec::new();
    for (before, template, _) in hostile::TEMPLATES {
        // "5" asks the kernel to reset the peak
        let _ = std::fs::write("/proc/self/clear_refs", "5");
        let template = format!("{before}{template}");
        let mut set = TemplateSet::new(Library::Helm);
        set.parse("t", &template).unwrap();
        let started = cpu_ms();
        let mut session = Session::new(Options::helm(), Box::new(Seeded::new(b"", 0)));
        let result = session.execute(&set, "t", Value::Absent);
        let reason = result.map_or_else(|error| error.reason, |_| "no error".to_owned());
        let reason: String = reason
            .chars()
            .rev()
            .take(60)
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
            .collect();
        drop(session);
        if std::env::var("SHOW").is_ok() {
            println!("{} ms: {template}", cpu_ms() - started);
        }
        rows.push((cpu_ms() - started, peak_mib(), template, reason));
    }
    rows.sort();
    for (time, peak, template, reason) in rows.iter().rev() {
        let shown: String = template
            .chars()
            .rev()
            .take(70)
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
            .collect();
        println!("{time:>7} ms {peak:>5} MiB  {reason:<60} {shown}");
    }
}
