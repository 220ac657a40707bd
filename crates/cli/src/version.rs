//! `equate version`.

use crate::document::{Form, document};
use serde_json::json;
use std::io::Write;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Output format (default: one line).
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<Form>,
}

pub(crate) fn print(args: &Args, out: &mut impl Write) -> std::io::Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    let text = match args.output {
        None => format!("equate {version}\n"),
        Some(form) => {
            let platform = format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH);
            document(&json!({ "version": version, "platform": platform }), form)
        }
    };
    out.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        let printed = |output| {
            let mut out = Vec::new();
            print(&Args { output }, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(printed(None), format!("equate {version}\n"));
        let yaml = printed(Some(Form::Yaml));
        assert!(yaml.contains(&format!("version: {version}\n")), "{yaml}");
        let json: serde_json::Value = serde_json::from_str(&printed(Some(Form::Json))).unwrap();
        assert_eq!(json["version"], version);
    }
}
