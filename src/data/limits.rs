//! Upper bounds for data files from sources that are not trusted.

/// How much a data file may hold. A reader refuses a larger file before it is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeLimits {
    /// The largest number of variables.
    pub variables: usize,
    /// The largest size of the samples in memory in bytes, 8 per number. The same limit holds for the names, and for the targets.
    pub bytes: u64,
}

impl SizeLimits {
    /// No limits.
    pub const UNLIMITED: SizeLimits = SizeLimits { variables: usize::MAX, bytes: u64::MAX };

    pub(super) fn check_variables(&self, found: usize) -> std::result::Result<(), String> {
        match found > self.variables {
            true => Err(format!("has {found} variables, expected at most {}", self.variables)),
            false => Ok(()),
        }
    }

    /// Checks `count` items of `size` bytes each.
    pub(super) fn check_bytes(&self, what: &str, count: usize, size: u64) -> std::result::Result<(), String> {
        match (count as u64).checked_mul(size) {
            Some(bytes) if bytes <= self.bytes => Ok(()),
            _ => Err(format!("has {count} {what} of {size} bytes, expected at most {} bytes", self.bytes)),
        }
    }
}

impl Default for SizeLimits {
    fn default() -> Self {
        SizeLimits::UNLIMITED
    }
}
