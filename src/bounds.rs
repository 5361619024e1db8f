//! Bounds on the numbers that users give, checked before anything is allocated.

use crate::{Error, Result};

/// The most bytes that one piece of work may take. A service sets lower bounds.
const MOST_BYTES: f64 = (16u64 << 30) as f64;
/// The shortest and the longest time step of a simulation. Shorter steps would not change a state.
const STEP: (f64, f64) = (1e-9, 1e3);

/// Checks that a count is from `least` to `most`.
pub(crate) fn within(name: &str, value: usize, least: usize, most: usize) -> Result<()> {
    match value {
        value if value < least => {
            Err(Error::invalid(format!("{name} is {value}, expected at least {least}")))
        }
        value if value > most => Err(Error::invalid(format!("{name} is {value}, expected at most {most}"))),
        _ => Ok(()),
    }
}

/// Checks the time step of a simulation.
pub(crate) fn step(name: &str, value: f64) -> Result<()> {
    let (least, most) = STEP;
    match value {
        value if (least..=most).contains(&value) => Ok(()),
        value if value.is_nan() || value <= 0.0 || value.is_infinite() => {
            Err(Error::invalid(format!("{name} is {value}, expected a finite number above 0")))
        }
        value => Err(Error::invalid(format!("{name} is {value:e}, expected {least:e} to {most:e}"))),
    }
}

/// Checks the memory that `what` needs, in bytes.
pub(crate) fn room(bytes: f64, what: impl FnOnce() -> String) -> Result<()> {
    let gibibyte = (1u64 << 30) as f64;
    match bytes > MOST_BYTES {
        true => Err(Error::invalid(format!(
            "{} need {:.0} GiB of memory, expected at most {:.0}",
            what(),
            bytes / gibibyte,
            MOST_BYTES / gibibyte
        ))),
        false => Ok(()),
    }
}

/// A number of bytes in readable units.
pub(crate) fn bytes(count: u64) -> String {
    let mib = count as f64 / f64::from(1 << 20);
    if mib < 1.0 {
        format!("{count} bytes")
    } else if mib < 1024.0 {
        format!("{mib:.1} MiB")
    } else {
        format!("{:.1} GiB", mib / 1024.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_belong_to_what_is_allowed() {
        assert!(within("rows", 2, 2, 5).is_ok() && within("rows", 5, 2, 5).is_ok());
        assert_eq!(within("rows", 6, 2, 5).unwrap_err().to_string(), "rows is 6, expected at most 5");
        assert!(within("rows", 1, 2, 5).is_err());
        assert!(step("dt", 0.01).is_ok());
        assert_eq!(step("dt", 5e-324).unwrap_err().to_string(), "dt is 5e-324, expected 1e-9 to 1e3");
        assert!(step("dt", f64::NAN).is_err() && step("dt", -1.0).is_err());
        assert!(room(MOST_BYTES, String::new).is_ok());
        let sentence = room(2.0 * MOST_BYTES, || "cells".into()).unwrap_err().to_string();
        assert_eq!(sentence, "cells need 32 GiB of memory, expected at most 16");
    }
}
