//! Renders charts for `cargo xtask charts`: reads questions, a JSON object per line, and prints an answer per
//! line.
//!
//! `answers render` prints the text of each template, or the error. `answers bench` prints the times of loading
//! the chart, of the first render, and of renders from the cache.

use equate_helm::cache::Cache;
use equate_helm::capabilities::Capabilities;
use equate_helm::chart::{Chart, Values};
use equate_helm::engine::Release;
use equate_helm::render::{self, Request};
use equate_helm::{Limits, dependencies, values};
use equate_template::Seeded;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::error::Error;
use std::io::{BufRead as _, Write as _};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

fn main() -> Result<(), Box<dyn Error>> {
    let timed = std::env::args().nth(1).as_deref() == Some("bench");
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let question: Value = serde_json::from_str(&line?)?;
        let answer = answer(&question, timed).unwrap_or_else(|error| json!({ "error": error.to_string() }));
        writeln!(out, "{answer}")?;
    }
    Ok(())
}

fn answer(question: &Value, timed: bool) -> Result<Value, Box<dyn Error>> {
    let text = |name: &str| question[name].as_str().unwrap_or_default();
    let began = Instant::now();
    let chart = Chart::from_path(Path::new(text("chart")), &Limits::default())?;
    let load = milliseconds(began);
    let values = values::read(text("values"), &Limits::default())?;
    dependencies::check_present(&chart)?;
    if !timed {
        let texts = render(
            &chart,
            &values,
            &Cache::default(),
            question["seed"].as_u64().unwrap_or_default(),
        )?;
        return Ok(json!({ "texts": texts, "load": load }));
    }
    let times = question["times"].as_u64().unwrap_or(1).max(1);
    let warm = Cache::default();
    render(&chart, &values, &warm, 0)?;
    let (mut first, mut again) = (Vec::new(), Vec::new());
    for _ in 0..times {
        let began = Instant::now();
        render(&chart, &values, &Cache::default(), 0)?;
        first.push(milliseconds(began));
        let began = Instant::now();
        render(&chart, &values, &warm, 0)?;
        again.push(milliseconds(began));
    }
    Ok(json!({ "load": load, "render": first, "warm": again }))
}

fn render(
    chart: &Chart,
    values: &Values,
    cache: &Cache,
    seed: u64,
) -> Result<BTreeMap<String, String>, Box<dyn Error>> {
    let request = Request {
        chart,
        values,
        release: &Release {
            name: "demo".to_owned(),
            namespace: "default".to_owned(),
            revision: 1,
            is_upgrade: false,
        },
        capabilities: &Capabilities::default(),
        skip_schema: false,
        subchart_notes: false,
    };
    // two seeds are at least a second apart, like two runs of Helm
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let now = (since_1970 + Duration::from_secs(seed)).as_nanos();
    let world = Box::new(Seeded::new(&seed.to_be_bytes(), i128::try_from(now)?));
    let ran = render::texts(request, cache, world, equate_template::Limits::default())?;
    let texts = ran.texts.files.into_iter();
    Ok(texts.map(|(path, text)| (path.to_string(), text)).collect())
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}
