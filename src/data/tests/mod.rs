mod csv;
mod npz;
mod write;

use super::*;

#[track_caller]
fn assert_words(result: Result<Dataset>, words: &[&str]) {
    let text = result.unwrap_err().to_string();
    for word in words {
        assert!(text.contains(word), "no `{word}` in: {text}");
    }
    assert!(!text.contains('\n'), "more than one line: {text}");
}

fn two() -> Vec<Matrix<f64>> {
    vec![Matrix::from_fn(2, 2, |i, j| (i + j) as f64), Matrix::from_fn(3, 2, |i, j| 10.0 + (i * j) as f64)]
}

#[test]
fn environments_are_stacked() {
    let data = Dataset::from_environments(two()).unwrap();
    assert_eq!((data.dim(), data.environments(), data.offsets()), (2, 2, &[0, 2, 5][..]));
    assert_eq!(data.rows(1), 2..5);
    assert_eq!(data.samples().row(4), [10.0, 12.0]);
    assert_eq!(data.names(), ["x0", "x1"]);
    assert_eq!(data.targets(), &Matrix::full(2, 2, false));
    let targets = Matrix::from_rows(2, 2, vec![false, false, true, false]);
    let data = data.with_targets(targets.clone()).unwrap().with_names(vec!["a".into(), "b".into()]).unwrap();
    assert_eq!(data.targets(), &targets);
    assert_eq!(data.names(), ["a", "b"]);
}

#[test]
fn environments_that_do_not_fit() {
    let from = Dataset::from_environments;
    assert_words(from(vec![]), &["no environments"]);
    assert_words(from(vec![Matrix::full(3, 0, 0.0)]), &["0 columns"]);
    assert_words(
        from(vec![two().remove(0), Matrix::full(3, 4, 0.0)]),
        &["environment 1 has 4 columns, expected 2"],
    );
    assert_words(from(vec![two().remove(0), Matrix::full(1, 2, 0.0)]), &["environment 1 has 1 row"]);
    let mut spoilt = two();
    spoilt[1][(2, 1)] = f64::NAN;
    assert_words(from(spoilt), &["environment 1 holds NaN at row 2, column 1"]);
    let data = from(two()).unwrap();
    let targets = Matrix::full(3, 2, false);
    assert_words(data.clone().with_targets(targets), &["targets have shape [3, 2], expected [2, 2]"]);
    let names = |names: &[&str]| data.clone().with_names(names.iter().map(|name| name.to_string()).collect());
    assert_words(names(&["a"]), &["found 1 names, expected 2"]);
    assert_words(names(&["a", "a"]), &["`a` appears twice"]);
    assert_words(names(&["a", ""]), &["variable 1 is empty"]);
}

#[test]
fn paths_that_are_no_data() {
    assert_words(Dataset::read("no/such.npz"), &["cannot read no/such.npz"]);
    let folder = tempfile::tempdir().unwrap();
    assert_words(Dataset::read(folder.path()), &["cannot read", "is a directory"]);
    for (name, words) in [("data.txt", "has the extension .txt"), ("data", "has no extension")] {
        let path = folder.path().join(name);
        std::fs::write(&path, "a,b\n1,2\n").unwrap();
        assert_words(Dataset::read(&path), &[name, words, "expected .npz or .csv"]);
    }
    let npz = folder.path().join("data.npz");
    std::fs::write(&npz, "").unwrap();
    let words = ["t.csv", "goes with .csv data only", "`targets` inside the .npz"];
    assert_words(Dataset::read_with_targets(&npz, "t.csv"), &words);
}
