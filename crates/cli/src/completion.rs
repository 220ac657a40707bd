//! `equate completion`: the script of clap, which offers commands, options and kinds, and for bash, zsh and
//! fish the names of objects in the cluster.

use crate::kinds::Kinds;
use crate::line;
use clap_complete::Shell;
use equate_controllers::ControllerSet;

pub(crate) fn script(shell: Shell, controllers: &ControllerSet) -> Vec<u8> {
    // buffered: writing to memory cannot fail, writing to a closed pipe can
    let mut script = Vec::new();
    let mut command = line::command(controllers);
    clap_complete::generate(shell, &mut command, "equate", &mut script);
    match shell {
        Shell::Bash => script.extend_from_slice(include_bytes!("completion/names.bash")),
        Shell::Fish => {
            // clap's script for fish offers no values of arguments without an option
            let kinds = Kinds::of(controllers.iter()).names().join(" ");
            script.extend_from_slice(format!("\nset -g __equate_kinds {kinds}\n").as_bytes());
            script.extend_from_slice(include_bytes!("completion/names.fish"));
        }
        Shell::Zsh => {
            let start = start_of(&script, ZSH_START);
            script.splice(
                start..start,
                include_bytes!("completion/names.zsh").iter().copied(),
            );
        }
        _ => {}
    }
    script
}

/// The part of zsh's script that runs its function.
const ZSH_START: &[u8] = b"if [ \"$funcstack[1]\"";

/// The position of a part, or the end.
fn start_of(script: &[u8], part: &[u8]) -> usize {
    let found = script.windows(part.len()).position(|window| window == part);
    found.unwrap_or(script.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_offered_to_every_shell() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = script(shell, &equate_controllers::all());
            let script = String::from_utf8(script).unwrap();
            assert!(script.contains("kustomizations"), "{shell}");
            assert!(script.contains("gitrepo"), "{shell}");
        }
    }

    /// Runs the script in bash with a stand-in for the program that prints names.
    #[cfg(unix)]
    #[test]
    fn names_are_offered_in_bash() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("script.bash");
        std::fs::write(&path, script(Shell::Bash, &equate_controllers::all())).unwrap();
        let check = |words: &str, expected: &str| {
            let text = format!(
                "source {}; equate() {{ [[ \"$*\" == *-o\\ name ]] && printf 'kustomization.x/apps\\nkustomization.x/infra\\n'; }}; \
                 COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
                 _equate_names equate \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD - 1]}}\"; \
                 echo \"${{COMPREPLY[*]}}\"",
                path.display()
            );
            let output = std::process::Command::new("bash").arg("-c").arg(text).output();
            let Ok(output) = output else {
                eprintln!("skipped: no bash");
                return;
            };
            let printed = String::from_utf8(output.stdout).unwrap();
            let errors = String::from_utf8(output.stderr).unwrap();
            assert_eq!(printed.trim_end(), expected, "{words}: {errors}");
        };
        check("equate explain ks ''", "apps infra");
        check("equate debug kustomization ''", "apps infra");
        check("equate get -n shop ks in", "infra");
        check("equate get ks/a", "ks/apps");
        check("equate get kustomiz", "kustomizations");
    }

    #[cfg(unix)]
    #[test]
    fn names_are_offered_in_zsh() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("script.zsh");
        std::fs::write(&path, script(Shell::Zsh, &equate_controllers::all())).unwrap();
        let check = |words: &str, expected: &str| {
            let text = format!(
                "compdef() {{ }}; source {}; _equate_words() {{ print words }}; compset() {{ }}; \
                 compadd() {{ print $found }}; \
                 equate() {{ [[ \"$*\" == *-o\\ name ]] && printf 'kustomization.x/apps\\nkustomization.x/infra\\n'; }}; \
                 words=({words}); CURRENT=${{#words}}; _equate",
                path.display()
            );
            let output = std::process::Command::new("zsh").arg("-fc").arg(text).output();
            let Ok(output) = output else {
                eprintln!("skipped: no zsh");
                return;
            };
            let printed = String::from_utf8(output.stdout).unwrap();
            let errors = String::from_utf8(output.stderr).unwrap();
            assert_eq!(printed.trim_end(), expected, "{words}: {errors}");
        };
        check("equate explain ks ''", "apps infra");
        check("equate get -n shop ks in", "apps infra");
        check("equate get ks/a", "apps infra");
        check("equate get kustomiz", "words");
        check("equate get sources git", "words");
        check("equate up ''", "words");
    }

    #[cfg(unix)]
    #[test]
    fn names_are_offered_in_fish() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("script.fish");
        std::fs::write(&path, script(Shell::Fish, &equate_controllers::all())).unwrap();
        let check = |words: &str, expected: &str| {
            let text = format!(
                "function equate; if string match -q -- '*-o name' \"$argv\"; \
                 printf 'kustomization.x/apps\\nkustomization.x/infra\\n'; end; end; \
                 source {}; complete -C '{words}'",
                path.display()
            );
            let mut fish = std::process::Command::new("fish");
            fish.args(["--no-config", "-c", &text]).current_dir(&place);
            let Ok(output) = fish.output() else {
                eprintln!("skipped: no fish");
                return;
            };
            let printed = String::from_utf8(output.stdout).unwrap();
            let errors = String::from_utf8(output.stderr).unwrap();
            let offered: Vec<&str> = printed.lines().filter(|name| *name != "script.fish").collect();
            assert_eq!(offered.join(" "), expected, "{words}: {errors}");
        };
        check("equate explain ks ", "apps infra");
        check("equate debug kustomization ", "apps infra");
        check("equate get -n shop ks in", "infra");
        check("equate get ks/a", "ks/apps");
        check("equate get ks/apps ks/i", "ks/infra");
        check("equate get kustomiz", "kustomizations");
        check("equate get sources ", "");
    }
}
