//! Your own data from csv: read it, fit a model, see the strongest effects, keep the model.
//!
//! ```text
//! cargo run --release --example own_data [DATA.csv TARGETS.csv MODEL.safetensors]
//! ```
//!
//! DATA.csv has a header, one column per variable and a column `env` that numbers the environments from 0, where 0 is
//! the system at rest. TARGETS.csv has the same variables as columns and one row per environment: 1 where the
//! environment intervenes on the variable. Without arguments a small example is written and used.

use skds::prelude::*;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<()> {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [data, targets, output] = match <[PathBuf; 3]>::try_from(arguments) {
        Ok(paths) => paths,
        Err(found) if found.is_empty() => example_files()?,
        Err(found) => {
            return Err(Error::invalid(format!(
                "found {} arguments, expected none, or DATA.csv TARGETS.csv MODEL.safetensors",
                found.len()
            )));
        }
    };
    // A missing file, a ragged row, a NaN or an unknown column each come back as one sentence.
    let data = Dataset::read_with_targets(&data, &targets)?;
    println!(
        "{} rows, {} variables, {} environments",
        data.samples().rows(),
        data.dim(),
        data.environments()
    );

    // Standardising by environment 0 makes bandwidth and penalty mean the same for all data; the model remembers the
    // units, and samples come out in those of the file.
    let model = Fit::new().lambda(0.01).fit(&data)?;
    println!("stable: {}\n", model.stability.stable);

    let graph = model.effects()?.select(None, Some(5));
    for effect in graph.effects() {
        let [source, target] = [effect.source, effect.target].map(|j| &graph.names()[j]);
        println!("{source:>12} → {target:<12} {:+.3}", effect.strength);
    }
    model.save(&output)?;
    // What was written is what comes back; `skds sample`, `skds evaluate` and `skds graph` read it too.
    assert_eq!(Model::read(&output)?.parameters, model.parameters);
    println!("\nThe model is in {}.", output.display());
    Ok(())
}

/// A chain a → b → c that is observed, and pushed at a.
fn example_files() -> Result<[PathBuf; 3]> {
    let mut rows = String::from("env,a,b,c\n");
    // A fixed sequence that is as good as noise here.
    let mut state = 1u64;
    let mut noise = || {
        let mut sum = 0.0;
        for _ in 0..12 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            sum += (state >> 40) as f64 / f64::from(1 << 24);
        }
        sum - 6.0
    };
    for (environment, push) in [(0, 0.0), (1, 2.0)] {
        for _ in 0..500 {
            let a = push + noise();
            let b = 0.8 * a + 0.5 * noise();
            let c = -0.6 * b + 0.5 * noise();
            writeln!(rows, "{environment},{a:.4},{b:.4},{c:.4}").expect("a string takes all");
        }
    }
    let folder = std::env::temp_dir();
    let paths = ["skds-example.csv", "skds-example-targets.csv", "skds-example.safetensors"]
        .map(|name| folder.join(name));
    let write = |path: &Path, text: &str| {
        std::fs::write(path, text)
            .map_err(|e| Error::invalid(format!("cannot write {}: {e}", path.display())))
    };
    write(&paths[0], &rows)?;
    write(&paths[1], "a,b,c\n0,0,0\n1,0,0\n")?;
    println!("{}:\n{}…", paths[0].display(), &rows[..60]);
    Ok(paths)
}
