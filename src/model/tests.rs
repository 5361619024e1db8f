use super::*;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use safetensors::tensor::{Dtype, TensorView};

fn ramp(count: usize, start: f64) -> Vec<f64> {
    (0..count).map(|k| start + 0.125 * k as f64).collect()
}

fn linear() -> Parameters<f64> {
    Parameters {
        drift: Drift::linear(Matrix::from_rows(3, 3, ramp(9, -1.0))),
        biases: ramp(3, 2.0),
        noise: Noise::Diagonal { log_noise: ramp(3, -0.5) },
        shift: Some(Matrix::from_rows(2, 3, ramp(6, 0.0))),
        log_scale: None,
    }
}

fn mlp(activation: Activation) -> Parameters<f64> {
    Parameters {
        drift: Drift::Mlp(MlpDrift {
            activation,
            hidden_weights: Matrix::from_rows(6, 3, ramp(18, -1.0)),
            hidden_biases: Matrix::from_rows(3, 2, ramp(6, 4.0)),
            output_weights: Matrix::from_rows(3, 2, ramp(6, 5.0)),
        }),
        biases: ramp(3, 2.0),
        noise: Noise::Full { noise: Matrix::from_rows(3, 3, ramp(9, 1.0)) },
        shift: Some(Matrix::from_rows(2, 3, ramp(6, 0.0))),
        log_scale: Some(Matrix::from_rows(2, 3, ramp(6, -1.0))),
    }
}

/// The tensors of a valid linear file, to be spoilt by a test: name, type, shape, bytes.
struct Draft {
    tensors: Vec<(String, Dtype, Vec<usize>, Vec<u8>)>,
    metadata: HashMap<String, String>,
}

impl Draft {
    fn linear() -> Self {
        let mut draft = Draft { tensors: Vec::new(), metadata: HashMap::new() };
        draft.set("weights", &[2, 2]).set("biases", &[2]).set("log_noise", &[2]);
        draft
    }

    fn mlp() -> Self {
        let mut draft = Draft::linear();
        draft.remove("weights");
        draft.set("hidden_weights", &[2, 3, 2]).set("hidden_biases", &[2, 3]).set("output_weights", &[2, 3]);
        draft
    }

    fn remove(&mut self, name: &str) -> &mut Self {
        self.tensors.retain(|tensor| tensor.0 != name);
        self
    }

    fn set(&mut self, name: &str, shape: &[usize]) -> &mut Self {
        self.set_values(name, shape, &ramp(shape.iter().product(), 0.5))
    }

    fn set_values(&mut self, name: &str, shape: &[usize], values: &[f64]) -> &mut Self {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.set_bytes(name, Dtype::F64, shape, bytes)
    }

    fn set_bytes(&mut self, name: &str, dtype: Dtype, shape: &[usize], bytes: Vec<u8>) -> &mut Self {
        self.remove(name).tensors.push((name.into(), dtype, shape.to_vec(), bytes));
        self
    }

    fn meta(&mut self, key: &str, value: &str) -> &mut Self {
        self.metadata.insert(key.into(), value.into());
        self
    }

    fn read(&self) -> Result<Parameters<f64>> {
        let views = self.tensors.iter().map(|(name, dtype, shape, bytes)| {
            (name, TensorView::new(*dtype, shape.clone(), bytes).unwrap())
        });
        read_bytes(&safetensors::serialize(views, Some(self.metadata.clone())).unwrap())
    }

    #[track_caller]
    fn fails(&self, words: &[&str]) {
        assert_words(&self.read().unwrap_err(), words);
    }
}

#[track_caller]
fn assert_words(error: &Error, words: &[&str]) {
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "no `{word}` in: {text}");
    }
    assert!(!text.contains('\n'), "more than one line: {text}");
}

fn read_bytes(bytes: &[u8]) -> Result<Parameters<f64>> {
    let (_folder, path) = place();
    std::fs::write(&path, bytes).unwrap();
    Parameters::read(&path)
}

fn place() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    (folder, path)
}

#[test]
fn f64_round_trips_exactly() {
    for parameters in [linear(), mlp(Activation::Sigmoid), mlp(Activation::Tanh), mlp(Activation::Relu)] {
        let (_folder, path) = place();
        parameters.write(&path).unwrap();
        assert_eq!(Parameters::read(&path).unwrap(), parameters);
    }
}

#[test]
fn f32_is_written_as_f32() {
    let (_folder, path) = place();
    let parameters = mlp(Activation::Tanh).cast::<f32>();
    parameters.write(&path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(file.tensor("biases").unwrap().dtype(), Dtype::F32);
    assert_eq!(Parameters::read(&path).unwrap().cast::<f32>(), parameters);
}

#[test]
fn bytes_are_the_same_every_time_and_sorted() {
    let (_folder, path) = place();
    mlp(Activation::Relu).write(&path).unwrap();
    let first = std::fs::read(&path).unwrap();
    let header = String::from_utf8_lossy(&first[8..]).into_owned();
    assert!(header.starts_with(r#"{"__metadata__":{"activation":"relu","checksum":""#), "{header}");
    assert!(header.contains(r#"","model":"mlp"},"biases":{"dtype":"F64""#), "{header}");
    // Every HashMap has its own order: were one in use, twenty writes would hardly agree.
    for _ in 0..20 {
        mlp(Activation::Relu).write(&path).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), first);
    }
    safetensors::SafeTensors::deserialize(&first).unwrap();
}

#[test]
fn metadata_is_optional() {
    assert!(Draft::linear().read().unwrap().drift.is_linear());
    let drift = Draft::mlp().read().unwrap().drift;
    assert!(matches!(drift, Drift::Mlp(MlpDrift { activation: Activation::Sigmoid, .. })));
}

#[test]
fn activations_have_names() {
    for activation in Activation::ALL {
        assert_eq!(activation.to_string().parse::<Activation>().unwrap(), *activation);
    }
    assert_words(&"gelu".parse::<Activation>().unwrap_err(), &["'gelu'", "sigmoid, tanh, relu"]);
    Draft::mlp().meta("activation", "gelu").fails(&["model.safetensors: ", "'gelu'", "sigmoid, tanh, relu"]);
}

#[test]
fn files_that_are_no_models() {
    let missing = Parameters::read(Path::new("no/such/model.safetensors")).unwrap_err();
    assert_words(&missing, &["cannot read no/such/model.safetensors"]);
    let folder = tempfile::tempdir().unwrap();
    assert_words(&Parameters::read(folder.path()).unwrap_err(), &["cannot read", "directory"]);
    let not = "is not a safetensors file";
    assert_words(&read_bytes(b"").unwrap_err(), &[not, "found 0 bytes"]);
    assert_words(&read_bytes(b"a,b\n1,2\n3,4\n").unwrap_err(), &[not, "expected a header of"]);
    assert_words(&read_bytes(b"\x02\0\0\0\0\0\0\0[]").unwrap_err(), &[not, "does not describe tensors"]);
    let mut bytes = b"\x40\0\0\0\0\0\0\0".to_vec();
    bytes.extend_from_slice(br#"{"biases":{"dtype":"F64","shape":[2],"data_offsets":[0,16]}}    "#);
    bytes.extend_from_slice(&[0; 8]);
    assert_words(&read_bytes(&bytes).unwrap_err(), &[not, "found 8 bytes of data, expected 16"]);
}

#[test]
fn offsets_that_overflow_are_refused() {
    // Each size is legal by itself; their sum is one short of 2^64.
    let step = 1_u64 << 61;
    let mut entries = Vec::new();
    for k in 0..8_u64 {
        let (length, end) = if k == 7 { (step - 1, u64::MAX) } else { (step, (k + 1) * step) };
        entries.push(format!(
            r#""t{k}":{{"dtype":"U8","shape":[{length}],"data_offsets":[{},{end}]}}"#,
            k * step
        ));
    }
    let header = format!("{{{}}}", entries.join(","));
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    assert_words(&read_bytes(&bytes).unwrap_err(), &["is not a safetensors file"]);
}

#[test]
fn missing_and_unknown_tensors() {
    Draft::linear().remove("biases").fails(&["no tensor `biases`", "found `log_noise`, `weights`"]);
    Draft::mlp().remove("output_weights").fails(&["no tensor `output_weights`"]);
    Draft::linear().set("extra", &[2]).fails(&["unknown tensor `extra`", "`weights`", "`log_scale`"]);
    Draft::linear().set("noise", &[2, 2]).fails(&["both `log_noise` and `noise`"]);
    Draft::linear().remove("log_noise").fails(&["neither `log_noise` nor `noise`"]);
    Draft::linear().remove("weights").fails(&["no drift", "`weights` (linear)", "`hidden_weights`"]);
    Draft::mlp().set("weights", &[2, 2]).fails(&["both `weights` (linear) and `hidden_weights` (mlp)"]);
}

#[test]
fn metadata_that_contradicts_the_tensors() {
    Draft::linear().meta("model", "mlp").fails(&["model = mlp", "`weights`", "expected `hidden_weights`"]);
    Draft::mlp().meta("model", "linear").fails(&["model = linear", "`hidden_weights`", "expected `weights`"]);
    Draft::linear().meta("model", "gp").fails(&["model = gp", "expected linear, mlp"]);
    Draft::linear().remove("weights").meta("model", "linear").fails(&["no tensor `weights`"]);
}

#[test]
fn wrong_types_and_shapes() {
    Draft::linear().set_bytes("biases", Dtype::I64, &[2], vec![0; 16]).fails(&[
        "`biases`",
        "dtype I64",
        "expected F32 or F64",
    ]);
    Draft::linear().set("weights", &[2, 3]).fails(&["`weights` has shape [2, 3], expected [2, 2]"]);
    Draft::linear().set("log_noise", &[3]).fails(&["`log_noise` has shape [3], expected [2]"]);
    Draft::linear().set("biases", &[2, 1]).fails(&["`biases` has shape [2, 1], expected [variables]"]);
    Draft::linear().set("biases", &[0]).fails(&["`biases` has shape [0]", "at least one variable"]);
    Draft::linear().set("shift", &[4, 3]).fails(&["`shift` has shape [4, 3], expected [environments, 2]"]);
    Draft::linear().set("shift", &[0, 2]).fails(&["`shift` has shape [0, 2]"]);
    Draft::linear()
        .set("shift", &[4, 2])
        .set("log_scale", &[3, 2])
        .fails(&["`log_scale` has shape [3, 2], expected [4, 2] like `shift`"]);
    Draft::mlp()
        .set("hidden_biases", &[2, 0])
        .fails(&["`hidden_biases` has shape [2, 0]", "at least one unit"]);
    Draft::mlp().set("hidden_weights", &[2, 2, 3]).fails(&["has shape [2, 2, 3], expected [2, 3, 2]"]);
}

#[test]
fn numbers_that_are_not_finite() {
    Draft::linear()
        .set_values("weights", &[2, 2], &[1.0, 2.0, f64::NAN, 3.0])
        .fails(&["weights[1,0] is NaN"]);
    let mut values = ramp(12, 0.0);
    values[9] = f64::INFINITY;
    Draft::mlp().set_values("hidden_weights", &[2, 3, 2], &values).fails(&["hidden_weights[1,1,1] is inf"]);
    let bytes = [1.0, f32::NEG_INFINITY].iter().flat_map(|v| v.to_le_bytes()).collect();
    Draft::linear().set_bytes("biases", Dtype::F32, &[2], bytes).fails(&["biases[1] is -inf"]);
}

#[test]
fn damaged_files_never_panic() {
    let (_folder, path) = place();
    mlp(Activation::Sigmoid).write(&path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    for at in 0..bytes.len() {
        let _ = read_bytes(&bytes[..at]).unwrap_err();
        for value in [0, b'9', 0xff] {
            let mut changed = bytes.clone();
            changed[at] = value;
            let _ = read_bytes(&changed);
        }
    }
}

#[test]
fn fits_the_data_it_was_made_for() {
    mlp(Activation::Tanh).check_fits(3, 2).unwrap();
    assert_words(&linear().check_fits(4, 2).unwrap_err(), &["3 variables, expected 4"]);
    assert_words(&linear().check_fits(3, 5).unwrap_err(), &["`shift` has shape [2, 3], expected [5, 3]"]);
    let mut inconsistent = linear();
    inconsistent.noise = Noise::Diagonal { log_noise: vec![0.0] };
    let words = ["`log_noise` has 1 entries, expected the shape [3]"];
    assert_words(&inconsistent.check_fits(3, 2).unwrap_err(), &words);
    assert_words(&inconsistent.write(Path::new("never-written")).unwrap_err(), &words);
}

/// A file of empty lists is a few bytes for each of them, and many more in memory.
#[test]
fn headers_are_bounded_before_they_are_taken_apart() {
    let lists = "[],".repeat(6_000_000);
    let header = format!(r#"{{"__metadata__":{{"targets":"[{lists}[]]"}}}}"#);
    let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat();
    assert_words(&read_bytes(&bytes).unwrap_err(), &["found a header of 18000", "expected at most 16777216"]);
    let mut model = Model::new(linear());
    model.settings.insert("words".into(), "x".repeat(17 << 20).into());
    let (_folder, path) = place();
    assert_words(&model.save(&path).unwrap_err(), &["would have a header of", "expected at most 16777216"]);
    assert!(!path.exists());
}
