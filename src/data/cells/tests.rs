//! Cells in memory give the dataset of the same cells in a file, and models get cells that are prepared like theirs.

use super::*;
use serde::Deserialize;

#[derive(Deserialize)]
struct Screen {
    /// Cells × genes.
    x: Vec<f64>,
    labels: Vec<String>,
    genes: Vec<String>,
}

fn screen() -> Screen {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/h5ad/expected.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn settings() -> CellSettings {
    CellSettings { genes: Some("all".parse().unwrap()), ..CellSettings::default() }
}

fn dense<'a>(screen: &'a Screen, values: &'a [f64]) -> CellTable<'a> {
    CellTable {
        values: CellValues::Dense(CellNumbers::F64(values)),
        genes: &screen.genes,
        labels: &screen.labels,
    }
}

/// Lines, places in them, and numbers of the lines of a matrix with `width` columns.
fn compressed(values: &[f64], width: usize) -> (Vec<i32>, Vec<i64>, Vec<f32>) {
    let (mut starts, mut indices, mut data) = (vec![0], Vec::new(), Vec::new());
    for line in values.chunks(width) {
        for (at, value) in line.iter().enumerate().filter(|(_, value)| **value != 0.0) {
            indices.push(at as i64);
            data.push(*value as f32);
        }
        starts.push(data.len() as i32);
    }
    (starts, indices, data)
}

#[test]
fn every_form_gives_the_same_dataset() {
    let screen = screen();
    let (n, d) = (screen.labels.len(), screen.genes.len());
    let expected = Dataset::from_cells(&dense(&screen, &screen.x), &settings(), &CellRole::Fit).unwrap();
    assert_eq!(expected.labels, ["control", "A", "A+B", "B"]);
    let transposed: Vec<f64> = (0..n * d).map(|k| screen.x[(k % n) * d + k / n]).collect();
    let (rows, columns) = (compressed(&screen.x, d), compressed(&transposed, n));
    let narrow: Vec<f32> = screen.x.iter().map(|value| *value as f32).collect();
    for values in [
        CellValues::Dense(CellNumbers::F32(&narrow)),
        CellValues::Sparse {
            by_cells: true,
            starts: CellPlaces::I32(&rows.0),
            indices: CellPlaces::I64(&rows.1),
            values: CellNumbers::F32(&rows.2),
        },
        CellValues::Sparse {
            by_cells: false,
            starts: CellPlaces::I32(&columns.0),
            indices: CellPlaces::I64(&columns.1),
            values: CellNumbers::F32(&columns.2),
        },
    ] {
        let table = CellTable { values, ..dense(&screen, &[]) };
        let found = Dataset::from_cells(&table, &settings(), &CellRole::Fit).unwrap();
        assert_eq!(found.data.samples(), expected.data.samples(), "{values:?}");
        assert_eq!(
            (&found.labels, &found.rows, &found.notes),
            (&expected.labels, &expected.rows, &expected.notes)
        );
    }
    #[cfg(feature = "h5ad")]
    {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/h5ad/csr-gzip-string.h5ad");
        let with_column = CellSettings { perturbation: Some("obs:perturbation".into()), ..settings() };
        let read = Dataset::read_cells(path, &with_column).unwrap();
        assert_eq!(read.data.samples(), expected.data.samples());
        assert_eq!(read.data.cells().unwrap().depth, expected.data.cells().unwrap().depth);
        assert_eq!(read.data.cells().unwrap().perturbation.as_deref(), Some("perturbation"));
        // The numbers of the file with labels that a program has changed.
        let labels: Vec<String> = screen.labels.iter().map(|label| label.replace('A', "D")).collect();
        let changed =
            Dataset::read_labelled_cells(path, &screen.genes, &labels, &settings(), &CellRole::Fit).unwrap();
        assert_eq!(changed.labels, ["control", "B", "B+D", "D"]);
        let few =
            Dataset::read_labelled_cells(path, &screen.genes, &labels[1..], &settings(), &CellRole::Fit);
        assert!(few.unwrap_err().to_string().contains("has 102 labels, expected 103 as in the matrix"));
    }
}

#[test]
fn cells_of_a_model_have_its_variables_and_its_depth() {
    let screen = screen();
    let fitted = Dataset::from_cells(
        &dense(&screen, &screen.x),
        &CellSettings { genes: Some("targets+hvg:2".parse().unwrap()), ..CellSettings::default() },
        &CellRole::Fit,
    )
    .unwrap()
    .data;
    let depth = fitted.cells().unwrap().depth.unwrap();
    // The same cells, sequenced three times as deeply, with genes in another order, and no controls in what is predicted.
    let mut order: Vec<usize> = (0..screen.genes.len()).rev().collect();
    order.swap(0, 3);
    let d = order.len();
    let values: Vec<f64> = (0..screen.x.len()).map(|k| 3.0 * screen.x[k / d * d + order[k % d]]).collect();
    let genes: Vec<String> = order.iter().map(|&j| screen.genes[j].clone()).collect();
    let table = CellTable { genes: &genes, ..dense(&screen, &values) };
    let role = CellRole::Start(fitted.names(), fitted.cells());
    let start = Dataset::from_cells(&table, &CellSettings::default(), &role).unwrap();
    assert_eq!(start.data.names(), fitted.names());
    assert_eq!(start.data.cells().unwrap().depth, Some(depth));
    let pairs = start.data.samples().as_slice().iter().zip(fitted.samples().as_slice());
    // Each cell has three times its counts and three times its total, so the same share of the depth.
    assert!(pairs.clone().all(|(a, b)| (a - b).abs() < 1e-12), "{:?}", pairs.take(5).collect::<Vec<_>>());
    let role = CellRole::Test(fitted.names(), fitted.cells());
    let test = Dataset::from_cells(&table, &CellSettings::default(), &role).unwrap();
    assert_eq!(test.labels, ["A", "A+B", "B"]);
    assert_eq!(test.data.observational(), None);
    assert_eq!(test.data.environment(0), start.data.environment(1));
    // Without the depth, numbers stay as they are.
    let raw = CellRole::Test(fitted.names(), None);
    let raw = Dataset::from_cells(&table, &CellSettings::default(), &raw).unwrap().data;
    assert!(raw.samples().as_slice().iter().all(|value| value % 3.0 == 0.0));
    // A gene that the cells do not have.
    let other = [genes[..5].to_vec(), vec!["Z".into()]].concat();
    let table = CellTable { genes: &other, ..table };
    let sentence = Dataset::from_cells(&table, &CellSettings::default(), &role).unwrap_err().to_string();
    assert!(
        sentence.contains("has no genes '") && sentence.contains("all variables of the model"),
        "{sentence}"
    );
    let given = Dataset::from_cells(&table, &settings(), &role).unwrap_err().to_string();
    assert!(given.contains("genes are given for cells of a model"), "{given}");
}

#[test]
fn tables_that_do_not_fit_together_are_refused() {
    let screen = screen();
    let refused = |table: &CellTable<'_>, settings: &CellSettings| {
        Dataset::from_cells(table, settings, &CellRole::Fit).unwrap_err().to_string()
    };
    let short = refused(&dense(&screen, &screen.x[1..]), &settings());
    assert!(short.contains("has 617 numbers, expected 103 × 6"), "{short}");
    let mut values = screen.x.clone();
    values[7] = f64::NAN;
    let sentence = refused(&dense(&screen, &values), &settings());
    assert!(sentence.contains("holds NaN at cell 1, gene 1, expected a finite number"), "{sentence}");
    let (mut starts, mut indices, data) = compressed(&screen.x, 6);
    let sparse = |starts: &[i32], indices: &[i64]| {
        let values = CellValues::Sparse {
            by_cells: true,
            starts: CellPlaces::I32(starts),
            indices: CellPlaces::I64(indices),
            values: CellNumbers::F32(&data),
        };
        refused(&CellTable { values, ..dense(&screen, &[]) }, &settings())
    };
    assert!(
        sparse(&starts[1..], &indices)
            .contains("and 102 lines, expected as many indices as numbers and 103 lines")
    );
    indices[3] = -1;
    assert!(sparse(&starts, &indices).contains("expected indices below 6"));
    indices[3] = 6;
    assert!(sparse(&starts, &indices).contains("has an index beyond its size"));
    starts[2] = -5;
    assert!(sparse(&starts, &indices).contains("lines"));
}

#[test]
fn settings_come_back_from_json_and_genes_may_be_a_list() {
    let parse = |text: &str| serde_json::from_str::<CellSettings>(text);
    let given =
        parse(r#"{"perturbation":"guide","genes":"targets+hvg:7","normalization":"log1p","least_cells":5}"#);
    let given = given.unwrap();
    assert_eq!((given.normalization, given.least_cells), (Some(Normalization::Log1p), Some(5)));
    let list = parse(r#"{"genes":["targets","C+D","hvg:2"]}"#).unwrap().genes.unwrap();
    assert_eq!(list.to_string(), "targets+C+D+hvg:2");
    for (text, piece) in [
        (r#"{"gene":"all"}"#, "unknown field `gene`"),
        (r#"{"genes":["hvg:x"]}"#, "hvg: and a number above 0"),
        (r#"{"normalization":"log2"}"#, "expected one of auto, log1p, none"),
    ] {
        let sentence = parse(text).unwrap_err().to_string();
        assert!(sentence.contains(piece), "{sentence}");
    }
    let screen = screen();
    let with = |genes: &str| {
        let settings = parse(&format!(r#"{{"genes":{genes}}}"#)).unwrap();
        Dataset::from_cells(&dense(&screen, &screen.x), &settings, &CellRole::Fit)
    };
    assert_eq!(with(r#"["D","A"]"#).unwrap().data.names(), ["A", "D"]);
    let sentence = with(r#"["D","KLF1"]"#).unwrap_err().to_string();
    assert!(sentence.contains("has no gene 'KLF1', which is given as a variable"), "{sentence}");
    let sentence = with(r#"["D"]"#).unwrap_err().to_string();
    assert!(sentence.contains("no perturbation left whose genes are variables"), "{sentence}");
}

/// Labels and counts of so many cells of each label, all genes alike.
fn plain(labels: &[(&str, usize)], genes: usize) -> (Vec<String>, Vec<f64>) {
    let labels: Vec<String> =
        labels.iter().flat_map(|(label, count)| vec![(*label).to_owned(); *count]).collect();
    let values = (0..labels.len() * genes).map(|k| 0.25 + (k % 7) as f64 + (k % 3) as f64 * 0.1).collect();
    (labels, values)
}

#[test]
fn few_genes_are_ranked_by_their_variability_too() {
    let d = 16;
    let (labels, mut values) = plain(&[("NT", 30), ("g0", 30)], d);
    for (k, value) in values.iter_mut().enumerate().filter(|(k, _)| k % d >= 14) {
        *value += 30.0 * ((k / d) % 2) as f64;
    }
    let genes: Vec<String> = (0..d).map(|j| format!("g{j}")).collect();
    let table =
        CellTable { values: CellValues::Dense(CellNumbers::F64(&values)), genes: &genes, labels: &labels };
    let settings = CellSettings { genes: Some("targets+hvg:2".parse().unwrap()), ..CellSettings::default() };
    let names = Dataset::from_cells(&table, &settings, &CellRole::Fit).unwrap().data.names().to_vec();
    assert_eq!(names, ["g0", "g14", "g15"]);
}

#[test]
fn labels_that_say_nothing_are_no_controls_and_genes_stay_whole() {
    let genes = ["NKX2-1", "B"].map(String::from);
    let (labels, values) = plain(&[("ctrl", 25), (" ", 4), ("-", 5), ("NKX2-1", 21), ("B-ctrl", 22)], 2);
    let table =
        CellTable { values: CellValues::Dense(CellNumbers::F64(&values)), genes: &genes, labels: &labels };
    let settings = CellSettings { separator: Some("-".into()), ..settings() };
    let cells = Dataset::from_cells(&table, &settings, &CellRole::Fit).unwrap();
    assert_eq!(cells.labels, ["control", "B", "NKX2-1"]);
    assert_eq!(cells.data.rows(0).len(), 25);
    assert!(cells.notes.iter().any(|note| note.contains("9 cells without a label")), "{:?}", cells.notes);
}

#[test]
fn raw_counts_for_a_model_of_normalised_cells_are_noticed() {
    let screen = screen();
    let names = &screen.genes[..3];
    let role = CellRole::Start(names, None);
    let notes = |settings: &CellSettings| {
        Dataset::from_cells(&dense(&screen, &screen.x), settings, &role).unwrap().notes.join("\n")
    };
    assert!(
        notes(&CellSettings::default()).contains("Warning: the matrix holds counts, but the model's data")
    );
    // Who says what to do is not asked again.
    let none = CellSettings { normalization: Some(Normalization::None), ..CellSettings::default() };
    assert!(!notes(&none).contains("holds counts"));
}
