//! The numbers of `X` or of a layer: dense, or sparse by rows (csr) or by columns (csc), read in blocks.

use super::listed;
use super::store::{Store, text};
use crate::Result;
use hdf5_pure::{AttrValue, DType};

/// Numbers of a block.
const BLOCK: u64 = 1 << 20;

pub(in crate::data) struct FileMatrix<'a> {
    store: &'a Store,
    place: String,
    cells: usize,
    genes: usize,
    form: Form,
}

enum Form {
    Dense,
    /// Where each row (csr) or column (csc) begins.
    Sparse {
        by_cells: bool,
        starts: Vec<u64>,
    },
}

impl<'a> FileMatrix<'a> {
    pub(super) fn open(store: &'a Store, layer: Option<&str>) -> Result<Self> {
        let place = match layer {
            None => "X".to_owned(),
            Some(layer) => {
                let place = format!("layers/{layer}");
                if !store.has(&place) {
                    let layers = if store.has("layers") { store.members("layers")? } else { Vec::new() };
                    let known = listed(layers.iter().map(String::as_str), layers.len());
                    let known = if layers.is_empty() {
                        "none: the file has no layers".into()
                    } else {
                        format!("one of {known}")
                    };
                    return Err(store.error(format!("has no layer '{layer:.60}', expected {known}")));
                }
                place
            }
        };
        if !store.has(&place) {
            return Err(store
                .error("has no X, expected a matrix of cells and genes, or a layer to read in its place"));
        }
        match store.is_group(&place) {
            true => FileMatrix::sparse(store, place),
            false => FileMatrix::dense(store, place),
        }
    }

    fn dense(store: &'a Store, place: String) -> Result<Self> {
        let array = store.array(&place)?;
        let shape = array.shape().map_err(|error| store.failed(&place, &error))?;
        check_numbers(store, &place, &array)?;
        let [cells, genes] = shape[..] else {
            return Err(store.error(format!("{place} has the shape {shape:?}, expected cells × genes")));
        };
        let (cells, genes) = (size(store, &place, cells)?, size(store, &place, genes)?);
        Ok(FileMatrix { store, place, cells, genes, form: Form::Dense })
    }

    fn sparse(store: &'a Store, place: String) -> Result<Self> {
        let attributes = store.group(&place)?.attrs().map_err(|error| store.failed(&place, &error))?;
        let encoding =
            attributes.get("encoding-type").or_else(|| attributes.get("h5sparse_format")).and_then(text);
        let by_cells = match encoding.as_deref() {
            Some("csr_matrix" | "csr") => true,
            Some("csc_matrix" | "csc") => false,
            other => {
                let found = other.unwrap_or("none");
                return Err(store.error(format!(
                    "{place} has the encoding {found:.60}, expected an array, csr_matrix or csc_matrix"
                )));
            }
        };
        let shape = attributes.get("shape").or_else(|| attributes.get("h5sparse_shape"));
        let Some([cells, genes]) = shape.and_then(pair) else {
            return Err(store.error(format!("{place} has no attribute shape of two numbers, expected one")));
        };
        let at = |name: &str| format!("{place}/{name}");
        let starts =
            store.array(&at("indptr"))?.read_u64().map_err(|error| store.failed(&at("indptr"), &error))?;
        let (lines, entries) = (if by_cells { cells } else { genes }, store.array(&at("data"))?);
        check_numbers(store, &at("data"), &entries)?;
        let count = |name: &str| -> Result<u64> {
            let shape = store.array(&at(name))?.shape().map_err(|error| store.failed(&at(name), &error))?;
            Ok(shape.iter().product())
        };
        let (data, indices) = (count("data")?, count("indices")?);
        let whole = starts.len() == lines + 1 && starts.first() == Some(&0) && starts.is_sorted();
        if !whole || starts.last() != Some(&data) || indices != data {
            return Err(store.error(format!(
                "{place} has {data} numbers, {indices} indices and pointers for {} lines, expected as many indices as numbers and pointers for {lines} lines",
                starts.len().saturating_sub(1)
            )));
        }
        Ok(FileMatrix { store, place, cells, genes, form: Form::Sparse { by_cells, starts } })
    }

    pub(in crate::data) fn cells(&self) -> usize {
        self.cells
    }

    pub(in crate::data) fn genes(&self) -> usize {
        self.genes
    }

    /// Where the matrix lies in the file.
    pub(in crate::data) fn place(&self) -> &str {
        &self.place
    }

    /// Calls `visit` with every number that is not 0, its cell and its gene. A number that is not finite is an error.
    pub(in crate::data) fn visit(&self, mut visit: impl FnMut(usize, usize, f64)) -> Result<()> {
        match &self.form {
            Form::Dense => self.visit_dense(visit),
            Form::Sparse { by_cells, starts } => {
                let lines = if *by_cells { self.genes } else { self.cells };
                self.visit_sparse(starts, lines, |line, at, value| match by_cells {
                    true => visit(line, at, value),
                    false => visit(at, line, value),
                })
            }
        }
    }

    fn visit_dense(&self, mut visit: impl FnMut(usize, usize, f64)) -> Result<()> {
        let array = self.store.array(&self.place)?;
        let rows = (BLOCK / (self.genes as u64).max(1)).max(1);
        let mut first = 0;
        while first < self.cells as u64 {
            let count = rows.min(self.cells as u64 - first);
            let block =
                array.read_f64_rows(first, count).map_err(|error| self.store.failed(&self.place, &error))?;
            let from = size(self.store, &self.place, first)?;
            for (i, row) in block.chunks_exact(self.genes.max(1)).enumerate() {
                for (j, &value) in row.iter().enumerate().filter(|(_, value)| **value != 0.0) {
                    self.check(from + i, j, value)?;
                    visit(from + i, j, value);
                }
            }
            first += count;
        }
        Ok(())
    }

    /// Visits the entries of compressed lines: line, place in it below `width`, and number.
    fn visit_sparse(
        &self,
        starts: &[u64],
        width: usize,
        mut visit: impl FnMut(usize, usize, f64),
    ) -> Result<()> {
        let places = [format!("{}/data", self.place), format!("{}/indices", self.place)];
        let (data, indices) = (self.store.array(&places[0])?, self.store.array(&places[1])?);
        let (mut line, mut first, all) = (0, 0, starts.last().copied().unwrap_or(0));
        while first < all {
            let count = BLOCK.min(all - first);
            let values =
                data.read_f64_rows(first, count).map_err(|error| self.store.failed(&places[0], &error))?;
            let at =
                indices.read_u64_rows(first, count).map_err(|error| self.store.failed(&places[1], &error))?;
            for (k, (&value, &at)) in (first..).zip(values.iter().zip(&at)) {
                while starts[line + 1] <= k {
                    line += 1;
                }
                let at = usize::try_from(at).ok().filter(|at| *at < width).ok_or_else(|| {
                    self.store.error(format!("{} has the index {at}, expected one below {width}", places[1]))
                })?;
                if value != 0.0 {
                    self.check(line, at, value)?;
                    visit(line, at, value);
                }
            }
            first += count;
        }
        Ok(())
    }

    fn check(&self, line: usize, at: usize, value: f64) -> Result<()> {
        match value.is_finite() {
            true => Ok(()),
            false => Err(self
                .store
                .error(format!("{} holds {value} at ({line}, {at}), expected a finite number", self.place))),
        }
    }
}

/// An array of numbers, in a format that can be read.
fn check_numbers(store: &Store, place: &str, array: &hdf5_pure::Dataset) -> Result<()> {
    let dtype = array.dtype().map_err(|error| store.failed(place, &error))?;
    let numbers = matches!(
        dtype,
        DType::F32
            | DType::F64
            | DType::I8
            | DType::I16
            | DType::I32
            | DType::I64
            | DType::U8
            | DType::U16
            | DType::U32
            | DType::U64
    );
    match numbers {
        true => Ok(()),
        false => Err(store.error(format!("{place} has values of the type {dtype}, expected numbers"))),
    }
}

fn size(store: &Store, place: &str, count: u64) -> Result<usize> {
    usize::try_from(count).map_err(|_| {
        store.error(format!("{place} has {count} rows or columns, which this machine cannot count"))
    })
}

/// Two sizes in an attribute.
fn pair(value: &AttrValue) -> Option<[usize; 2]> {
    let sizes: Vec<usize> = match value {
        AttrValue::I64Array(sizes) => {
            sizes.iter().map(|size| usize::try_from(*size).ok()).collect::<Option<_>>()?
        }
        AttrValue::U64Array(sizes) => {
            sizes.iter().map(|size| usize::try_from(*size).ok()).collect::<Option<_>>()?
        }
        AttrValue::I32Array(sizes) => {
            sizes.iter().map(|size| usize::try_from(*size).ok()).collect::<Option<_>>()?
        }
        AttrValue::U32Array(sizes) => {
            sizes.iter().map(|size| usize::try_from(*size).ok()).collect::<Option<_>>()?
        }
        _ => return None,
    };
    sizes.try_into().ok()
}
