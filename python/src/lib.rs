//! The native part of the Python package `skds`: the Rust library, as Python calls it.
//!
//! Settings, questions and reports cross the border as JSON, so they are those of files, requests and `--json`. Samples cross it
//! as numpy arrays. Long work runs without the interpreter (`work`), and errors keep their sentences (`errors`).

mod arrays;
mod client;
mod data;
mod errors;
mod loss;
mod model;
mod studies;
mod work;

use pyo3::prelude::*;

#[pymodule(gil_used = true)]
fn _skds(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("Error", module.py().get_type::<errors::Error>())?;
    module.add_class::<data::Dataset>()?;
    module.add_class::<model::Model>()?;
    module.add_class::<client::Client>()?;
    module.add_function(wrap_pyfunction!(data::cells_in_memory, module)?)?;
    module.add_function(wrap_pyfunction!(data::cells_in_file, module)?)?;
    module.add_function(wrap_pyfunction!(data::restored_dataset, module)?)?;
    module.add_function(wrap_pyfunction!(model::restored_model, module)?)?;
    module.add_function(wrap_pyfunction!(model::checked_settings, module)?)?;
    module.add_function(wrap_pyfunction!(model::fit, module)?)?;
    module.add_function(wrap_pyfunction!(loss::loss, module)?)?;
    module.add_function(wrap_pyfunction!(studies::simulated, module)?)?;
    module.add_function(wrap_pyfunction!(studies::experiment, module)?)?;
    module.add_function(wrap_pyfunction!(studies::devices, module)?)?;
    module.add_function(wrap_pyfunction!(studies::command, module)?)?;
    Ok(())
}
