use super::*;

fn data(environments: usize) -> Dataset {
    let values = [0.1 + 0.2, -1e-300, 1.0 / 3.0, 1e300, -0.0, 5e-324];
    let one = |e: usize| Matrix::from_fn(2 + e, 3, |i, j| values[(e + 3 * i + j) % 6]);
    let names = ["gene a", "γ, \"quoted\"", "x"].map(String::from).to_vec();
    Dataset::from_environments((0..environments).map(one).collect()).unwrap().with_names(names).unwrap()
}

fn bits(data: &Dataset) -> Vec<u64> {
    data.samples().as_slice().iter().map(|value| value.to_bits()).collect()
}

#[track_caller]
fn assert_comes_back(data: &Dataset, name: &str, files: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    data.write(&path).unwrap();
    let first = std::fs::read(&path).unwrap();
    data.write(&path).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), first, "the same data gives the same bytes");
    let mut found: Vec<_> =
        std::fs::read_dir(&folder).unwrap().map(|f| f.unwrap().file_name().into_string().unwrap()).collect();
    found.sort();
    assert_eq!(found, files);
    let targets = Some(Dataset::targets_beside(&path)).filter(|path| path.exists());
    let back = Dataset::read_files(&path, targets.as_deref()).unwrap();
    assert_eq!(bits(&back), bits(data));
    assert_eq!((back.names(), back.offsets()), (data.names(), data.offsets()));
    assert_eq!(back.targets(), data.targets());
}

#[test]
fn what_is_written_comes_back() {
    assert_comes_back(&data(1), "one.npz", &["one.npz"]);
    assert_comes_back(&data(1), "one.CSV", &["one.CSV"]);
    let targets = Matrix::from_fn(3, 3, |e, j| e > 0 && j == e - 1);
    let three = data(3).with_targets(targets).unwrap();
    assert_comes_back(&three, "three.npz", &["three.npz"]);
    assert_comes_back(&three, "three.csv", &["three.csv", "three.targets.csv"]);
    let targeted = data(1).with_targets(Matrix::full(1, 3, true)).unwrap();
    assert_comes_back(&targeted, "one.npz", &["one.npz"]);
    assert_comes_back(&targeted, "one.csv", &["one.csv", "one.targets.csv"]);
}

#[test]
fn headers_are_as_numpy_writes_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("three.npz");
    data(3).write(&path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let text = String::from_utf8_lossy(&bytes);
    for header in [
        "{'descr': '<f8', 'fortran_order': False, 'shape': (9, 3), }",
        "{'descr': '<i8', 'fortran_order': False, 'shape': (9,), }",
        "{'descr': '|b1', 'fortran_order': False, 'shape': (3, 3), }",
        "{'descr': '<U11', 'fortran_order': False, 'shape': (3,), }",
    ] {
        assert!(text.contains(header), "no {header}");
    }
}

#[test]
fn what_cannot_be_read_back_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |name: &str, names: [&str; 3], piece: &str| {
        let data = data(1).with_names(names.map(String::from).to_vec()).unwrap();
        let sentence = data.write(folder.path().join(name)).unwrap_err().to_string();
        assert!(sentence.contains(piece), "{sentence}");
    };
    let expected = if cfg!(feature = "h5ad") { ".npz, .csv or .h5ad" } else { ".npz or .csv" };
    refused("data.txt", ["a", "b", "c"], &format!("has the extension .txt, expected {expected}"));
    refused("data", ["a", "b", "c"], "has no extension");
    refused("data.csv", ["a", "env", "c"], "the name `env`, expected a .npz file");
    refused("data.csv", ["a", " b", "c"], "the name ` b`");
    refused("data.npz", ["a", "b\0", "c"], "expected a .csv file");
    refused("data.npz", ["a", &"b".repeat(5000), "c"], "expected a .csv file");
    refused("absent/data.npz", ["a", "b", "c"], "expected a folder that exists");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
}
