//! Files that anndata wrote (`tests/golden/h5ad/make.py`), and files that are written here.

use super::*;
use crate::data::cells::{GeneChoice, Normalization};
use crate::data::write::DataFormat;
use serde::Deserialize;
use std::path::PathBuf;

#[derive(Deserialize)]
struct Expected {
    /// Cells × genes.
    x: Vec<f64>,
    labels: Vec<String>,
    genes: Vec<String>,
    batch: Vec<String>,
    passed: Vec<String>,
}

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/h5ad").join(name)
}

fn expected() -> Expected {
    serde_json::from_str(&std::fs::read_to_string(golden("expected.json")).unwrap()).unwrap()
}

fn variants() -> Vec<PathBuf> {
    let mut all = Vec::new();
    for form in ["dense", "csr", "csc"] {
        for compression in ["none", "gzip", "lzf"] {
            all.extend(
                ["categorical", "string"].map(|text| golden(&format!("{form}-{compression}-{text}.h5ad"))),
            );
        }
    }
    all
}

fn settings() -> CellSettings {
    CellSettings {
        perturbation: Some("obs:perturbation".into()),
        genes: Some("all".parse().unwrap()),
        normalization: Some(Normalization::None),
        ..CellSettings::default()
    }
}

fn read(name: &str, settings: &CellSettings) -> Result<Cells> {
    Dataset::read_cells(golden(name), settings)
}

fn refused(name: &str, settings: &CellSettings) -> String {
    read(name, settings).unwrap_err().to_string()
}

#[test]
fn every_variant_is_read_as_anndata_reads_it() {
    let Expected { x, labels, genes, .. } = expected();
    let d = genes.len();
    // A, A+B, B and B with a control; Q was not measured, C has three cells.
    let order = ["NT", "A", "A+B", "B"];
    let plain = |label: &str| if label == "B+NT" { "B".to_owned() } else { label.to_owned() };
    for path in variants() {
        let cells = Dataset::read_cells(&path, &settings()).unwrap();
        assert_eq!(cells.labels, ["control", "A", "A+B", "B"], "{}", path.display());
        assert_eq!(cells.data.names(), genes);
        for (e, label) in order.iter().enumerate() {
            let rows: Vec<f64> = (0..labels.len())
                .filter(|&i| plain(&labels[i]) == *label)
                .flat_map(|i| x[i * d..(i + 1) * d].to_vec())
                .collect();
            assert_eq!(cells.data.environment(e).as_slice(), rows, "{} {label}", path.display());
            let targets: Vec<&str> =
                (0..d).filter(|&j| cells.data.targets()[(e, j)]).map(|j| genes[j].as_str()).collect();
            assert_eq!(targets.join("+"), if *label == "NT" { "" } else { label });
        }
        let notes = cells.notes.join("\n");
        for piece in [
            "of 6 genes: 26 controls, and 3 perturbations.",
            "1 perturbation with 7 cells (genes that were not measured): 'Q (7)'",
            "1 perturbation with 3 cells (fewer than 20 cells): 'C (3)'",
        ] {
            assert!(notes.contains(piece), "{notes}");
        }
    }
}

#[test]
fn columns_of_every_kind_are_read_as_text() {
    let Expected { batch, passed, .. } = expected();
    for path in variants() {
        let store = Store::open(&path).unwrap();
        assert_eq!(store.column("obs", "batch").unwrap(), batch);
        assert_eq!(store.column("obs", "passed").unwrap(), passed);
        let scores = store.column("obs", "score").unwrap();
        assert!(scores.iter().all(|score| score.parse::<f64>().is_ok()));
    }
}

#[test]
fn layers_are_read_in_place_of_the_matrix() {
    for name in ["dense-gzip-categorical.h5ad", "csr-lzf-string.h5ad", "csc-none-categorical.h5ad"] {
        let plain = read(name, &settings()).unwrap().data;
        let doubled = read(name, &CellSettings { layer: Some("doubled".into()), ..settings() }).unwrap().data;
        assert!(
            plain.samples().as_slice().iter().zip(doubled.samples().as_slice()).all(|(a, b)| 2.0 * a == *b)
        );
        let sentence = refused(name, &CellSettings { layer: Some("halved".into()), ..settings() });
        assert!(sentence.contains("has no layer 'halved', expected one of 'doubled'"), "{sentence}");
    }
}

#[test]
fn counts_are_normalised_once_and_only_if_they_are_counts() {
    let auto = CellSettings { normalization: Some(Normalization::Auto), ..settings() };
    let cells = read("csr-gzip-string.h5ad", &auto).unwrap();
    assert!(cells.notes.iter().any(|note| note.contains("holds counts")), "{:?}", cells.notes);
    // By hand: totals over their median, and the logarithm.
    let Expected { x, labels, genes, .. } = expected();
    let d = genes.len();
    let totals: Vec<f64> = x.chunks(d).map(|row| row.iter().sum()).collect();
    let mut sorted = totals.clone();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let median = 0.5 * (sorted[n / 2] + sorted[(n - 1) / 2]);
    let first = labels.iter().position(|label| label == "NT").unwrap();
    for j in 0..d {
        let value = (x[first * d + j] / (totals[first] / median)).ln_1p();
        assert!((cells.data.samples()[(0, j)] - value).abs() < 1e-12);
    }
    let logged = read("logged.h5ad", &auto).unwrap();
    assert!(logged.notes.iter().any(|note| note.contains("does not hold counts and was taken as it is")));
    assert_eq!(logged.data.samples(), read("logged.h5ad", &settings()).unwrap().data.samples());
    let sentence =
        refused("logged.h5ad", &CellSettings { normalization: Some(Normalization::Log1p), ..settings() });
    assert!(sentence.contains("expected counts to normalise: it has been normalised before"), "{sentence}");
}

#[test]
fn genes_are_targets_variable_ones_or_those_of_a_list() {
    let with = |genes: &str| CellSettings { genes: Some(genes.parse().unwrap()), ..settings() };
    let names = |genes: &str| read("csc-gzip-categorical.h5ad", &with(genes)).unwrap().data.names().to_vec();
    assert_eq!(names("targets"), ["A", "B"]);
    assert_eq!(names("all").len(), 6);
    // A is tripled by some perturbations.
    assert!(names("hvg:1+targets").len() <= 3 && names("hvg:2").len() == 2);
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("genes.txt");
    std::fs::write(&list, "E\nA\n\nB\n").unwrap();
    let file = format!("file:{}", list.display());
    assert_eq!(names(&file), ["A", "B", "E"]);
    std::fs::write(&list, "E\nA\nKLF1\n").unwrap();
    let sentence = refused("csc-gzip-categorical.h5ad", &with(&file));
    assert!(sentence.contains("names genes that var does not have: 'KLF1'"), "{sentence}");
    // A perturbation of a gene that was not chosen cannot be told from a control.
    std::fs::write(&list, "A\nD\n").unwrap();
    let cells = read("csc-gzip-categorical.h5ad", &with(&file)).unwrap();
    assert_eq!(cells.labels, ["control", "A"]);
    assert!(
        cells.notes.iter().any(|note| note.contains("(genes that were not chosen): 'B'")),
        "{:?}",
        cells.notes
    );
    for (text, piece) in
        [("hvg:0", "hvg: and a number above 0"), ("some", "expected all, targets"), ("file:", "joined by +")]
    {
        let sentence = text.parse::<GeneChoice>().unwrap_err().to_string();
        assert!(sentence.contains(piece), "{sentence}");
    }
    let both = "targets+hvg:50";
    assert_eq!(both.parse::<GeneChoice>().unwrap().to_string(), both);
    assert_eq!(GeneChoice::default().to_string(), both);
}

#[test]
fn labels_are_taken_as_people_write_them() {
    let name = "csr-none-string.h5ad";
    let named = |control: &str| CellSettings { control: Some(control.into()), ..settings() };
    assert_eq!(read(name, &named("NT")).unwrap().labels.len(), 4);
    // Another control: NT is then a gene that was not measured.
    let others = read(name, &named("A")).unwrap();
    assert_eq!(others.labels, ["control", "B"]);
    let sentence = refused(name, &named("mock"));
    for piece in ["has no control cells", "'A+B'", "expected some with the control label 'mock'"] {
        assert!(sentence.contains(piece), "{sentence}");
    }
    let apart = CellSettings { separator: Some("_".into()), ..settings() };
    assert_eq!(read(name, &apart).unwrap().labels, ["control", "A", "B"]);
    let few = CellSettings { least_cells: Some(27), ..settings() };
    assert!(refused(name, &few).contains("has 26 control cells, expected at least 27"));
    let none = CellSettings { perturbation: None, ..settings() };
    let sentence = refused(name, &none);
    assert!(
        sentence.contains("no column of perturbations is given") && sentence.contains("'passed'"),
        "{sentence}"
    );
    let wrong = CellSettings { perturbation: Some("guide".into()), ..settings() };
    assert!(refused(name, &wrong).contains("obs has no column 'guide', expected one of "));
}

#[test]
fn damaged_files_get_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("screen.h5ad");
    let whole = std::fs::read(golden("csr-gzip-string.h5ad")).unwrap();
    for bytes in [&whole[..0], &whole[..100], b"not a matrix of cells", &whole[..whole.len() / 2]] {
        std::fs::write(&path, bytes).unwrap();
        let sentence = Dataset::read_cells(&path, &settings()).unwrap_err().to_string();
        assert!(sentence.contains("screen.h5ad"), "{sentence}");
    }
    let missing = Dataset::read_cells(folder.path().join("none.h5ad"), &settings()).unwrap_err().to_string();
    assert!(missing.contains("cannot read"), "{missing}");
    // Any flipped byte gives a dataset or a sentence.
    for at in (0..whole.len()).step_by(97) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x41;
        std::fs::write(&path, &damaged).unwrap();
        match Dataset::read_cells(&path, &settings()) {
            Ok(cells) => assert!(cells.data.dim() > 0),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

#[test]
fn what_is_written_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("written.h5ad");
    let data = read("dense-none-string.h5ad", &settings()).unwrap().data;
    assert_eq!(DataFormat::of(&path, data.names()).unwrap(), DataFormat::H5ad);
    data.write(&path).unwrap();
    let again = Dataset::read_cells(&path, &settings()).unwrap();
    assert_eq!(again.data.samples(), data.samples());
    assert_eq!((again.data.targets(), again.data.names()), (data.targets(), data.names()));
    let store = Store::open(&path).unwrap();
    assert_eq!(store.column("obs", "environment").unwrap()[26..28], ["1", "1"]);
    // The same data gives the same bytes.
    let bytes = std::fs::read(&path).unwrap();
    data.write(&path).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
}
