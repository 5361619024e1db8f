//! `skds completions` and `skds man`: what shells and manual pages know of the commands.

use std::process::{Command, Output};

fn skds(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_skds")).args(args).output().unwrap()
}

fn printed(args: &[&str]) -> String {
    let output = skds(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The words that bash offers after `words`, whose last is not finished; none where there is no bash.
fn offered(words: &[&str]) -> Option<Vec<String>> {
    let script = format!(
        "source <(\"$SKDS\" completions bash) || exit 1\n\
         COMP_WORDS=({}); COMP_CWORD={}; COMPREPLY=()\n\
         _skds skds \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD-1]}}\"\n\
         printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        words.join(" "),
        words.len() - 1
    );
    let bash = Command::new("bash").args(["-c", &script]).env("SKDS", env!("CARGO_BIN_EXE_skds")).output();
    let output = bash.ok()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.is_empty(), "{said}");
    Some(String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect())
}

#[test]
fn every_shell_has_a_script_without_hidden_commands_and_options() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = printed(&["completions", shell]);
        for piece in ["learning-rate", "experiment", "figure1", "completions"] {
            assert!(script.contains(piece), "{shell} does not know {piece}");
        }
        for hidden in ["memory-of", "no-batching", "Do the jobs of a service", "subcmd__work", "__skds__work"]
        {
            assert!(!script.contains(hidden), "{shell} shows {hidden}");
        }
    }
    let refused = skds(&["completions", "csh"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("'csh'"));
}

#[test]
fn bash_completes_commands_and_options() {
    let Some(commands) = offered(&["skds", "e"]) else {
        eprintln!("no bash, no test");
        return;
    };
    assert_eq!(commands, ["evaluate", "experiment"]);
    assert_eq!(offered(&["skds", "fit", "--lam"]).unwrap(), ["--lambda"]);
    assert_eq!(offered(&["skds", "experiment", "run", "--sh"]).unwrap(), ["--shard"]);
    // The command of the service's processes is nobody's.
    assert!(!offered(&["skds", "w"]).unwrap().contains(&"work".to_owned()));
}

#[test]
fn there_is_a_page_for_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("man/man1");
    printed(&["man", "-o", place.to_str().unwrap()]);
    let mut names: Vec<String> = std::fs::read_dir(&place)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    for command in ["skds", "skds-fit", "skds-serve", "skds-experiment-figure1", "skds-completions"] {
        assert!(names.contains(&format!("{command}.1")), "{command}: {names:?}");
    }
    assert!(!names.iter().any(|name| name.contains("work") || name.contains("help")), "{names:?}");
    let fit = std::fs::read_to_string(place.join("skds-fit.1")).unwrap();
    assert_eq!(printed(&["man", "fit"]), fit);
    assert!(fit.contains(".TH") && fit.contains("skds\\-fit"), "{fit}");
    assert_eq!(printed(&["man"]), std::fs::read_to_string(place.join("skds.1")).unwrap());
    for (args, piece) in [
        (&["man", "work"][..], "unknown command 'work', expected one of fit, "),
        (&["man", "fit", "run"], "unknown command 'run', expected none"),
    ] {
        let output = skds(args);
        let sentence = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{sentence}");
        assert!(sentence.contains(piece), "{sentence}");
    }
}
