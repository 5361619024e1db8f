//! A method that is a program of its own.
//!
//! It is called as `COMMAND… TRAIN.npz TOLD.npz OUT.npz`. TRAIN is a dataset as all commands read it. TOLD has `targets` and
//! `means` (E × d; means are 0 where nothing is told) and `rows` (E). OUT must be a dataset with E environments of so many rows.

use super::method::{Fitted, Method, Told};
use crate::data::{Array, Dataset, write_arrays};
use crate::{Error, Matrix, Result};
use std::path::Path;
use std::process::Command;

/// A program and its arguments.
pub(super) struct Program {
    pub name: String,
    pub command: Vec<String>,
}

struct Called {
    command: Vec<String>,
    train: Dataset,
    seed: u64,
}

impl Method for Program {
    fn name(&self) -> &str {
        &self.name
    }

    fn fit(&self, train: &Dataset, seed: u64) -> Result<Box<dyn Fitted>> {
        Ok(Box::new(Called { command: self.command.clone(), train: train.clone(), seed }))
    }
}

impl Fitted for Called {
    fn predict(&self, told: &[Told], _: u64) -> Result<Vec<Result<Matrix<f64>>>> {
        let folder = tempfile::tempdir().map_err(|source| Error::Io {
            action: "create",
            path: "a temporary folder".into(),
            source,
        })?;
        let at = |name: &str| folder.path().join(name);
        self.train.write(&at("train.npz"))?;
        write_told(&at("told.npz"), told, self.train.dim())?;
        let name = self.command.join(" ");
        let output = Command::new(&self.command[0])
            .args(&self.command[1..])
            .args([at("train.npz"), at("told.npz"), at("out.npz")])
            .env("SKDS_SEED", self.seed.to_string())
            .output()
            .map_err(|source| Error::invalid(format!("cannot run '{name}': {source}")))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("nothing");
            return Err(Error::NonFinite(format!("'{name}' ended with {}: {last}", output.status)));
        }
        let found = Dataset::read(&at("out.npz"), None)
            .map_err(|error| Error::NonFinite(format!("'{name}' left no samples: {error}")))?;
        let rows: Vec<usize> = (0..found.environments()).map(|e| found.rows(e).len()).collect();
        let expected: Vec<usize> = told.iter().map(|told| told.rows).collect();
        if found.dim() != self.train.dim() || rows != expected {
            return Err(Error::NonFinite(format!(
                "'{name}' left {} variables and environments of {rows:?} rows, expected {} and {expected:?}",
                found.dim(),
                self.train.dim()
            )));
        }
        Ok((0..told.len()).map(|e| Ok(found.environment(e))).collect())
    }
}

fn write_told(path: &Path, told: &[Told], d: usize) -> Result<()> {
    let mut targets = Matrix::full(told.len(), d, 0.0);
    let mut means = Matrix::full(told.len(), d, 0.0);
    for (e, Told { wanted, .. }) in told.iter().enumerate() {
        for (&j, mean) in wanted.targets.iter().zip(&wanted.means) {
            targets[(e, j)] = 1.0;
            means[(e, j)] = *mean;
        }
    }
    let rows: Vec<f64> = told.iter().map(|told| told.rows as f64).collect();
    let table = |name, matrix| {
        let matrix: &Matrix<f64> = matrix;
        Array { name, shape: vec![told.len(), d], values: matrix.as_slice() }
    };
    let rows = Array { name: "rows", shape: vec![told.len()], values: &rows };
    write_arrays(path, &[table("targets", &targets), table("means", &means), rows])
}
