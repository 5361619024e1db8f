//! `skds serve`: a real service in a process of its own.

#[path = "../common/mod.rs"]
mod common;

mod api;
mod client;
mod crash;
mod disconnect;
mod folder;
mod gpu;
mod health;
mod keeping;
mod lists;
mod load;
// It looks at processes where Linux shows them.
#[cfg(target_os = "linux")]
mod process;
mod records;
mod server;
mod slow;
mod stop;
mod tokens;
mod uploads;

use skds::data::Dataset;
use std::path::Path;

/// A small dataset of five variables, one observational and two other environments, as a file's bytes.
pub fn small_data(folder: &Path) -> (std::path::PathBuf, Vec<u8>) {
    let settings = skds::simulate::Settings {
        dim: 5,
        rows: 120,
        train_envs: 2,
        test_envs: 2,
        edges: 2,
        ..skds::simulate::Settings::default()
    };
    let simulated = skds::simulate::simulate(&settings, &Default::default()).unwrap();
    let path = folder.join("train.npz");
    simulated.train.write(&path).unwrap();
    simulated.test.write(folder.join("test.npz")).unwrap();
    assert!(Dataset::read(&path).is_ok());
    let bytes = std::fs::read(&path).unwrap();
    (path, bytes)
}
