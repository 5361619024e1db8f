//! Damage to JSON that is JSON afterwards: other values in the right places, and the right values in others.

use crate::bytes::{below, pick};
use rand::{Rng, RngExt};
use serde_json::{Value, json};

/// Deeper than this no parser goes.
const DEEP: usize = 200;

/// Every place in a value, as a path of keys and numbers.
fn places(value: &Value, path: &mut Vec<String>, all: &mut Vec<Vec<String>>) {
    all.push(path.clone());
    let mut inside = |key: String, value: &Value| {
        path.push(key);
        places(value, path, all);
        path.pop();
    };
    match value {
        Value::Array(list) => list.iter().enumerate().for_each(|(k, value)| inside(k.to_string(), value)),
        Value::Object(map) => map.iter().for_each(|(key, value)| inside(key.clone(), value)),
        _ => {}
    }
}

fn at<'a>(value: &'a mut Value, path: &[String]) -> Option<&'a mut Value> {
    path.iter().try_fold(value, |value, key| match value {
        Value::Array(list) => list.get_mut(key.parse::<usize>().ok()?),
        Value::Object(map) => map.get_mut(key),
        _ => None,
    })
}

/// A value of another kind or size.
fn extreme(rng: &mut impl Rng, words: &[&str]) -> Value {
    match below(rng, 12) {
        0 => Value::Null,
        1 => json!(rng.random_bool(0.5)),
        2 => json!(-1),
        3 => json!(crate::bytes::WHOLE[below(rng, crate::bytes::WHOLE.len())]),
        4 => json!(*pick(rng, &[&1e308, &-1e308, &5e-324, &0.0, &-0.0, &0.5, &1e-9, &2.0])),
        5 => json!(i64::MIN),
        6 => json!(pick(rng, words)),
        7 => json!(pick(rng, &["", "a", "NaN", "1e999", "../../etc/passwd", "polynomial:99", "auto"])),
        8 => json!("x".repeat([100, 10_000, 50_000][below(rng, 3)])),
        9 => (0..[3, 50, DEEP][below(rng, 3)]).fold(json!([]), |inner, _| json!([inner])),
        10 => Value::Array(vec![json!([]); [1, 10, 5000][below(rng, 3)]]),
        _ => json!({}),
    }
}

/// Changes a value in one way.
pub fn mutate(rng: &mut impl Rng, value: &mut Value, words: &[&str]) {
    let mut all = Vec::new();
    places(value, &mut Vec::new(), &mut all);
    let path = all[below(rng, all.len())].clone();
    let other = all[below(rng, all.len())].clone();
    let found = at(value, &other).cloned().unwrap_or_default();
    let Some(place) = at(value, &path) else { return };
    match (below(rng, 6), place) {
        (0, Value::Object(map)) => drop(map.insert(pick(rng, words).into(), extreme(rng, words))),
        (1, Value::Object(map)) if !map.is_empty() => {
            let key = map.keys().nth(below(rng, map.len())).cloned().unwrap_or_default();
            let gone = map.remove(&key).unwrap_or_default();
            if rng.random_bool(0.5) {
                map.insert(pick(rng, words).into(), gone);
            }
        }
        (0, Value::Array(list)) => {
            let times = [1, 1, 10, 1000][below(rng, 4)];
            list.extend(vec![found; if path == other { 1 } else { times.min(1 + 20_000 / all.len()) }]);
        }
        (1, Value::Array(list)) if !list.is_empty() => drop(list.remove(below(rng, list.len()))),
        (2, Value::Number(number)) => {
            let value = number.as_f64().unwrap_or(0.0);
            *number = serde_json::Number::from_f64(-value * [1.0, 2.0, 1e6, 1e-6, 1e300][below(rng, 5)])
                .unwrap_or(number.clone());
        }
        // Texts may hold JSON of their own.
        (2 | 3, Value::String(text)) if text.starts_with(['[', '{']) => {
            if let Ok(mut inner) = serde_json::from_str::<Value>(text) {
                mutate(rng, &mut inner, words);
                *text = inner.to_string();
            }
        }
        (4, place) => *place = found,
        (_, place) => *place = extreme(rng, words),
    }
}

/// As text, at times with a key twice or a number that JSON values cannot hold.
pub fn text(rng: &mut impl Rng, value: &Value) -> String {
    let text = value.to_string();
    let twice = text.find(',').filter(|_| rng.random_bool(0.05));
    match twice {
        Some(end) if text.starts_with('{') => format!("{},{}", &text[..end], &text[1..]),
        _ => text,
    }
}
