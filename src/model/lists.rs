//! Lists in the metadata of model files, read no further than the tensors allow.
//!
//! An empty list is three bytes of a file and many more in memory: lengths are checked while reading, not after.

use crate::Matrix;
use serde::de::{DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};
use std::fmt;

/// Flags of targets at most, where no tensor says how many environments there are.
const MOST_FLAGS: usize = 1 << 26;

/// The strings of a list with `count` of them.
pub(super) fn strings(text: &str, count: usize) -> Result<Vec<String>, String> {
    let mut json = serde_json::Deserializer::from_str(text);
    let found = Strings { count }.deserialize(&mut json).and_then(|found| json.end().map(|()| found));
    found.map_err(|e| format!("text that is no valid JSON: {e}"))
}

/// The targets of each environment, as numbers of variables below `d`; of `environments`, if their number is known.
pub(super) fn targets(text: &str, d: usize, environments: Option<usize>) -> Result<Matrix<bool>, String> {
    let most = environments.unwrap_or(MOST_FLAGS / d.max(1));
    let mut json = serde_json::Deserializer::from_str(text);
    let flags = Targets { d, most }.deserialize(&mut json).and_then(|flags| json.end().map(|()| flags));
    let flags = flags.map_err(|e| format!("text that is no list of targets: {e}"))?;
    let found = flags.len() / d;
    match environments {
        Some(expected) if found != expected => {
            Err(format!("{found} environments, expected {expected} like the interventions"))
        }
        _ => Ok(Matrix::from_rows(found, d, flags)),
    }
}

/// Up to one string more than expected, so that the message about their number is the common one.
struct Strings {
    count: usize,
}

impl<'de> DeserializeSeed<'de> for Strings {
    type Value = Vec<String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<String>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Strings {
    type Value = Vec<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of {} names", self.count)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<String>, A::Error> {
        let mut found = Vec::new();
        while let Some(name) = list.next_element()? {
            if found.len() > self.count {
                return Err(A::Error::custom(format!("found more than {} names", self.count + 1)));
            }
            found.push(name);
        }
        Ok(found)
    }
}

/// All environments: lists of lists.
struct Targets {
    d: usize,
    most: usize,
}

impl<'de> DeserializeSeed<'de> for Targets {
    type Value = Vec<bool>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<bool>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Targets {
    type Value = Vec<bool>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list with the targets of each environment")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<bool>, A::Error> {
        let mut flags = Vec::new();
        let mut row = vec![false; self.d];
        while list.next_element_seed(One { row: &mut row })?.is_some() {
            if flags.len() / self.d >= self.most {
                return Err(A::Error::custom(format!("found more than {} environments", self.most)));
            }
            flags.extend_from_slice(&row);
            row.fill(false);
        }
        Ok(flags)
    }
}

/// One environment's targets.
struct One<'a> {
    row: &'a mut [bool],
}

impl<'de> DeserializeSeed<'de> for One<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for One<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of variables' numbers")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let d = self.row.len();
        while let Some(j) = list.next_element::<usize>()? {
            let flag = self.row.get_mut(j);
            *flag.ok_or_else(|| {
                A::Error::custom(format!("found variable {j}, expected numbers below {d}"))
            })? = true;
        }
        Ok(())
    }
}
