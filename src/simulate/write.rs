//! Writes a simulated system to a folder: `train.npz`, `test.npz`, `truth.npz`, and `manifest.json`, from which it can be
//! simulated again.

use super::{Parameters, Settings, Simulated, Truth};
use crate::data::{Array, write_arrays};
use crate::files::input;
use crate::files::output::{create_folder, write_atomically};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::Path;

/// The manifest of a folder.
#[derive(Serialize, Deserialize)]
struct Manifest {
    /// The version of the program.
    skds: String,
    settings: Settings,
}

impl Settings {
    /// The settings in the manifest of a simulated system.
    pub fn of_manifest(path: &Path) -> Result<Settings> {
        let text = input::text(path)?;
        let manifest: Manifest = serde_json::from_str(&text)
            .map_err(|error| Error::file(path, format!("is not the manifest of a simulation: {error}")))?;
        Ok(manifest.settings)
    }
}

impl Simulated {
    /// Writes the folder, and creates it if necessary. The manifest comes last.
    pub fn write(&self, folder: &Path, settings: &Settings) -> Result<()> {
        create_folder(folder)?;
        self.train.write(folder.join("train.npz"))?;
        self.test.write(folder.join("test.npz"))?;
        self.truth.write(&folder.join("truth.npz"))?;
        let manifest = Manifest { skds: env!("CARGO_PKG_VERSION").into(), settings: settings.clone() };
        write_atomically(&folder.join("manifest.json"), |writer| {
            serde_json::to_writer_pretty(&mut *writer, &manifest)?;
            writer.write_all(b"\n")
        })
    }
}

impl Truth {
    fn write(&self, path: &Path) -> Result<()> {
        let d = self.graph.rows();
        let graph = self.graph.map(|edge| f64::from(u8::from(edge)));
        let mut arrays = vec![
            Array { name: "graph", shape: vec![d, d], values: graph.as_slice() },
            Array { name: "mean", shape: vec![d], values: &self.units.mean },
            Array { name: "std", shape: vec![d], values: &self.units.scale },
        ];
        let table = |name, matrix| {
            let matrix: &crate::Matrix<f64> = matrix;
            Array { name, shape: vec![matrix.rows(), matrix.cols()], values: matrix.as_slice() }
        };
        arrays.push(table("train_interventions", &self.train_interventions));
        arrays.push(table("test_interventions", &self.test_interventions));
        match &self.parameters {
            Parameters::Linear(truth) => {
                arrays.push(table("weights", &truth.weights));
                arrays.push(Array { name: "biases", shape: vec![d], values: &truth.biases });
                arrays.push(Array { name: "noise", shape: vec![d], values: &truth.noise });
            }
            Parameters::Sergio(truth) => {
                arrays.push(table("strengths", &truth.strengths));
                arrays.push(table("basal", &truth.basal));
                arrays.push(Array { name: "half_responses", shape: vec![d], values: &truth.half });
            }
        }
        write_arrays(path, &arrays)
    }
}
