//! The data that commands read: tables of samples, and cells with the options that say what they are.

use super::print_json;
use crate::data::Dataset;
use crate::data::cells::{CellRole, CellSettings, Cells, GeneChoice, Normalization};
use crate::model::Model;
use crate::stderr::say;
use crate::{Error, Result};
use std::path::Path;

/// Options about the cells of .h5ad files.
#[derive(clap::Args, Default)]
#[command(next_help_heading = "Cells in .h5ad files")]
pub(super) struct CellArgs {
    /// The column of obs with the perturbation of every cell: a gene, several genes, or a control
    ///
    /// Commands that take a model use the column of its training data unless you give another. The same holds for the
    /// options below.
    #[arg(long, value_name = "obs:COLUMN")]
    perturbation: Option<String>,
    /// The label of control cells [default: control, ctrl, NT, non-targeting and the like]
    #[arg(long, value_name = "LABEL")]
    control: Option<String>,
    /// What separates the genes of a combination in a label [default: +]
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    separator: Option<String>,
    /// Read this layer in place of X
    #[arg(long, value_name = "NAME")]
    layer: Option<String>,
    /// What to do with counts: auto, log1p or none [default: auto]
    ///
    /// 'log1p' scales every cell to the median total count and takes log(1 + x). It refuses numbers that are no counts, so
    /// nothing is normalised twice. 'auto' does the same if the matrix holds counts. 'none' leaves all numbers as they are.
    #[arg(long, value_name = "HOW")]
    normalize: Option<Normalization>,
    /// Leave out perturbations with fewer cells [default: 20]
    #[arg(long, value_name = "N")]
    min_cells: Option<usize>,
}

impl CellArgs {
    /// The options as settings, with the genes of a fit.
    pub(super) fn settings(&self, genes: Option<&GeneChoice>) -> CellSettings {
        CellSettings {
            perturbation: self.perturbation.clone(),
            control: self.control.clone(),
            separator: self.separator.clone(),
            layer: self.layer.clone(),
            genes: genes.cloned(),
            normalization: self.normalize,
            least_cells: self.min_cells,
        }
    }

    /// What separates the variables of a combination.
    pub(super) fn separator_for<'a>(&'a self, model: &'a Model) -> &'a str {
        let of_model = || model.cells.as_ref().and_then(|cells| cells.separator.as_deref());
        self.separator.as_deref().or_else(of_model).unwrap_or("+")
    }

    /// The first option that is given.
    fn given(&self) -> Option<&'static str> {
        [
            ("--perturbation", self.perturbation.is_some()),
            ("--control", self.control.is_some()),
            ("--separator", self.separator.is_some()),
            ("--layer", self.layer.is_some()),
            ("--normalize", self.normalize.is_some()),
            ("--min-cells", self.min_cells.is_some()),
        ]
        .into_iter()
        .find_map(|(option, given)| given.then_some(option))
    }

    /// Refuses options about cells where none of these files has any.
    pub(super) fn check(&self, files: &[Option<&Path>]) -> Result<()> {
        match self.given() {
            Some(option) if !files.iter().flatten().any(|path| is_cells(path)) => {
                Err(without_cells(option, files))
            }
            _ => Ok(()),
        }
    }

    /// Reads the data of a fit, and says what was read and left out.
    pub(super) fn read_for_fit(
        &self,
        path: &Path,
        targets: Option<&Path>,
        genes: Option<&GeneChoice>,
        json: bool,
    ) -> Result<Dataset> {
        self.check(&[Some(path)])?;
        if !is_cells(path) {
            return match genes {
                Some(_) => Err(without_cells("--genes", &[Some(path)])),
                None => Dataset::read_files(path, targets),
            };
        }
        let cells = read_cells(path, targets, &self.settings(genes), &CellRole::Fit)?;
        match json {
            true => print_json(&serde_json::json!({ "data": path, "notes": cells.notes }))?,
            false => cells.notes.iter().for_each(|note| say!("{note}")),
        }
        Ok(cells.data)
    }

    /// Reads data that predictions of a model start from.
    pub(super) fn read_start(&self, path: &Path, targets: Option<&Path>, model: &Model) -> Result<Dataset> {
        self.read_as(path, targets, &CellRole::Start(&model.names, model.cells.as_ref()))
    }

    /// Reads data that predictions of a model are compared with.
    pub(super) fn read_test(&self, path: &Path, targets: Option<&Path>, model: &Model) -> Result<Dataset> {
        self.read_as(path, targets, &CellRole::Test(&model.names, model.cells.as_ref()))
    }

    fn read_as(&self, path: &Path, targets: Option<&Path>, role: &CellRole<'_>) -> Result<Dataset> {
        if !is_cells(path) {
            return Dataset::read_files(path, targets);
        }
        let cells = read_cells(path, targets, &self.settings(None), role)?;
        cells.notes.iter().for_each(|note| say!("{}: {note}", path.display()));
        Ok(cells.data)
    }
}

fn is_cells(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("h5ad"))
}

fn without_cells(option: &str, files: &[Option<&Path>]) -> Error {
    let names: Vec<String> = files.iter().flatten().map(|path| path.display().to_string()).collect();
    let found =
        if names.is_empty() { "without data".into() } else { format!("with {}", names.join(" and ")) };
    Error::invalid(format!("{option} is given {found}, expected an .h5ad file for it"))
}

fn read_cells(
    path: &Path,
    targets: Option<&Path>,
    settings: &CellSettings,
    role: &CellRole<'_>,
) -> Result<Cells> {
    if let Some(targets) = targets {
        return Err(Error::file(
            targets,
            format!(
                "is given with {}, expected none: the labels of cells say what was perturbed",
                path.display()
            ),
        ));
    }
    Dataset::read_cells_for(path, settings, role)
}
