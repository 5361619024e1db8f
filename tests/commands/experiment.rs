//! `skds experiment`: cells are computed once, shards are the whole, damage is noticed, programs may join.

use skds::Matrix;
use skds::data::Dataset;
use skds::evaluate::TargetMeans;
use skds::experiment::{MethodSettings, PredictionTask};
use std::path::Path;
use std::process::{Command, Output};

const SMALL: &str = "{ system = \"SYSTEM\", dim = 5, rows = 60, train_envs = 3, test_envs = 2, edges = 2 }";

fn plan(folder: &Path, more: &str) -> String {
    let system = |name: &str, kind: &str| {
        format!("[[system]]\nname = \"{name}\"\nsettings = {}\n\n", SMALL.replace("SYSTEM", kind))
    };
    let text = format!(
        "datasets = 3\n\n{}{}[[method]]\nname = \"exact\"\nkind = \"fit\"\nsettings = {{ bandwidth = 3, lambda = 0.1 }}\n\n\
         [[method]]\nname = \"rest (as it is)\"\nkind = \"observational\"\n\n[[method]]\nname = \"diagonal\"\nkind = \"diagonal\"\n\n{more}",
        system("A", "sde"),
        system("B", "scm"),
    );
    let path = folder.join("plan.toml");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn skds(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_skds")).arg("experiment").args(args).output().unwrap()
}

fn passes(args: &[&str]) -> (String, String) {
    let output = skds(args);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{args:?}: {error}");
    (String::from_utf8(output.stdout).unwrap(), error)
}

#[test]
fn shards_are_the_whole_cells_are_kept_and_damage_is_mended() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let plan = plan(folder.path(), "");
    let (whole, parts) = (at("whole"), at("parts"));
    let (said, _) = passes(&["run", &plan, "-o", &whole]);
    assert!(said.starts_with("18 cells in"), "{said}");
    let results = std::fs::read_to_string(format!("{whole}/results.csv")).unwrap();
    // A header, and 2 systems × 3 datasets × 3 methods × 2 test interventions.
    assert_eq!(results.lines().count(), 1 + 36);

    let (said, _) = passes(&["run", &plan, "-o", &parts, "--shard", "2/2"]);
    assert!(said.contains("no results.csv yet: 9 of 18 cells are missing"), "{said}");
    assert_eq!(skds(&["table", &plan, "-o", &parts]).status.code(), Some(2));
    passes(&["run", &plan, "-o", &parts, "--shard", "1/2"]);
    assert_eq!(std::fs::read_to_string(format!("{parts}/results.csv")).unwrap(), results);

    // Nothing is computed twice: files stay as they are.
    let cells = folder.path().join("whole/cells");
    let times = || {
        let entries = std::fs::read_dir(&cells).unwrap().map(Result::unwrap);
        let mut all: Vec<_> =
            entries.map(|entry| (entry.path(), entry.metadata().unwrap().modified().unwrap())).collect();
        all.sort();
        all
    };
    let before = times();
    passes(&["run", &plan, "-o", &whole]);
    assert_eq!(times(), before);

    // A file that was cut, and one that is gone.
    std::fs::write(&before[0].0, "{\"system\": \"A\"").unwrap();
    std::fs::remove_file(&before[1].0).unwrap();
    let (_, warned) = passes(&["run", &plan, "-o", &whole]);
    assert!(warned.contains("is damaged") && warned.contains("is computed again"), "{warned}");
    let after = times();
    assert_eq!(after[2..], before[2..]);
    assert_eq!(std::fs::read_to_string(format!("{whole}/results.csv")).unwrap(), results);

    // Another method under the same name is another cell.
    let text = std::fs::read_to_string(&plan).unwrap();
    std::fs::write(&plan, text.replace("lambda = 0.1", "lambda = 0.2")).unwrap();
    passes(&["run", &plan, "-o", &whole]);
    assert_ne!(std::fs::read_to_string(format!("{whole}/results.csv")).unwrap(), results);

    let (table, _) = passes(&["table", &plan, "-o", &whole]);
    for piece in [
        "MSE (median, 95 % interval)",
        "W2 (median",
        "rest (as it is)",
        "A, W2: p-values",
        "B, MSE: p-values",
    ] {
        assert!(table.contains(piece), "{table}");
    }
    let (json, _) = passes(&["table", &plan, "-o", &whole, "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["w2"].as_array().unwrap().len(), 6);
}

#[test]
fn a_killed_run_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    // A method that takes its time, so that the kill comes between two cells.
    let slow = "[[method]]\nname = \"slow\"\nkind = \"program\"\ncommand = [\"sh\", \"-c\", \"sleep 0.3; exit 1\"]\n";
    let plan = plan(folder.path(), slow);
    let (whole, killed) = (at("whole"), at("killed"));
    passes(&["run", &plan, "-o", &whole]);
    let cells = folder.path().join("killed/cells");
    let count = || std::fs::read_dir(&cells).map_or(0, |entries| entries.count());
    for _ in 0..3 {
        let before = count();
        let mut child = Command::new(env!("CARGO_BIN_EXE_skds"))
            .args(["experiment", "run", &plan, "-o", &killed])
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        while count() == before && child.try_wait().unwrap().is_none() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert!(count() < 24, "the kills came too late to show anything");
    assert_eq!(skds(&["plot", &plan, "-o", &killed]).status.code(), Some(2));
    passes(&["run", &plan, "-o", &killed]);
    let results = |folder: &str| std::fs::read_to_string(format!("{folder}/results.csv")).unwrap();
    assert_eq!(results(&killed), results(&whole));
}

#[test]
fn pictures_of_results_and_figure_1() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let published = "[[published]]\nmethod = \"others\"\nw2 = { A = 2.5 }\n";
    let plan = plan(folder.path(), published);
    let out = at("out");
    let output = skds(&["plot", &plan, "-o", &out, "--partial"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("has no finished cell"));
    passes(&["run", &plan, "-o", &out, "--shard", "1/2"]);
    assert_eq!(skds(&["plot", &plan, "-o", &out]).status.code(), Some(2));
    let (_, warned) = passes(&["plot", &plan, "-o", &out, "--partial"]);
    assert!(warned.contains("9 of 18 cells are missing"), "{warned}");
    passes(&["run", &plan, "-o", &out]);
    let (said, _) = passes(&["plot", &plan, "-o", &out]);
    assert!(said.starts_with("36 predictions drawn to"), "{said}");
    let svg = std::fs::read_to_string(format!("{out}/results.svg")).unwrap();
    for piece in ["A, MSE", "B, W2", "rest (as it is)", "others", "median as published"] {
        assert!(svg.contains(&format!("\n{piece}\n")), "{piece}");
    }
    let png = std::fs::read(format!("{out}/results.png")).unwrap();
    assert_eq!(png[..8], *b"\x89PNG\r\n\x1a\n");
    let (table, _) = passes(&["table", &plan, "-o", &out]);
    assert!(table.contains("W2 as published") && table.contains("seconds to fit"), "{table}");
    assert_eq!(skds(&["plot", &plan, "-o", &out, "--picture", "boxes.pdf"]).status.code(), Some(2));

    let (picture, again) = (at("figure1.png"), at("again.png"));
    let (json, _) = passes(&["figure1", "-o", &picture, "--json"]);
    let numbers: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!((numbers["best"][0].as_f64().unwrap() - 1.0).abs() < 0.1, "{json}");
    assert!((numbers["best"][1].as_f64().unwrap() - 2.0).abs() < 0.1, "{json}");
    passes(&["figure1", "-o", &again]);
    assert_eq!(std::fs::read(&picture).unwrap(), std::fs::read(&again).unwrap());
    let output = skds(&["figure1", "-o", &at("figure1.jpg")]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("ends in .svg or .png"));
}

#[test]
fn a_program_is_a_method_and_a_failing_one_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    // This very test's data, handed on: the training file has 4 environments of 60 rows, the output needs 2.
    let script = at("method.sh");
    std::fs::write(&script, "cp \"$ANSWER\" \"$3\"\n").unwrap();
    let answer = Dataset::from_environments(vec![Matrix::from_fn(60, 5, |i, j| (i + j) as f64 * 0.01); 2])
        .unwrap()
        .with_targets(Matrix::from_fn(2, 5, |e, j| e == j))
        .unwrap();
    answer.write(Path::new(&at("answer.npz"))).unwrap();
    let methods = format!(
        "[[method]]\nname = \"copy\"\nkind = \"program\"\ncommand = [\"env\", \"ANSWER={}\", \"sh\", \"{script}\"]\n\n\
         [[method]]\nname = \"fails\"\nkind = \"program\"\ncommand = [\"sh\", \"-c\", \"echo gone wrong >&2; exit 3\"]\n",
        at("answer.npz")
    );
    let plan = plan(folder.path(), &methods);
    let out = at("out");
    passes(&["run", &plan, "-o", &out]);
    let results = std::fs::read_to_string(format!("{out}/results.csv")).unwrap();
    let of = |name: &str| results.lines().filter(|line| line.contains(&format!(",{name},"))).count();
    assert_eq!((of("copy"), of("fails")), (12, 12));
    let failed: Vec<&str> = results.lines().filter(|line| line.contains("gone wrong")).collect();
    assert_eq!(failed.len(), 12, "{results}");
    let (table, _) = passes(&["table", &plan, "-o", &out]);
    assert!(table.contains("6!"), "{table}");
}

/// Whether a process is there and not merely waiting to be forgotten.
#[cfg(target_os = "linux")]
fn runs(id: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
}

#[test]
#[cfg(target_os = "linux")]
fn a_program_that_takes_too_long_is_ended_with_what_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    // Its own child holds standard error open, and would sleep for an hour.
    let slow = format!("sleep 3600 & echo $! > {0}.$$; mv {0}.$$ {0}; echo hold on >&2; wait", at("child"));
    let left = format!("sleep 3600 & echo $! > {0}; exit 4", at("left"));
    let plan = at("plan.toml");
    let text = format!(
        "datasets = 1\n[[system]]\nname = \"A\"\nsettings = {}\n\
         [[method]]\nname = \"slow\"\nkind = \"program\"\ncommand = [\"sh\", \"-c\", \"{slow}\"]\nseconds = 5\n\
         [[method]]\nname = \"leaves\"\nkind = \"program\"\ncommand = [\"sh\", \"-c\", \"{left}\"]\n",
        SMALL.replace("SYSTEM", "sde")
    );
    std::fs::write(&plan, &text).unwrap();
    let out = at("out");
    passes(&["run", &plan, "-o", &out]);
    let mut results = csv::Reader::from_path(format!("{out}/results.csv")).unwrap();
    let header = results.headers().unwrap().clone();
    let column = |name: &str| header.iter().position(|found| found == name).unwrap();
    let (method, unstable, failed) = (column("method"), column("unstable"), column("failed"));
    let rows: Vec<csv::StringRecord> = results.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 4);
    for row in &rows {
        let piece = if &row[method] == "slow" { "was ended after 5 s" } else { "ended with exit status: 4" };
        assert!(row[failed].contains(piece), "{row:?}");
        assert_eq!(row[method] == *"slow", row[failed].contains("hold on"), "{row:?}");
        assert_eq!(&row[unstable], "");
    }
    for name in ["child", "left"] {
        let id = std::fs::read_to_string(at(name)).unwrap();
        // A signal has been sent; the process may need a moment to be gone, but not an hour.
        let patience = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while runs(id.trim()) && std::time::Instant::now() < patience {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert!(!runs(id.trim()), "process {id} still runs");
    }
    for (wrong, piece) in
        [("seconds = 0", "the seconds of a program are 0"), ("seconds = 1e99", "at most 1e9")]
    {
        std::fs::write(&plan, text.replace("seconds = 5", wrong)).unwrap();
        let output = skds(&["run", &plan, "-o", &out]);
        assert!(String::from_utf8_lossy(&output.stderr).contains(piece), "{output:?}");
    }
}

#[test]
fn floors_move_nothing_but_the_targets() {
    let samples = Matrix::from_fn(4000, 2, |i, j| ((i * (j + 3)) as f64).sin());
    let data = Dataset::from_environments(vec![samples]).unwrap();
    let tasks = [PredictionTask { wanted: TargetMeans { targets: vec![1], means: vec![2.5] }, rows: 4000 }];
    for settings in [MethodSettings::Observational, MethodSettings::Diagonal] {
        let predicted =
            settings.method("floor").fit(&data, 0).unwrap().predict(&tasks, 0).unwrap().remove(0).unwrap();
        let predicted = Dataset::from_environments(vec![predicted]).unwrap();
        let (mean, rest) = (predicted.means(0), data.means(0));
        assert!((mean[0] - rest[0]).abs() < 0.06 && (mean[1] - 2.5).abs() < 0.06, "{mean:?}");
    }
}

#[test]
fn wrong_plans_get_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out").to_str().unwrap().to_owned();
    let good = std::fs::read_to_string(plan(folder.path(), "")).unwrap();
    for (from, to, piece) in [
        ("datasets = 3", "datasets = 0", "has no datasets, systems or methods"),
        ("kind = \"diagonal\"", "kind = \"magic\"", "unknown variant `magic`"),
        ("lambda = 0.1", "lamda = 0.1", "unknown field `lamda`"),
        ("lambda = 0.1", "lambda = -1.0", "lambda is -1"),
        ("name = \"B\"", "name = \"A\"", "has the system 'A' twice"),
        ("name = \"diagonal\"", "name = \"exact\"", "has the method 'exact' twice for the system 'A'"),
        (
            "kind = \"diagonal\"",
            "kind = \"diagonal\"\nsystems = [\"C\"]",
            "for the system 'C', which it does not have",
        ),
        (
            "[[method]]",
            "[[published]]\nmethod = \"x\"\nw2 = { Z = 1 }\n\n[[method]]",
            "'x' for the system 'Z', which it does not have",
        ),
        ("train_envs = 3", "train_envs = 9", "9 training and 2 test environments for 5 variables"),
    ] {
        let path = folder.path().join("wrong.toml");
        std::fs::write(&path, good.replacen(from, to, 1)).unwrap();
        let output = skds(&["run", path.to_str().unwrap(), "-o", &out]);
        let sentence = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(sentence.contains(piece), "{from} → {to}: {sentence}");
        assert_eq!(output.status.code(), Some(2), "{sentence}");
        assert!(!Path::new(&out).exists());
    }
    let output = skds(&["run", "no-such-plan.toml", "-o", &out]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot read no-such-plan.toml"));
    assert_eq!(skds(&["run", "x.toml", "-o", &out, "--shard", "3/2"]).status.code(), Some(2));
}
