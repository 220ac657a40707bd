//! `cargo xtask picture`: draws `docs/equate-up.svg`, the terminal in README.md.
//!
//! Runs `equate up --path clusters/dev --once` on a copy of `examples/fleet` in a scratch git repository.
//! `script` (util-linux) gives the run a terminal: without one, `equate up` prints neither the view nor colours.
//! The last state of a small screen is drawn. CI does not run it. When the view changes: run it, look at the picture,
//! commit it. It needs `git` and `script`.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::bench;

const PICTURE: &str = "docs/equate-up.svg";
const ARGUMENTS: &str = "up --path clusters/dev --once";
/// Fixed names and dates: the commit in the picture has the same digest in every run.
const REPOSITORY: &str = "cp -R \"$1\"/. . && git init -q -b main && git add -A
    export GIT_AUTHOR_DATE=2026-01-01T00:00:00Z GIT_COMMITTER_DATE=2026-01-01T00:00:00Z
    git -c user.name=you -c user.email=you@example.org -c commit.gpgsign=false commit -q -m 'A fleet'";
const COLUMNS: usize = 76;
/// Sizes in the units of the picture.
const CHARACTER: f64 = 8.4;
const LINE: usize = 19;
const MARGIN: usize = 20;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The binary; without it the release binary is built.
    #[arg(long, value_name = "FILE")]
    equate: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let root = bench::workspace()?;
    let binary = bench::binary(args.equate.as_deref())?;
    let scratch = tempfile::tempdir()?;
    let fleet = scratch.path().join("fleet");
    std::fs::create_dir(&fleet)?;
    let mut setup = Command::new("sh");
    setup
        .args(["-ec", REPOSITORY, "sh"])
        .arg(root.join("examples/fleet"));
    output(&mut setup, &fleet)?;
    let line = format!("stty cols {COLUMNS} rows 40; TERM=xterm-256color exec \"$EQUATE\" {ARGUMENTS}");
    let mut record = Command::new("script");
    record.args(["--quiet", "--return", "--command", &line, "/dev/null"]);
    record.env("EQUATE", binary).env_remove("NO_COLOR");
    let shown = output(&mut record, &fleet)?;
    let mut screen = Screen::default();
    screen.write(&format!("\u{1b}[2m$\u{1b}[0m equate {ARGUMENTS}\r\n\r\n{shown}"))?;
    std::fs::write(root.join(PICTURE), svg(&screen))?;
    println!("{PICTURE} is drawn");
    Ok(())
}

fn output(command: &mut Command, directory: &Path) -> Result<String, Box<dyn Error>> {
    let program = command.get_program().display().to_string();
    let command = command.current_dir(directory).stdin(Stdio::null());
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cannot start {program}: {error}"))?;
    let text = String::from_utf8(output.stdout)?;
    match output.status.success() {
        true => Ok(text),
        false => Err(format!("{program} failed with {}:\n{text}", output.status).into()),
    }
}

/// The part of a terminal that the crate `console` uses: colours, cursor up and down, clearing a line.
#[derive(Debug, Default)]
struct Screen {
    /// Characters, each with the attributes of its `<tspan>`.
    lines: Vec<Vec<(char, String)>>,
    row: usize,
    style: String,
}

impl Screen {
    /// # Errors
    ///
    /// An escape sequence that this screen does not know: a picture without it would be wrong.
    fn write(&mut self, text: &str) -> Result<(), String> {
        let mut characters = text.chars();
        let mut column = 0;
        while let Some(character) = characters.next() {
            let count = self.lines.len().max(self.row + 1);
            self.lines.resize(count, Vec::new());
            match character {
                '\r' => column = 0,
                '\n' => self.row += 1,
                '\u{1b}' => {
                    let mut sequence = String::new();
                    while !sequence.ends_with(|end: char| end.is_ascii_alphabetic()) {
                        sequence.push(characters.next().ok_or("the output ends in an escape sequence")?);
                    }
                    self.control(&sequence)
                        .ok_or_else(|| format!("unknown escape sequence {sequence:?}"))?;
                }
                character => {
                    let line = &mut self.lines[self.row];
                    line.resize(line.len().max(column + 1), (' ', String::new()));
                    line[column] = (character, self.style.clone());
                    column += 1;
                }
            }
        }
        Ok(())
    }

    fn control(&mut self, sequence: &str) -> Option<()> {
        let (parameters, action) = sequence.strip_prefix('[')?.split_at_checked(sequence.len() - 2)?;
        match action {
            "A" => self.row = self.row.saturating_sub(parameters.parse().ok()?),
            "B" => self.row += parameters.parse::<usize>().ok()?,
            "K" if parameters == "2" => self.lines[self.row].clear(),
            // shows or hides the cursor
            "h" | "l" if parameters == "?25" => {}
            "m" => {
                for code in parameters.split(';') {
                    match code {
                        "" | "0" => self.style.clear(),
                        "1" => self.style.push_str(" font-weight=\"bold\""),
                        "2" => self.style.push_str(" opacity=\"0.6\""),
                        "31" => self.style.push_str(" fill=\"#ff7b72\""),
                        "32" => self.style.push_str(" fill=\"#3fb950\""),
                        "33" => self.style.push_str(" fill=\"#d29922\""),
                        _ => return None,
                    }
                }
            }
            _ => return None,
        }
        Some(())
    }

    /// One `<text>` for each line that is not empty, one `<tspan>` for each run of a style.
    fn texts(&self) -> String {
        let mut texts = String::new();
        for (row, line) in self.lines.iter().enumerate().filter(|(_, line)| !line.is_empty()) {
            texts.push_str(&format!("<text y=\"{}\">", 2 * MARGIN + (row + 1) * LINE));
            let mut x = MARGIN as f64;
            for run in line.chunk_by(|a, b| a.1 == b.1) {
                let text: String = run.iter().map(|(character, _)| *character).collect();
                let text = text.replace('&', "&amp;").replace('<', "&lt;");
                texts.push_str(&format!("<tspan x=\"{x:.1}\"{}>{text}</tspan>", run[0].1));
                x += run.len() as f64 * CHARACTER;
            }
            texts.push_str("</text>\n");
        }
        texts
    }
}

fn svg(screen: &Screen) -> String {
    let width = 2 * MARGIN + (COLUMNS as f64 * CHARACTER) as usize;
    let height = 3 * MARGIN + screen.lines.len() * LINE;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" font-size=\"14\" fill=\"#e6edf3\" \
         xml:space=\"preserve\">\n<title>equate {ARGUMENTS}</title>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#0d1117\"/>\n\
         <g fill=\"#484f58\"><circle cx=\"20\" cy=\"20\" r=\"5\"/><circle cx=\"38\" cy=\"20\" r=\"5\"/><circle cx=\"56\" cy=\"20\" r=\"5\"/></g>\n\
         {}</svg>\n",
        screen.texts()
    )
}

#[cfg(test)]
mod tests {
    use super::Screen;

    #[test]
    fn the_last_state_of_the_screen_is_drawn() {
        let check = |written: &str, expected: &str| {
            let mut screen = Screen::default();
            let drawn = screen.write(written).map(|()| screen.texts());
            assert_eq!(
                drawn.unwrap_or_else(|error| error).trim_end(),
                expected,
                "{written:?}"
            );
        };
        check(
            "a<b&c",
            r#"<text y="59"><tspan x="20.0">a&lt;b&amp;c</tspan></text>"#,
        );
        check(
            "old\r\u{1b}[2Kn",
            r#"<text y="59"><tspan x="20.0">n</tspan></text>"#,
        );
        check(
            "\u{1b}[32m✓\u{1b}[0m a",
            r##"<text y="59"><tspan x="20.0" fill="#3fb950">✓</tspan><tspan x="28.4"> a</tspan></text>"##,
        );
        check(
            "a\r\nb\r\n\u{1b}[2A\u{1b}[1;2mc",
            "<text y=\"59\"><tspan x=\"20.0\" font-weight=\"bold\" opacity=\"0.6\">c</tspan></text>\n\
             <text y=\"78\"><tspan x=\"20.0\">b</tspan></text>",
        );
        check("\u{1b}[5J", "unknown escape sequence \"[5J\"");
    }
}
