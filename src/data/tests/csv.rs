use super::*;

/// Reads `data`, with `targets` as the second file.
fn read(data: impl AsRef<[u8]>, targets: Option<&str>) -> Result<Dataset> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.CSV");
    std::fs::write(&path, data).unwrap();
    let second = folder.path().join("targets.csv");
    if let Some(targets) = targets {
        std::fs::write(&second, targets).unwrap();
    }
    Dataset::read_files(&path, targets.map(|_| second.as_path()))
}

const TWO: &str = "a,env,b\n1,1,10\n2,0,20\n3,1,30\n4,0,40\n";

#[test]
fn one_environment() {
    let data = read(" a , b \n 1 , 2.5 \n-3e-1,\"4\"\n", None).unwrap();
    assert_eq!(data.samples(), &Matrix::from_rows(2, 2, vec![1.0, 2.5, -0.3, 4.0]));
    assert_eq!(data.names(), ["a", "b"]);
    assert_eq!((data.environments(), data.rows(0)), (1, 0..2));
    assert_eq!(data.targets(), &Matrix::full(1, 2, false));
    read("env,a\n0,1\n0,2\n", None).unwrap();
    let data = read("a,b\r\n1,2\r\n3,4", Some("a,b\n0,1\n")).unwrap();
    assert!(data.targets()[(0, 1)]);
}

#[test]
fn environments_are_gathered_in_file_order() {
    let data = read(TWO, Some("b,a\n0,0\n1,0\n")).unwrap();
    assert_eq!(data.samples(), &Matrix::from_rows(4, 2, vec![2.0, 20.0, 4.0, 40.0, 1.0, 10.0, 3.0, 30.0]));
    assert_eq!(data.offsets(), [0, 2, 4]);
    assert_eq!(data.targets(), &Matrix::from_rows(2, 2, vec![false, false, false, true]));
    let reordered = read(TWO, Some("env,a,b\n1,False,True\n0, 0.0 ,0\n")).unwrap();
    assert_eq!(reordered.targets(), data.targets());
}

#[test]
fn headers_that_cannot_be_used() {
    assert_words(read("", None), &["data.CSV: is empty", "header"]);
    assert_words(read("env\n0\n0\n", None), &["no column of samples"]);
    assert_words(read("a,b\n", None), &["no rows"]);
    assert_words(read("a,b,a\n1,2,3\n", None), &["line 1: column `a` appears twice"]);
    assert_words(read(",b\n1,2\n", None), &["line 1: column 1 has no name"]);
}

#[test]
fn cells_that_cannot_be_used() {
    assert_words(read("a,b\n1,2\n3\n", None), &["line 3: found 1 cells, expected 2"]);
    assert_words(read("a,b\n1,2,3\n", None), &["line 2: found 3 cells, expected 2"]);
    assert_words(read("a,b\n1,two\n", None), &["line 2: column `b` holds \"two\", expected a number"]);
    assert_words(read("a,b\n1,2\n , 3\n", None), &["line 3: column `a` has an empty cell"]);
    assert_words(read("a,b\n1,2\n3,nan\n", None), &["line 3: column `b` holds NaN"]);
    assert_words(read("a,b\n1,2\n-inf,1\n", None), &["line 3: column `a` holds -inf"]);
    assert_words(read("a,b\n1,1e999\n", None), &["line 2: column `b` holds inf"]);
    assert_words(read(b"a,b\n1,2\n\xff,4\n", None), &["line 3", "not UTF-8"]);
}

#[test]
fn lines_are_counted_as_an_editor_does() {
    assert_words(read("a,b\n\n\n1,x\n", None), &["line 4: column `b`"]);
    assert_words(read("a,b\r\n1,2\r\n\r\n1,x\r\n", None), &["line 4: column `b`"]);
    assert_words(read("\n\na,b\n1,2\n3,x", None), &["line 5: column `b`"]);
}

#[test]
fn environments_that_cannot_be_used() {
    for bad in ["-1", "1.5", "one", "", "99999999999999999999"] {
        let found = format!("`env` is \"{bad}\", expected an integer from 0");
        assert_words(read(format!("a,env\n1,0\n2,{bad}\n"), None), &["line 3: ", &found]);
    }
    let words = ["line 3: `env` is \"2\"", "from 0 to 1, the 2 rows of the targets"];
    assert_words(read("a,env\n1,0\n2,2\n", Some("a\n0\n1\n")), &words);
    assert_words(read(TWO, None), &["data.CSV", "up to 1", "no targets file", "when there are several"]);
    let huge = format!("a,env\n1,0\n2,{}\n", u64::MAX);
    assert_words(read(huge, None), &["no targets file"]);
    assert_words(read("a\n1\n2\n", Some("a\n0\n1\n")), &["no column `env`", "the targets have 2 rows"]);
    assert_words(
        read("a,env\n1,0\n2,0\n3,1\n", Some("a\n0\n1\n")),
        &["environment 1 has 1 row", "at least 2"],
    );
    assert_words(read("a,env\n1,0\n2,0\n", Some("a\n0\n1\n")), &["environment 1 has no rows"]);
}

#[test]
fn targets_that_cannot_be_used() {
    let fails = |targets: &str, words: &[&str]| {
        assert_words(read(TWO, Some(targets)), &[&["targets.csv"], words].concat());
    };
    fails("", &["is empty"]);
    fails("a,b\n", &["no rows, expected one row per environment"]);
    fails("a,b,c\n0,0,0\n", &["unknown column `c`", "variables `a`, `b`"]);
    fails("a,env\n0,0\n", &["no column `b`", "variables `a`, `b`"]);
    fails("a,a,b\n0,0,0\n", &["column `a` appears twice"]);
    fails("a,b\n0,0\n1\n", &["line 3: found 1 cells, expected 2"]);
    fails("a,b\n0,0\n1,2\n", &["line 3: column `b` holds \"2\", expected 0 or 1"]);
    fails("a,b\n0,\n", &["line 2: column `b` has an empty cell, expected 0 or 1"]);
    fails("a,b,env\n0,0,0\n0,1,0\n", &["line 3: environment 0 appears twice"]);
    fails("a,b,env\n0,0,0\n0,1,2\n", &["line 3: `env` is 2, expected 0 to 1"]);
    fails("a,b,env\n0,0,x\n", &["line 2: `env` is \"x\""]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.csv");
    std::fs::write(&path, TWO).unwrap();
    let missing = folder.path().join("missing.csv");
    assert_words(Dataset::read_with_targets(&path, &missing), &["cannot read", "missing.csv"]);
}

#[test]
fn a_header_of_numbers_is_a_missing_one() {
    assert_words(read("0.5,1.5\n1,2\n3,4\n", None), &["line 1", "the numbers `0.5`, `1.5`", "header"]);
    assert_words(read("\n\n-1e3,2,3,nan\n1,2,3,4\n", None), &["line 3", "`-1e3`, `2`, `3`, …"]);
    assert_words(read("\u{feff}1,2\n1,2\n3,4\n", None), &["line 1", "the numbers `1`"]);
    // A name that is a number is none among others that are not.
    assert_eq!(read("x,2\n1,2\n3,4\n", None).unwrap().names(), ["x", "2"]);
}

#[test]
fn environments_are_found_however_their_column_is_written() {
    let expected = read(TWO, Some("a,b\n0,0\n0,1\n")).unwrap();
    for env in ["Env", "ENV", " env ", "\"env\"", "\" Env \""] {
        for before in ["", "\u{feff}"] {
            let data = format!("{before}{}", TWO.replace("env", env));
            let targets = format!("{before}{env},a,b\n1,0,1\n0,0,0\n");
            let found = read(data, Some(&targets)).unwrap();
            assert_eq!((found.names(), found.offsets()), (expected.names(), expected.offsets()), "{env}");
            assert_eq!((found.samples(), found.targets()), (expected.samples(), expected.targets()), "{env}");
        }
    }
    assert_eq!(read("\u{feff}env,a\n0,1\n0,2\n", None).unwrap().names(), ["a"]);
    for like in ["environment", "Environments", "env_id", " \"env\"", "env\u{200b}", "'env'"] {
        assert_words(read(TWO.replace("env", like), None), &["line 1", "expected `env` if it says"]);
    }
    assert_words(read("env,a,Env\n0,1,0\n0,2,0\n", None), &["`env` and `Env`", "expected one"]);
}

/// Rows that are no numbers are not looked at: the header is enough.
#[test]
fn what_is_too_wide_or_too_long_is_refused_before_it_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wide.csv");
    let limits = SizeLimits { variables: 5000, bytes: 1 << 20 };
    let within = |text: &str| {
        std::fs::write(&path, text).unwrap();
        Dataset::read_within(&path, None, &limits)
    };
    let header: Vec<String> = (0..100_000).map(|j| format!("x{j}")).collect();
    assert_words(
        within(&(header.join(",") + "\nno numbers\n")),
        &["line 1: found 100000 columns", "at most 5000"],
    );
    assert_words(
        within(&(header[..5001].join(",") + "\nno numbers\n")),
        &["line 1: has 5001 variables", "at most 5000"],
    );
    assert_words(
        within(&"x".repeat(5 << 20)),
        &["line 1: found more than 4194304 bytes", "the end of a header"],
    );
    assert_words(
        within(&format!("a,b\n1,2\n{}", ",".repeat(1 << 20))),
        &["line 3: found more than", "the end of a row"],
    );
    assert_words(within(&("a\n".to_owned() + &"1\n".repeat(200_000))), &["line 131074: has 131073 samples"]);
    assert_eq!(super::super::width_of_csv(&path).unwrap(), 1);
}
