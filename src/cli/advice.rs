//! The library says what to do in words of its own; here the option that does it is put beside them.

/// What sentences of the library advise, and the option that follows the advice.
const OPTIONS: &[(&str, &str)] = &[
    ("use the CPU engine", "--device cpu"),
    ("ask for partial results", "--partial"),
    ("set the bandwidth to a number", "--bandwidth"),
    ("set the penalty weight lambda", "--lambda"),
    ("a larger penalty weight lambda", "--lambda"),
    ("the ingoing penalty", "--penalty ingoing"),
    ("set the objective skds", "--objective skds"),
    ("ask for an acyclic graph", "--acyclic"),
    ("resume the fit", "--resume"),
    ("restart it", "--restart"),
    ("consider pairs", "--pairs"),
];

/// The sentence, with the option behind each piece of advice that has one.
pub(super) fn with_options(sentence: &str) -> String {
    OPTIONS.iter().fold(sentence.to_owned(), |sentence, (advice, option)| {
        sentence.replacen(advice, &format!("{advice} ({option})"), 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn options_stand_behind_the_advice() {
        assert_eq!(
            with_options("no GPU found: use the CPU engine for f64"),
            "no GPU found: use the CPU engine (--device cpu) for f64"
        );
        assert_eq!(with_options("the work was stopped"), "the work was stopped");
    }

    #[test]
    fn all_advice_is_given_somewhere() {
        fn texts(folder: &Path) -> String {
            let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
            let of = |path: std::path::PathBuf| match path.is_dir() {
                true if path.ends_with("cli") => String::new(),
                true => texts(&path),
                false => std::fs::read_to_string(&path).unwrap_or_default(),
            };
            entries.map(of).collect()
        }
        let library = texts(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
        // A sentence may go on in another line of its source.
        let library = library.split_whitespace().collect::<Vec<_>>().join(" ").replace("\\ ", "");
        for (advice, _) in OPTIONS {
            assert!(library.contains(advice), "the library never says '{advice}'");
        }
    }
}
