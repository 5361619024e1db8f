//! The kinds of input: what each is mutated from and by, and which door it goes through.

use crate::doors::{self, Entered, Office};
use crate::{bytes, json, npz, seeds, tensors, text, uses};
use rand::{Rng, RngExt};
use skds::data::Dataset;
use skds::fit::PreparedFit;
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Npz,
    Csv,
    Parameters,
    Model,
    Checkpoint,
    Expressions,
    Settings,
    Plan,
    Manifest,
    Request,
}

impl Kind {
    pub const ALL: [Kind; 10] = [
        Kind::Npz,
        Kind::Csv,
        Kind::Parameters,
        Kind::Model,
        Kind::Checkpoint,
        Kind::Expressions,
        Kind::Settings,
        Kind::Plan,
        Kind::Manifest,
        Kind::Request,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Npz => "npz",
            Kind::Csv => "csv",
            Kind::Parameters => "parameters",
            Kind::Model => "model",
            Kind::Checkpoint => "checkpoint",
            Kind::Expressions => "expressions",
            Kind::Settings => "settings",
            Kind::Plan => "plan",
            Kind::Manifest => "manifest",
            Kind::Request => "request",
        }
    }

    fn ending(self) -> &'static str {
        match self {
            Kind::Npz => "npz",
            Kind::Csv => "csv",
            Kind::Parameters | Kind::Model | Kind::Checkpoint => "safetensors",
            Kind::Expressions => "txt",
            Kind::Settings | Kind::Plan => "toml",
            Kind::Manifest | Kind::Request => "json",
        }
    }

    /// Words that mean something in such texts.
    fn words(self) -> &'static [&'static str] {
        match self {
            Kind::Csv => &[
                "env", "Env", " env ", "\"env\"", "\"", ",", ";", "\n", "\r", "a", "", "nan", "True", "\u{c}",
            ],
            Kind::Expressions => &[
                "x", "{gene a}", "γ", "self", "exp(", "log(", "sqrt(", "tanh(", "(", ")", "^", "-", "/", "*",
                "{", "}", ",", "1e308", "\n", "#",
            ],
            Kind::Settings | Kind::Plan => &[
                "solver",
                "tune",
                "model",
                "hidden",
                "features",
                "diffusion",
                "law",
                "structural",
                "quadratic",
                "objective",
                "kernel",
                "bandwidth",
                "lambda",
                "steps",
                "batch",
                "seed",
                "=",
                "\"",
                "[",
                "]",
                "{",
                "}",
                "[[method]]",
                "[[system]]",
                "\n",
                "true",
                "\"auto\"",
                "\"mlp\"",
                "\"basis\"",
                "\"adam\"",
                "\"exact\"",
                "polynomial:9",
                "rbf:100",
                "seconds",
                "dim",
                "rows",
                "datasets",
                "first_seed",
                ".",
                "'''",
            ],
            _ => &[
                "kind",
                "dataset",
                "model",
                "settings",
                "bootstrap",
                "device",
                "n",
                "env",
                "shift",
                "scale",
                "method",
                "dt",
                "burn_in",
                "thin",
                "chains",
                "bandwidth",
                "kernel",
                "steps",
                "batch",
                "hidden",
                "features",
                "diffusion",
                "dim",
                "rows",
                "edges",
                "sergio",
                "steps_per_cell",
                "fit",
                "loss",
                "sample",
                "evaluate",
                "simulate",
                "adam",
                "basis",
                "polynomial:9",
                "rbf:1000000000",
                "1, self, ",
                "auto",
                "euler",
            ],
        }
    }

    fn mutate(self, rng: &mut impl Rng, input: &mut Vec<u8>, other: &[u8]) {
        match self {
            Kind::Npz => npz::mutate(rng, input, other),
            Kind::Parameters | Kind::Model | Kind::Checkpoint => tensors::mutate(rng, input, other),
            Kind::Manifest | Kind::Request if rng.random_bool(0.7) => match serde_json::from_slice(input) {
                Ok(mut value) => {
                    json::mutate(rng, &mut value, self.words());
                    *input = json::text(rng, &value).into_bytes();
                    input.truncate(bytes::MOST);
                }
                Err(_) => text::mutate(rng, input, other, self.words()),
            },
            _ => text::mutate(rng, input, other, self.words()),
        }
    }
}

/// Everything that inputs are made from and tried on.
pub struct House {
    folder: PathBuf,
    seeds: Vec<Vec<Vec<u8>>>,
    office: Office,
    problem: PreparedFit,
    data: Dataset,
}

impl House {
    pub fn new(folder: &Path) -> House {
        let office = seeds::office(folder);
        let seeds = Kind::ALL.map(|kind| match kind {
            Kind::Npz => seeds::npz(folder),
            Kind::Csv => seeds::csv(folder),
            Kind::Parameters => seeds::parameters(),
            Kind::Model => seeds::models(folder),
            Kind::Checkpoint => seeds::checkpoints(folder),
            Kind::Expressions => seeds::expressions(),
            Kind::Settings => seeds::settings(),
            Kind::Plan => seeds::plans(),
            Kind::Manifest => seeds::manifests(folder),
            Kind::Request => seeds::requests(&office),
        });
        let (problem, data) = (doors::problem(folder), doors::data());
        House { folder: folder.into(), seeds: seeds.into(), office, problem, data }
    }

    /// The inputs as they are before anything is changed.
    pub fn seeds(&self, kind: Kind) -> &[Vec<u8>] {
        &self.seeds[kind as usize]
    }

    /// A mutated input: one to six changes, mostly few.
    pub fn input(&self, kind: Kind, rng: &mut impl Rng) -> Vec<u8> {
        let seeds = self.seeds(kind);
        let mut input = seeds[bytes::below(rng, seeds.len())].clone();
        let other = &seeds[bytes::below(rng, seeds.len())];
        for _ in 0..[1, 1, 1, 2, 3, 6][bytes::below(rng, 6)] {
            kind.mutate(rng, &mut input, other);
        }
        input
    }

    /// Where an input lies while it is tried.
    pub fn place(&self, kind: Kind) -> PathBuf {
        self.folder.join(format!("{}.{}", kind.name(), kind.ending()))
    }

    /// Tries an input: it is refused with a sentence, or accepted and used.
    pub fn enter(&self, kind: Kind, input: &[u8]) -> Entered<()> {
        let path = self.place(kind);
        let folder = &self.folder;
        // The second part of an input has a file of its own.
        let (first, second) = match kind {
            Kind::Csv | Kind::Expressions => match input.iter().position(|byte| *byte == seeds::BREAK) {
                Some(at) => (&input[..at], Some(&input[at + 1..])),
                None => (input, None),
            },
            _ => (input, None),
        };
        std::fs::write(&path, first).unwrap();
        match kind {
            Kind::Npz => self.enter_data(&path, None)?,
            Kind::Csv => {
                let targets = second.map(|targets| {
                    let path = folder.join("targets.csv");
                    std::fs::write(&path, targets).unwrap();
                    path
                });
                self.enter_data(&path, targets.as_deref())?;
            }
            Kind::Parameters => uses::parameters(&doors::parameters(&path)?, folder),
            Kind::Model => uses::model(&doors::model(&path)?, folder),
            Kind::Checkpoint => {
                let checkpoint = doors::checkpoint(&path)?;
                let again = folder.join("again.checkpoint.safetensors");
                checkpoint.write(&again).map_err(|error| error.to_string())?;
                assert_eq!(doors::checkpoint(&again).unwrap(), checkpoint);
                doors::resume(&path, &self.problem)?;
            }
            Kind::Expressions => {
                let diffusion = String::from_utf8_lossy(second.unwrap_or(b"1")).into_owned();
                uses::basis(&doors::basis(&path, &diffusion, &self.data)?, &self.data);
            }
            Kind::Settings => drop(doors::settings(&path, &self.data)?),
            Kind::Plan => uses::plan(&doors::plan(&path)?),
            Kind::Manifest => doors::manifest(&path)?,
            Kind::Request => uses::estimate(self.office.estimate(input)?),
        }
        Ok(())
    }

    /// A look at a file must not take it for smaller than it is.
    fn enter_data(&self, path: &Path, targets: Option<&Path>) -> Entered<()> {
        let look = self.office.estimate_upload(path);
        let data = doors::dataset(path, targets)?;
        uses::dataset(&data, &self.folder);
        let (looked, held) = (look?, 8 * data.samples().as_slice().len());
        assert!(looked >= held as f64, "{looked} bytes by a look, {held} in truth");
        Ok(())
    }
}
