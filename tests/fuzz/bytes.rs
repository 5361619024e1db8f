//! Damage that knows nothing of what it damages.

use rand::{Rng, RngExt};

/// Bytes of an input at most: small inputs are fast, and what is large is no more interesting.
pub const MOST: usize = 64 << 10;

/// Whole numbers at which something overflows, wraps, or is taken for a length.
pub const WHOLE: [u64; 14] = [
    0,
    1,
    2,
    7,
    0x7f,
    0xff,
    0xffff,
    1 << 20,
    0x7fff_ffff,
    0xffff_ffff,
    1 << 40,
    i64::MAX as u64,
    1 << 63,
    u64::MAX,
];

/// One of several.
pub fn pick<'a, T: ?Sized>(rng: &mut impl Rng, all: &[&'a T]) -> &'a T {
    all[rng.random_range(0..all.len())]
}

/// A place in `count` things; 0 if there are none.
pub fn below(rng: &mut impl Rng, count: usize) -> usize {
    rng.random_range(0..count.max(1))
}

/// A range of `length`, mostly a short one.
fn range(rng: &mut impl Rng, length: usize) -> std::ops::Range<usize> {
    let start = below(rng, length);
    let longest = if rng.random_bool(0.8) { 16 } else { length };
    let end = (start + 1 + below(rng, longest)).min(length);
    start.min(end)..end
}

/// Changes bytes in one way.
pub fn mutate(rng: &mut impl Rng, bytes: &mut Vec<u8>, other: &[u8]) {
    if bytes.is_empty() {
        bytes.push(rng.random());
        return;
    }
    let at = below(rng, bytes.len());
    match below(rng, 10) {
        0 => bytes[at] ^= 1 << below(rng, 8),
        1 => bytes[at] = rng.random(),
        2 => {
            let new: Vec<u8> = (0..1 + below(rng, 16)).map(|_| rng.random()).collect();
            bytes.splice(at..at, new);
        }
        3 => drop(bytes.drain(range(rng, bytes.len()))),
        4 => {
            let again = bytes[range(rng, bytes.len())].to_vec();
            bytes.splice(at..at, again);
        }
        5 => bytes.truncate(at),
        6 => {
            // The first part of this and the last of another.
            bytes.truncate(at);
            bytes.extend_from_slice(&other[below(rng, other.len()).min(other.len())..]);
        }
        7 => {
            let from = range(rng, bytes.len());
            let part = bytes[from].to_vec();
            let end = (at + part.len()).min(bytes.len());
            bytes[at..end].copy_from_slice(&part[..end - at]);
        }
        8 => {
            let number = if rng.random_bool(0.5) {
                WHOLE[below(rng, WHOLE.len())]
            } else {
                f64::to_bits(*pick(rng, &[&f64::NAN, &f64::INFINITY, &-1e308, &5e-324, &-0.0]))
            };
            let width = [1, 2, 4, 8][below(rng, 4)];
            let raw = if rng.random_bool(0.9) { number.to_le_bytes() } else { number.to_be_bytes() };
            let end = (at + width).min(bytes.len());
            bytes[at..end].copy_from_slice(&raw[..end - at]);
        }
        _ => {
            let fill = [0, 0xff, b' ', b'['][below(rng, 4)];
            let part = range(rng, bytes.len());
            bytes[part].fill(fill);
        }
    }
    bytes.truncate(MOST);
}
