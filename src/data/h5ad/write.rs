//! Writes a dataset as an `.h5ad` file that anndata reads: samples in `X`, environments and targets in `obs`.

use crate::data::Dataset;
use crate::{Error, Result};
use hdf5_pure::{AttrValue, FileBuilder, GroupBuilder};
use std::path::Path;

/// The version of the encodings that are written.
const VERSION: &str = "0.1.0";
const FRAME_VERSION: &str = "0.2.0";

/// Says how a group or an array is encoded.
macro_rules! encode {
    ($place:expr, $kind:expr, $version:expr) => {
        $place.set_attr("encoding-type", AttrValue::VarLenString($kind.into()));
        $place.set_attr("encoding-version", AttrValue::VarLenString($version.into()));
    };
}

/// The bytes of the file. Every row has the label of its environment: its targets joined by `+`, or `control`.
pub(in crate::data) fn write(path: &Path, data: &Dataset) -> Result<Vec<u8>> {
    let (n, d) = (data.samples().rows(), data.dim());
    let mut file = FileBuilder::new();
    encode!(file, "anndata", VERSION);

    let x = file.create_dataset("X");
    x.with_f64_data(data.samples().as_slice()).with_shape(&[n as u64, d as u64]);
    encode!(x, "array", FRAME_VERSION);

    let mut obs = frame(
        &mut file,
        "obs",
        &(0..n).map(|i| i.to_string()).collect::<Vec<_>>(),
        &["perturbation", "environment"],
    );
    let labels: Vec<String> = (0..data.environments()).map(|e| label(data, e)).collect();
    let mut categories = labels.clone();
    categories.sort();
    categories.dedup();
    let code =
        |e: usize| categories.binary_search(&labels[e]).map_or(-1, |code| i32::try_from(code).unwrap_or(-1));
    let environment_of = || (0..data.environments()).flat_map(|e| std::iter::repeat_n(e, data.rows(e).len()));
    let mut perturbation = obs.create_group("perturbation");
    encode!(perturbation, "categorical", FRAME_VERSION);
    perturbation.set_attr("ordered", AttrValue::I64(0));
    perturbation.create_dataset("codes").with_i32_data(&environment_of().map(code).collect::<Vec<_>>());
    strings(&mut perturbation, "categories", &categories);
    obs.add_group(perturbation.finish());
    let environments: Vec<i64> = environment_of().map(|e| i64::try_from(e).unwrap_or(i64::MAX)).collect();
    let column = obs.create_dataset("environment");
    column.with_i64_data(&environments);
    encode!(column, "array", FRAME_VERSION);
    file.add_group(obs.finish());

    let var = frame(&mut file, "var", data.names(), &[]);
    file.add_group(var.finish());
    for empty in ["layers", "obsm", "obsp", "uns", "varm", "varp"] {
        let mut group = file.create_group(empty);
        encode!(group, "dict", VERSION);
        file.add_group(group.finish());
    }
    file.finish().map_err(|error| Error::file(path, format!("cannot be written as .h5ad: {error}")))
}

/// A data frame with its index.
fn frame(file: &mut FileBuilder, name: &str, index: &[String], columns: &[&str]) -> GroupBuilder {
    let mut frame = file.create_group(name);
    encode!(frame, "dataframe", FRAME_VERSION);
    frame.set_attr("_index", AttrValue::VarLenString("_index".into()));
    let order = columns.iter().map(|column| (*column).to_owned()).collect();
    frame.set_attr("column-order", AttrValue::VarLenStringArray(order));
    strings(&mut frame, "_index", index);
    frame
}

fn strings(group: &mut GroupBuilder, name: &str, values: &[String]) {
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    let array = group.create_dataset(name);
    array.with_vlen_strings(&values);
    encode!(array, "string-array", FRAME_VERSION);
}

/// The targets of an environment, joined by `+`.
fn label(data: &Dataset, e: usize) -> String {
    let targets: Vec<&str> =
        (0..data.dim()).filter(|&j| data.targets()[(e, j)]).map(|j| data.names()[j].as_str()).collect();
    if targets.is_empty() { "control".into() } else { targets.join("+") }
}
