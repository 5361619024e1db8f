//! Damage to safetensors files that are such files afterwards: the header's length fits again, mostly.

use crate::bytes::{self, WHOLE, below, pick};
use crate::json;
use rand::{Rng, RngExt};
use serde_json::Value;

const WORDS: [&str; 30] = [
    "__metadata__",
    "model",
    "linear",
    "mlp",
    "basis",
    "activation",
    "tanh",
    "names",
    "targets",
    "standardization",
    "settings",
    "intervals",
    "steps",
    "log",
    "data",
    "weights",
    "biases",
    "log_noise",
    "noise",
    "shift",
    "log_scale",
    "hidden_weights",
    "coefficients",
    "amounts",
    "low.weights",
    "parameters.biases",
    "shape",
    "dtype",
    "F32",
    "F64",
];

fn parts(file: &[u8]) -> Option<(Value, &[u8])> {
    let (length, rest) = file.split_first_chunk::<8>()?;
    let (header, data) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    Some((serde_json::from_slice(header).ok()?, data))
}

/// The bytes that the header speaks of.
fn length(header: &Value) -> usize {
    let end = |tensor: &Value| tensor["data_offsets"][1].as_u64();
    let ends = header.as_object().into_iter().flatten().filter_map(|(_, tensor)| end(tensor));
    ends.max().unwrap_or(0).min(bytes::MOST as u64) as usize
}

/// Gives tensors the bytes that their shapes need, one after the other.
fn lay_out(header: &mut Value) {
    let mut end = 0u64;
    for (name, tensor) in header.as_object_mut().into_iter().flatten() {
        if name == "__metadata__" {
            continue;
        }
        let size = if tensor["dtype"] == "F32" { 4 } else { 8 };
        let shape = tensor["shape"].as_array().cloned().unwrap_or_default();
        let count = shape.iter().filter_map(Value::as_u64).fold(1u64, u64::saturating_mul);
        let start = end;
        end = end.saturating_add(count.saturating_mul(size));
        if let Some(tensor) = tensor.as_object_mut() {
            tensor.insert("data_offsets".into(), serde_json::json!([start, end]));
        }
    }
}

/// Changes a file in one way.
pub fn mutate(rng: &mut impl Rng, input: &mut Vec<u8>, other: &[u8]) {
    let Some((mut header, data)) = parts(input) else { return bytes::mutate(rng, input, other) };
    let mut data = data.to_vec();
    match below(rng, 10) {
        0 => return bytes::mutate(rng, input, other),
        1 => {
            let number = *pick(rng, &[&f64::NAN, &f64::INFINITY, &1e308, &-1e30, &5e-324, &0.0, &1e3]);
            if data.len() >= 8 {
                let at = 8 * below(rng, data.len() / 8);
                data[at..at + 8].copy_from_slice(&number.to_le_bytes());
            }
        }
        2 => bytes::mutate(rng, &mut data, &[]),
        3 | 4 => {
            // Another shape, and a file that has it.
            let names: Vec<String> =
                header.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
            let name = names.get(below(rng, names.len())).map_or("", String::as_str);
            let shape: Vec<u64> = (0..below(rng, 4)).map(|_| [0, 1, 2, 3, 5, 40][below(rng, 6)]).collect();
            if name != "__metadata__" && header.get(name).is_some_and(Value::is_object) {
                header[name]["shape"] = shape.into();
            }
            lay_out(&mut header);
        }
        5 => {
            // Without what would tell that the values are others.
            if let Some(map) = header.get_mut("__metadata__").and_then(Value::as_object_mut) {
                map.retain(|key, _| !["sum", "sha", "hash"].iter().any(|word| key.contains(word)));
            }
        }
        6 => {
            if let Some(map) = header.get_mut("__metadata__").and_then(Value::as_object_mut)
                && !map.is_empty()
            {
                let key = map.keys().nth(below(rng, map.len())).cloned().unwrap_or_default();
                let mut text = map[&key].as_str().unwrap_or("").as_bytes().to_vec();
                crate::text::mutate(rng, &mut text, &[], &WORDS);
                map[&key] = String::from_utf8_lossy(&text).into();
            }
        }
        _ => json::mutate(rng, &mut header, &WORDS),
    }
    if rng.random_bool(0.8) {
        data.resize(length(&header), 0);
    }
    let text = json::text(rng, &header);
    let mut length = text.len() as u64;
    if rng.random_bool(0.03) {
        length = WHOLE[below(rng, WHOLE.len())];
    }
    *input = [&length.to_le_bytes()[..], text.as_bytes(), &data].concat();
    input.truncate(4 * bytes::MOST);
}
