//! Data: tables of samples, and cells.

use crate::arrays::{array, entries, matrix};
use crate::errors::{parsed, raised};
use crate::model::Model;
use crate::work::{Watch, quick, run};
use numpy::{PyArray1, PyArray2, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use skds::Matrix;
use skds::data::cells::{
    CellNumbers, CellPlaces, CellRole, CellSettings, CellTable, CellValues, Cells as CellData,
};
use std::path::PathBuf;
use std::sync::Arc;

/// Samples of a system in one or more environments.
#[pyclass(frozen, module = "skds._skds")]
#[derive(Clone)]
pub struct Dataset {
    pub inner: Arc<skds::data::Dataset>,
}

impl Dataset {
    pub fn new(data: skds::data::Dataset) -> Self {
        Dataset { inner: Arc::new(data) }
    }
}

#[pymethods]
impl Dataset {
    /// Samples, the environment of each, which variables each environment intervenes on, and the names of the variables.
    #[new]
    #[pyo3(signature = (x, env=None, targets=None, names=None))]
    fn from_arrays(
        py: Python<'_>,
        x: PyReadonlyArray2<'_, f64>,
        env: Option<PyReadonlyArray1<'_, i64>>,
        targets: Option<PyReadonlyArray2<'_, bool>>,
        names: Option<Vec<String>>,
    ) -> PyResult<Self> {
        let env = env.as_ref().map(entries).transpose()?.map(<[i64]>::to_vec);
        let (x, targets) = (matrix(&x), targets.as_ref().map(matrix));
        quick(py, move || skds::data::Dataset::from_table(x, env.as_deref(), targets, names))
            .map(Dataset::new)
    }

    /// Reads an .npz file, or a .csv file with the file of its targets.
    #[staticmethod]
    #[pyo3(signature = (path, targets=None))]
    fn read(py: Python<'_>, path: PathBuf, targets: Option<PathBuf>) -> PyResult<Self> {
        let read = move || skds::data::Dataset::read_within(&path, targets.as_deref(), &Default::default());
        run(py, &Watch::default(), None, read).map(Dataset::new)
    }

    /// Writes an .npz, .csv or .h5ad file.
    fn write(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let data = self.inner.clone();
        quick(py, move || data.write(path))
    }

    /// A copy of the samples, environment after environment.
    #[getter]
    fn x<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        array(py, self.inner.samples().clone())
    }

    /// The environment of each row.
    #[getter]
    fn env<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        let rows = |e: usize| std::iter::repeat_n(e as i64, self.inner.rows(e).len());
        PyArray1::from_vec(py, (0..self.inner.environments()).flat_map(rows).collect())
    }

    /// Environments × variables: whether the environment intervenes on the variable.
    #[getter]
    fn targets<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<bool>>> {
        array(py, self.inner.targets().clone())
    }

    /// The names of the variables.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.inner.names().to_vec()
    }

    /// The number of rows, variables and environments.
    #[getter]
    fn shape(&self) -> (usize, usize, usize) {
        (self.inner.samples().rows(), self.inner.dim(), self.inner.environments())
    }

    /// The first environment that intervenes on nothing.
    #[getter]
    fn observational(&self) -> Option<usize> {
        self.inner.observational()
    }

    /// The rows of an environment: where they begin and end.
    fn rows(&self, environment: usize) -> PyResult<(usize, usize)> {
        match environment < self.inner.environments() {
            true => Ok((self.inner.rows(environment).start, self.inner.rows(environment).end)),
            false => Err(crate::errors::invalid(format!(
                "environment {environment} is asked for, expected one below {}",
                self.inner.environments()
            ))),
        }
    }

    fn __repr__(&self) -> String {
        let (rows, variables, environments) = self.shape();
        format!("<skds.Dataset of {rows} rows, {variables} variables and {environments} environments>")
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let py = slf.py();
        let this = slf.get();
        let arguments = (this.x(py)?, this.env(py), this.targets(py)?, this.names(), this.preparation());
        let restore = py.import("skds._skds")?.getattr("restored_dataset")?;
        Ok((restore, arguments.into_pyobject(py)?.into_any()))
    }

    /// How cells became this data, as JSON.
    #[getter]
    fn preparation(&self) -> Option<String> {
        self.inner.cells().map(crate::errors::json)
    }
}

/// A dataset that was pickled.
#[pyfunction]
pub fn restored_dataset(
    x: PyReadonlyArray2<'_, f64>,
    env: PyReadonlyArray1<'_, i64>,
    targets: PyReadonlyArray2<'_, bool>,
    names: Vec<String>,
    preparation: Option<String>,
) -> PyResult<Dataset> {
    let targets = matrix(&targets);
    let data = skds::data::Dataset::from_table(matrix(&x), Some(entries(&env)?), Some(targets), Some(names));
    let data = data.map_err(raised)?;
    Ok(Dataset::new(match preparation {
        Some(text) => data.with_cells(parsed("the preparation of cells", &text)?),
        None => data,
    }))
}

/// Numbers of either precision.
#[derive(FromPyObject)]
pub enum Numbers<'py> {
    F32(PyReadonlyArray1<'py, f32>),
    F64(PyReadonlyArray1<'py, f64>),
}

/// Places of either width.
#[derive(FromPyObject)]
pub enum Places<'py> {
    I32(PyReadonlyArray1<'py, i32>),
    I64(PyReadonlyArray1<'py, i64>),
}

impl Numbers<'_> {
    fn numbers(&self) -> PyResult<CellNumbers<'_>> {
        Ok(match self {
            Numbers::F32(values) => CellNumbers::F32(entries(values)?),
            Numbers::F64(values) => CellNumbers::F64(entries(values)?),
        })
    }
}

impl Places<'_> {
    fn places(&self) -> PyResult<CellPlaces<'_>> {
        Ok(match self {
            Places::I32(places) => CellPlaces::I32(entries(places)?),
            Places::I64(places) => CellPlaces::I64(entries(places)?),
        })
    }
}

/// A dataset, the labels of its environments, the cell of each row, and notes on what was left out.
type CellsRead<'py> = (Dataset, Vec<String>, Bound<'py, PyArray1<i64>>, Vec<String>);

fn handed_over(py: Python<'_>, cells: CellData) -> CellsRead<'_> {
    let rows = PyArray1::from_vec(py, cells.rows.iter().map(|&row| row as i64).collect());
    (Dataset::new(cells.data), cells.labels, rows, cells.notes)
}

/// What cells are read for, and the model that they are read for.
struct Purpose {
    role: String,
    model: Option<Model>,
}

impl Purpose {
    fn role(&self) -> skds::Result<CellRole<'_>> {
        match (self.role.as_str(), &self.model) {
            ("start", Some(model)) => Ok(CellRole::Start(&model.inner.names, model.inner.cells.as_ref())),
            ("test", Some(model)) => Ok(CellRole::Test(&model.inner.names, model.inner.cells.as_ref())),
            ("fit", None) => Ok(CellRole::Fit),
            (role, _) => Err(skds::Error::invalid(format!(
                "the role of cells is '{role}', expected fit, or start or test with a model"
            ))),
        }
    }
}

/// Cells in memory: a dense matrix as one array, a sparse one with `lines` csr or csc.
#[pyfunction]
#[pyo3(signature = (values, genes, labels, settings, role, model=None, lines=None, indices=None, starts=None))]
#[allow(clippy::too_many_arguments)] // Python names them.
pub fn cells_in_memory<'py>(
    py: Python<'py>,
    values: Numbers<'py>,
    genes: Vec<String>,
    labels: Vec<String>,
    settings: &str,
    role: String,
    model: Option<Model>,
    lines: Option<String>,
    indices: Option<Places<'py>>,
    starts: Option<Places<'py>>,
) -> PyResult<CellsRead<'py>> {
    let settings: CellSettings = parsed("settings of cells", settings)?;
    let numbers = values.numbers()?;
    let values = match (lines.as_deref(), &indices, &starts) {
        (None, None, None) => CellValues::Dense(numbers),
        (Some(form @ ("csr" | "csc")), Some(indices), Some(starts)) => CellValues::Sparse {
            by_cells: form == "csr",
            starts: starts.places()?,
            indices: indices.places()?,
            values: numbers,
        },
        (form, ..) => {
            return Err(crate::errors::invalid(format!(
                "the lines are {form:?}, expected csr or csc with indices and starts"
            )));
        }
    };
    let table = CellTable { values, genes: &genes, labels: &labels };
    let purpose = Purpose { role, model };
    let read = || skds::data::Dataset::from_cells(&table, &settings, &purpose.role()?);
    run(py, &Watch::default(), None, read).map(|cells| handed_over(py, cells))
}

/// Cells in an .h5ad file, with genes and labels that are in memory if they are given.
#[pyfunction]
#[pyo3(signature = (path, settings, role, model=None, genes=None, labels=None))]
pub fn cells_in_file<'py>(
    py: Python<'py>,
    path: PathBuf,
    settings: &str,
    role: String,
    model: Option<Model>,
    genes: Option<Vec<String>>,
    labels: Option<Vec<String>>,
) -> PyResult<CellsRead<'py>> {
    let settings: CellSettings = parsed("settings of cells", settings)?;
    let purpose = Purpose { role, model };
    let read = || match (&genes, &labels) {
        (Some(genes), Some(labels)) => {
            skds::data::Dataset::read_labelled_cells(&path, genes, labels, &settings, &purpose.role()?)
        }
        _ => skds::data::Dataset::read_cells_for(&path, &settings, &purpose.role()?),
    };
    run(py, &Watch::default(), None, read).map(|cells| handed_over(py, cells))
}

/// Simulated rows as they come from the library.
pub fn rows_to_arrays(py: Python<'_>, rows: Vec<Matrix<f64>>) -> PyResult<Vec<Bound<'_, PyArray2<f64>>>> {
    rows.into_iter().map(|rows| array(py, rows)).collect()
}
