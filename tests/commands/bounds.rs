//! Numbers that nobody can mean are refused in a sentence, before anything is allocated.

use std::process::{Command, Output};

fn skds(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_skds")).args(args).output().unwrap()
}

#[test]
fn numbers_that_would_take_all_memory_are_refused_in_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let system = ["simulate", "sde", "--dim", "4", "--rows", "40", "--train-envs", "1", "--test-envs", "1"];
    let made = skds(&[&system[..], &["--edges", "1", "-o", &at("system")]].concat());
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let (train, model, out) = (at("system/train.npz"), at("model.safetensors"), at("out"));
    let samples = at("samples.npz");
    let exact = ["fit", &train, "-o", &model, "--bandwidth", "2", "--lambda", "0.1", "--device", "cpu"];
    assert!(skds(&exact).status.success());
    let terms = format!("model = \"basis\"\ndiffusion = \"{}1\"\n", "1,".repeat(399_999));
    std::fs::write(at("terms.toml"), terms).unwrap();
    let plan = "datasets = 18446744073709551615\nfirst_seed = 5\n[[system]]\nname = \"a\"\nsettings = {}\n[[method]]\nname = \"b\"\nkind = \"observational\"\n";
    std::fs::write(at("plan.toml"), plan).unwrap();
    let (terms, plan) = (at("terms.toml"), at("plan.toml"));
    let fit = ["fit", &train, "--device", "cpu", "-o", &model];
    let simulate = |system, option, value| vec!["simulate", system, option, value, "-o", &out];
    let sample = ["sample", &model, "--method", "euler", "--device", "cpu", "-o", &samples];
    let huge = "18446744073709551615";
    for (args, piece) in [
        (
            [&exact[..], &["--bootstrap", "100000000000"]].concat(),
            "bootstrap is 100000000000, expected at most",
        ),
        (
            [&fit[..], &["--solver", "adam", "--batch", "1000000000000"]].concat(),
            "batch is 1000000000000, expected at most",
        ),
        ([&fit[..], &["--model", "mlp", "--hidden", "100000000000"]].concat(), "hidden is 100000000000"),
        ([&fit[..], &["--config", &terms]].concat(), "diffusion has 799999 letters, expected at most"),
        (simulate("sergio", "--steps-per-cell", "30000000"), "GiB of memory, expected at most 16"),
        (simulate("sergio", "--steps-per-cell", huge), "steps_per_cell is"),
        (simulate("sergio", "--dt", "5e-324"), "dt is 5e-324, expected 1e-9 to 1e3"),
        (simulate("sergio", "--decay", "5e-324"), "need inf GiB"),
        (simulate("sde", "--euler-dt", "5e-324"), "euler_dt is 5e-324, expected"),
        (simulate("sde", "--euler-burn-in", huge), "euler_burn_in is"),
        (simulate("sde", "--euler-thin", huge), "euler_thin is"),
        (simulate("sde", "--dim", "10000000"), "found 10000000 variables, expected at most"),
        (simulate("sde", "--rows", "1000000000000000"), "found 1000000000000000 rows, expected at most"),
        (simulate("sde", "--rows", "90000000"), "GiB of memory, expected at most 16"),
        (simulate("sde", "--edges", huge), "edges"),
        (simulate("sde", "--blocks", huge), "blocks, expected at most"),
        ([&sample[..], &["-n", "1000000000000000"]].concat(), "need"),
        ([&sample[..], &["--dt", "5e-324"]].concat(), "dt is 5e-324, expected"),
        ([&sample[..], &["--burn-in", huge]].concat(), "burn_in is"),
        ([&sample[..], &["--thin", huge]].concat(), "thin is"),
        ([&sample[..], &["--chains", huge]].concat(), "chains is"),
        (vec!["experiment", "run", &plan, "-o", &out], "has 18446744073709551615 datasets"),
    ] {
        let output = skds(&args);
        let sentence = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {sentence}");
        assert!(sentence.contains(piece), "{args:?}: {sentence}");
        assert_eq!(sentence.trim_end().lines().count(), 1, "{args:?}: {sentence}");
    }
}
