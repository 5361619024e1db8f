use super::*;
use std::fs::File;
use std::io::Write;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

type Writer = ZipWriter<File>;

/// Writes an archive and reads it back.
fn read(write: impl FnOnce(&mut Writer)) -> Result<Dataset> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.npz");
    let mut writer = ZipWriter::new(File::create(&path).unwrap());
    write(&mut writer);
    writer.finish().unwrap();
    Dataset::read(&path)
}

/// A number as numpy stores it.
trait Entry: Copy {
    const DESCR: &'static str;
    fn bytes(self) -> Vec<u8>;
}

macro_rules! impl_entry {
    ($($number:ty: $descr:literal),+) => {
        $(impl Entry for $number {
            const DESCR: &'static str = $descr;
            fn bytes(self) -> Vec<u8> {
                self.to_le_bytes().to_vec()
            }
        })+
    };
}
impl_entry!(f32: "'<f4'", f64: "'<f8'", u8: "'|u1'", i16: "'<i2'", i32: "'<i4'", i64: "'<i8'", u64: "'<u8'");

impl Entry for bool {
    const DESCR: &'static str = "'|b1'";
    fn bytes(self) -> Vec<u8> {
        vec![u8::from(self)]
    }
}

#[derive(Clone, Copy)]
enum Order {
    C,
    Fortran,
}

fn put<T: Entry>(writer: &mut Writer, name: &str, shape: &[u64], values: &[T]) {
    put_ordered(writer, name, shape, values, Order::C);
}

fn put_ordered<T: Entry>(writer: &mut Writer, name: &str, shape: &[u64], values: &[T], order: Order) {
    let order = if matches!(order, Order::Fortran) { "True" } else { "False" };
    let shape: String = shape.iter().map(|n| format!("{n}, ")).collect();
    let header = format!("{{'descr': {}, 'fortran_order': {order}, 'shape': ({shape}), }}\n", T::DESCR);
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.bytes()).collect();
    put_raw(writer, name, &header, &bytes);
}

/// Strings of five characters: "<U5", ">U5" or "|S5".
fn put_text(writer: &mut Writer, name: &str, dtype: &str, values: &[&str]) {
    let mut bytes = Vec::new();
    for value in values {
        let mut text: Vec<char> = value.chars().collect();
        text.resize(5, '\0');
        for c in text.into_iter().map(|c| c as u32) {
            match dtype {
                "<U5" => bytes.extend(c.to_le_bytes()),
                ">U5" => bytes.extend(c.to_be_bytes()),
                _ => bytes.push(u8::try_from(c).unwrap()),
            }
        }
    }
    put_shape(writer, name, &format!("'{dtype}'"), &format!("({},)", values.len()), &bytes);
}

/// An array with any header text and any bytes after it.
fn put_raw(writer: &mut Writer, name: &str, header: &str, bytes: &[u8]) {
    let zip = writer;
    zip.start_file(format!("{name}.npy"), SimpleFileOptions::default()).unwrap();
    zip.write_all(b"\x93NUMPY\x01\x00").unwrap();
    zip.write_all(&(header.len() as u16).to_le_bytes()).unwrap();
    zip.write_all(header.as_bytes()).unwrap();
    zip.write_all(bytes).unwrap();
}

fn put_shape(writer: &mut Writer, name: &str, descr: &str, shape: &str, bytes: &[u8]) {
    let header = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n");
    put_raw(writer, name, &header, bytes);
}

const X: [f64; 8] = [1.0, 10.0, 2.0, 20.0, 3.0, 30.0, 4.0, 40.0];

fn put_x(writer: &mut Writer) {
    put(writer, "x", &[4, 2], &X);
}

#[test]
fn x_alone_is_one_environment() {
    let data = read(put_x).unwrap();
    assert_eq!(data.samples(), &Matrix::from_rows(4, 2, X.to_vec()));
    assert_eq!((data.environments(), data.offsets()), (1, &[0, 4][..]));
    assert_eq!(data.names(), ["x0", "x1"]);
    assert_eq!(data.targets(), &Matrix::full(1, 2, false));
}

#[test]
fn precisions_orders_and_endianness() {
    let expected = Matrix::from_rows(4, 2, X.to_vec());
    let single = X.map(|v| v as f32);
    assert_eq!(read(|w| put(w, "x", &[4, 2], &single)).unwrap().samples(), &expected);
    let columns = [1.0, 2.0, 3.0, 4.0, 10.0, 20.0, 30.0, 40.0];
    let data = read(|w| put_ordered(w, "x", &[4, 2], &columns, Order::Fortran)).unwrap();
    assert_eq!(data.samples(), &expected);
    let bytes: Vec<u8> = X.iter().flat_map(|v| v.to_be_bytes()).collect();
    assert_eq!(read(|w| put_shape(w, "x", "'>f8'", "(4, 2)", &bytes)).unwrap().samples(), &expected);
    let bytes: Vec<u8> = single.iter().flat_map(|v| v.to_be_bytes()).collect();
    assert_eq!(read(|w| put_shape(w, "x", "'>f4'", "(4, 2)", &bytes)).unwrap().samples(), &expected);
    // More than one chunk of entries.
    let long: Vec<f64> = (0..60_000).map(f64::from).collect();
    let data = read(|w| put(w, "x", &[20_000, 3], &long)).unwrap();
    assert_eq!(data.samples().as_slice(), long);
}

#[test]
fn environments_are_gathered_in_file_order() {
    fn check<E: Entry, T: Entry>(env: [E; 4], targets: [T; 4]) {
        let data = read(|w| {
            put(w, "targets", &[2, 2], &targets);
            put(w, "env", &[4], &env);
            put(w, "ignored", &[1], &[1.0]);
            put_x(w);
        })
        .unwrap();
        assert_eq!(data.samples().as_slice(), [2.0, 20.0, 4.0, 40.0, 1.0, 10.0, 3.0, 30.0]);
        assert_eq!(data.rows(1), 2..4);
        assert_eq!(data.targets(), &Matrix::from_rows(2, 2, vec![false, false, false, true]));
    }
    check([1_i64, 0, 1, 0], [false, false, false, true]);
    check([1_u8, 0, 1, 0], [0_i32, 0, 0, 1]);
    check([1_i16, 0, 1, 0], [0.0_f32, 0.0, 0.0, 1.0]);
    check([1_u64, 0, 1, 0], [0.0_f64, -0.0, 0.0, 1.0]);
    let data = read(|w| {
        put_ordered(w, "targets", &[2, 2], &[false, true, false, false], Order::Fortran);
        put(w, "env", &[4], &[0, 0, 1, 1]);
        put_x(w);
    });
    assert!(data.unwrap().targets()[(1, 0)]);
}

#[test]
fn names_of_either_kind() {
    for dtype in ["<U5", ">U5", "|S5"] {
        let data = read(|w| {
            put_x(w);
            put_text(w, "names", dtype, &["raf", "mek12"]);
        });
        assert_eq!(data.unwrap().names(), ["raf", "mek12"]);
    }
    let fails = |names: &[&str], words: &[&str]| {
        let data = read(|w| {
            put_x(w);
            put_text(w, "names", "<U5", names);
        });
        assert_words(data, words);
    };
    fails(&["a"], &["`names` has shape [1], expected [2]"]);
    fails(&["a", "a"], &["`names`", "`a` appears twice"]);
    fails(&["a", ""], &["`names`", "variable 1 is empty"]);
    let numbers = |w: &mut Writer| put(w, "names", &[2], &[1, 2]);
    assert_words(read(|w| (put_x(w), numbers(w)).1), &["`names` has dtype <i4, expected strings"]);
    let huge = |w: &mut Writer| put_shape(w, "names", "'<U9999999999999'", "(2,)", &[]);
    assert_words(read(|w| (put_x(w), huge(w)).1), &["`names` has dtype <U9999999999999"]);
    let surrogate = |w: &mut Writer| put_shape(w, "names", "'<U1'", "(2,)", &[0, 0xd8, 0, 0, 65, 0, 0, 0]);
    assert_words(read(|w| (put_x(w), surrogate(w)).1), &["`names` holds invalid text at 0"]);
}

#[test]
fn archives_without_a_usable_x() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.npz");
    std::fs::write(&path, "a,b\n1,2\n").unwrap();
    assert_words(Dataset::read(&path), &["data.npz: is not an .npz file", "zip"]);
    assert_words(read(|w| put(w, "y", &[1], &[1.0])), &["no array `x`, found `y`"]);
    assert_words(
        read(|w| put(w, "x", &[2, 2], &[1; 4])),
        &["`x` has dtype <i4, expected float32 or float64"],
    );
    assert_words(read(|w| put(w, "x", &[4], &[1.0; 4])), &["`x` has shape [4], expected [rows, variables]"]);
    assert_words(read(|w| put::<f64>(w, "x", &[0, 2], &[])), &["shape [0, 2], expected at least one row"]);
    assert_words(read(|w| put::<f64>(w, "x", &[2, 0], &[])), &["shape [2, 0]", "one column"]);
    assert_words(read(|w| put(w, "x", &[1, 2], &[1.0; 2])), &["environment 0 has 1 row"]);
    for (at, value) in [(5, f64::NAN), (0, f64::INFINITY)] {
        let mut spoilt = X;
        spoilt[at] = value;
        let found = format!("`x` holds {value} at row {}, column `x{}`", at / 2, at % 2);
        assert_words(read(|w| put(w, "x", &[4, 2], &spoilt)), &[&found]);
    }
    let columns = [1.0, 2.0, 3.0, 4.0, 5.0, f64::NAN, 7.0, 8.0];
    let data = read(|w| put_ordered(w, "x", &[4, 2], &columns, Order::Fortran));
    assert_words(data, &["row 1, column `x1`"]);
}

#[test]
fn hostile_headers() {
    let fails = |descr: &str, shape: &str, bytes: &[u8], words: &[&str]| {
        assert_words(read(|w| put_shape(w, "x", descr, shape, bytes)), words);
    };
    fails("'<f8'", "(4, 2)", &[0; 60], &["`x` holds 60 bytes, expected 64", "[4, 2]"]);
    fails("'<f8'", "(1000000000000, 2)", &[0; 16], &["holds 16 bytes, expected 16000000000000"]);
    fails("'<f8'", "(4294967296, 4294967296)", &[0; 16], &["expected more than 2^64"]);
    fails("'<f8'", "(99999999999999999999, 2)", &[0; 16], &["has the header"]);
    fails("'<f8'", "(-1, 2)", &[], &["has the header"]);
    fails("'|O'", "(4, 2)", &[0; 64], &["dtype |O, expected float32"]);
    fails("'<f2'", "(4, 2)", &[0; 16], &["dtype <f2, expected float32"]);
    fails(
        "[('a', '<f8'), ('b', '<f8')]",
        "(4, 2)",
        &[0; 128],
        &["dtype [('a', '<f8'), ('b', '<f8')], expected"],
    );
    fails("''", "()", &[], &["`x` has dtype , expected"]);
    assert_words(read(|w| put_raw(w, "x", &"[".repeat(60_000), &[])), &["has the header"]);
    assert_words(read(|w| put_raw(w, "x", "{'descr': '<f8'}", &[])), &["expected `descr`, `fortran_order`"]);
    let bytes = |bytes: &'static [u8]| {
        move |w: &mut Writer| {
            w.start_file("x.npy", SimpleFileOptions::default()).unwrap();
            w.write_all(bytes).unwrap();
        }
    };
    assert_words(read(bytes(b"\x93NUM")), &["`x` is cut short"]);
    assert_words(read(bytes(b"no array at all")), &["does not begin like an .npy array"]);
    assert_words(read(bytes(b"\x93NUMPY\x09\x00\x00\x00")), &["format version 9"]);
    assert_words(read(bytes(b"\x93NUMPY\x02\x00\xff\xff\xff\xff")), &["header of 4294967295 bytes"]);
}

#[test]
fn environments_that_cannot_be_used() {
    fn env<T: Entry>(shape: &[u64], values: &[T], targets: Option<u64>) -> Result<Dataset> {
        read(|w| {
            put_x(w);
            put(w, "env", shape, values);
            if let Some(rows) = targets {
                put(w, "targets", &[rows, 2], &vec![false; 2 * rows as usize]);
            }
        })
    }
    assert_words(env(&[3], &[0, 0, 0], None), &["`env` has shape [3], expected [4]"]);
    assert_words(env(&[4, 1], &[0; 4], None), &["`env` has shape [4, 1], expected [4]"]);
    assert_words(env(&[4], &[0.0; 4], None), &["`env` has dtype <f8, expected integers"]);
    assert_words(env(&[4], &[0, 0, -1, 0], None), &["`env` holds -1 at row 2, expected integers from 0"]);
    assert_words(env(&[4], &[0, 0, -1, 0], Some(2)), &["`env` holds -1 at row 2, expected 0 to 1"]);
    assert_words(env(&[4], &[0, 1, 2, 0], Some(2)), &["`env` holds 2 at row 2, expected 0 to 1"]);
    let words = ["up to 1 but there is no array `targets`", "when there are several"];
    assert_words(env(&[4], &[0, 1, 1, 0], None), &words);
    assert_words(env(&[4], &[0, u64::MAX, 1, 0], None), &["no array `targets`"]);
    assert_words(env(&[4], &[0, 0, 0, 1], Some(2)), &["environment 1 has 1 row, expected at least 2"]);
    assert_words(env(&[4], &[0, 0, 2, 2], Some(3)), &["environment 1 has no rows"]);
    env(&[4], &[0; 4], None).unwrap();
}

#[test]
fn targets_that_cannot_be_used() {
    fn targets<T: Entry>(shape: &[u64], values: &[T]) -> Result<Dataset> {
        read(|w| {
            put_x(w);
            put(w, "targets", shape, values);
        })
    }
    targets(&[1, 2], &[0, 1]).unwrap();
    assert_words(targets(&[1, 3], &[0; 3]), &["`targets` has shape [1, 3], expected [environments, 2]"]);
    assert_words(targets(&[2], &[0; 2]), &["`targets` has shape [2]"]);
    assert_words(targets::<i32>(&[0, 2], &[]), &["`targets` has shape [0, 2]"]);
    assert_words(targets(&[1, 2], &[0, 2]), &["`targets` holds 2 at [0, 1], expected 0 or 1"]);
    assert_words(targets(&[1, 2], &[0.5, 1.0]), &["`targets` holds 0.5 at [0, 0]"]);
    assert_words(targets(&[1, 2], &[f64::NAN, 1.0]), &["`targets` holds NaN"]);
    assert_words(targets(&[2, 2], &[0; 4]), &["`targets` has 2 rows but there is no array `env`"]);
    let strings = |w: &mut Writer| put_text(w, "targets", "<U1", &["0", "1"]);
    assert_words(read(|w| (put_x(w), strings(w)).1), &["`targets` has dtype <U1, expected bool"]);
}

#[test]
fn damaged_archives_never_panic() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.npz");
    let mut writer = ZipWriter::new(File::create(&path).unwrap());
    put_x(&mut writer);
    put(&mut writer, "env", &[4], &[0_u8, 1, 0, 1]);
    put(&mut writer, "targets", &[2, 2], &[false; 4]);
    put_text(&mut writer, "names", "<U5", &["a", "b"]);
    writer.finish().unwrap();
    Dataset::read(&path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    for at in 0..bytes.len() {
        std::fs::write(&path, &bytes[..at]).unwrap();
        Dataset::read(&path).unwrap_err();
        for value in [0, b'9', 0xff] {
            let mut changed = bytes.clone();
            changed[at] = value;
            std::fs::write(&path, &changed).unwrap();
            let _ = Dataset::read(&path);
        }
    }
}

#[test]
fn what_is_too_large_is_refused_before_it_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.npz");
    let within = |variables: usize, bytes: u64, write: &dyn Fn(&mut Writer)| {
        let mut writer = ZipWriter::new(File::create(&path).unwrap());
        write(&mut writer);
        writer.finish().unwrap();
        Dataset::read_within(&path, None, &SizeLimits { variables, bytes })
    };
    // Numbers that would be refused, were they read.
    let nans = |w: &mut Writer| put(w, "x", &[3, 2], &[f64::NAN; 6]);
    assert_words(within(1, 1000, &nans), &["has 2 variables, expected at most 1"]);
    assert_words(within(2, 47, &nans), &["has 3 samples of 16 bytes, expected at most 47 bytes"]);
    assert_words(within(2, 48, &nans), &["holds NaN"]);
    let long = |w: &mut Writer| {
        put(w, "x", &[3, 2], &[1.0; 6]);
        put_text(w, "names", "<U3000", &[]);
    };
    assert!(within(2, 48, &long).is_err());
    // A capital letter does not make an array another one.
    let capital = |name: &'static str| {
        move |w: &mut Writer| {
            put_x(w);
            put(w, name, &[4], &[0i64, 0, 1, 1]);
        }
    };
    assert_words(within(9, 1 << 20, &capital("Env")), &["has the array `Env`, expected `env`"]);
    assert_words(within(9, 1 << 20, &capital("Names")), &["has the array `Names`, expected `names`"]);
}

#[test]
fn archives_of_many_entries_are_refused_by_their_list() {
    let entries = |count: usize| {
        read(|w| {
            put_x(w);
            for k in 0..count {
                w.start_file(format!("{k}.npy"), SimpleFileOptions::default()).unwrap();
            }
        })
    };
    entries(1000).unwrap();
    assert_words(entries(30_000), &["a list of more than 1048576 bytes"]);
}
