//! Standard normal numbers that follow from counters, in blocks that become vector code.
//!
//! Bits come from Threefry-4x32 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3"), with 12 rounds,
//! the fewest that its authors found to pass every statistical test. They become normal numbers by Box and Muller's transform in
//! f32. The largest number is 5.9; a normal number beyond it comes up once in 300 million.

/// Numbers of a block.
pub(crate) const BLOCK: usize = 64;
/// Counters that are encrypted side by side. Each gives four words, so four numbers.
const LANES: usize = BLOCK / 4;
const ROUNDS: usize = 12;

type Words = [u32; LANES];

/// A source of normal numbers. It has no state: a number follows from the source's key, the block's two counters and its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Normals {
    key: [u32; 4],
}

impl Normals {
    /// The source with this seed; streams of one seed are independent.
    pub(crate) fn new(seed: u64, stream: u32) -> Self {
        Normals { key: [seed as u32, (seed >> 32) as u32, stream, 0] }
    }

    /// The block with these counters.
    #[inline(always)]
    pub(crate) fn block(&self, time: u64, place: u32) -> [f32; BLOCK] {
        let mut lane = [0; LANES];
        (0..LANES).for_each(|l| lane[l] = l as u32);
        let counter = [lane, [place; LANES], [time as u32; LANES], [(time >> 32) as u32; LANES]];
        let [a, b, c, d] = threefry::<ROUNDS>(counter, self.key);
        let mut out = [0.0; BLOCK];
        let (first, second) = out.split_at_mut(BLOCK / 2);
        pairs(a, b, first);
        pairs(c, d, second);
        out
    }
}

/// Rotations of the two halves, by round modulo 8.
const ROTATIONS: [(u32, u32); 8] =
    [(10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20)];

/// Encrypts counters, lane by lane.
#[inline(always)]
fn threefry<const ROUNDS: usize>(counter: [Words; 4], key: [u32; 4]) -> [Words; 4] {
    let keys = [key[0], key[1], key[2], key[3], 0x1bd1_1bda ^ key[0] ^ key[1] ^ key[2] ^ key[3]];
    let [mut a, mut b, mut c, mut d] = counter;
    for l in 0..LANES {
        a[l] = a[l].wrapping_add(keys[0]);
        b[l] = b[l].wrapping_add(keys[1]);
        c[l] = c[l].wrapping_add(keys[2]);
        d[l] = d[l].wrapping_add(keys[3]);
    }
    for round in 0..ROUNDS {
        let (r, s) = ROTATIONS[round % 8];
        for l in 0..LANES {
            a[l] = a[l].wrapping_add(b[l]);
            b[l] = b[l].rotate_left(r) ^ a[l];
            c[l] = c[l].wrapping_add(d[l]);
            d[l] = d[l].rotate_left(s) ^ c[l];
        }
        std::mem::swap(&mut b, &mut d);
        if round % 4 == 3 {
            let s = round / 4 + 1;
            for l in 0..LANES {
                a[l] = a[l].wrapping_add(keys[s % 5]);
                b[l] = b[l].wrapping_add(keys[(s + 1) % 5]);
                c[l] = c[l].wrapping_add(keys[(s + 2) % 5]);
                d[l] = d[l].wrapping_add(keys[(s + 3) % 5]).wrapping_add(s as u32);
            }
        }
    }
    [a, b, c, d]
}

/// Two independent normal numbers from each pair of words: a radius from the first, a direction from the second.
#[inline(always)]
fn pairs(radius: Words, direction: Words, out: &mut [f32]) {
    let (first, second) = out.split_at_mut(LANES);
    for l in 0..LANES {
        // Within (0, 1): the logarithm is finite.
        let u = ((radius[l] >> 8) as i32 as f32 + 0.5) * (1.0 / 16_777_216.0);
        let r = (-2.0 * ln(u)).sqrt();
        // A direction within a quarter of the circle, seen from its middle; two other bits choose the quarter.
        let x = ((direction[l] >> 8) as i32 as f32 + 0.5) * (std::f32::consts::FRAC_PI_2 / 16_777_216.0)
            - std::f32::consts::FRAC_PI_4;
        let (sin, cos) = sin_cos(x);
        let r = r * std::f32::consts::FRAC_1_SQRT_2;
        let sign = |value: f32, bit: u32| f32::from_bits(value.to_bits() ^ (bit << 31));
        first[l] = sign(r * (cos - sin), direction[l] & 1);
        second[l] = sign(r * (cos + sin), (direction[l] >> 1) & 1);
    }
}

/// ln x for normal x > 0, to 1e-7 of 1 + |ln x|.
#[inline(always)]
fn ln(x: f32) -> f32 {
    // x = 2^k m with m within [√½, √2).
    let bits = x.to_bits().wrapping_sub(0x3f35_04f3);
    let k = (bits as i32) >> 23;
    let f = f32::from_bits((bits & 0x007f_ffff).wrapping_add(0x3f35_04f3)) - 1.0;
    // Least-squares fit of ln(1 + f)/f at Chebyshev points.
    let mut series = 8.743_945_4e-2f32;
    for coefficient in [
        -1.437_733e-1,
        1.494_909_5e-1,
        -1.656_069_6e-1,
        1.995_697_7e-1,
        -2.500_215_3e-1,
        3.333_418_3e-1,
        -4.999_998_7e-1,
        1.0,
    ] {
        series = series * f + coefficient;
    }
    k as f32 * std::f32::consts::LN_2 + f * series
}

/// The sine and cosine of |x| ≤ π/4, to 1e-7, by least-squares fits at Chebyshev points.
#[inline(always)]
fn sin_cos(x: f32) -> (f32, f32) {
    let square = x * x;
    let sin = ((-1.950_396_3e-4 * square + 8.332_036e-3) * square - 1.666_665e-1) * square + 1.0;
    let cos =
        (((2.437_988e-5 * square - 1.388_661_9e-3) * square + 4.166_661_7e-2) * square - 0.5) * square + 1.0;
    (x * sin, cos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cipher_gives_the_known_answers() {
        let all = |value: u32| [[value; LANES]; 4];
        let first = |words: [Words; 4]| words.map(|word| word[0]);
        // The authors' known answers for 20 rounds.
        assert_eq!(
            first(threefry::<20>(all(0), [0; 4])),
            [0x9c6c_a96a, 0xe17e_ae66, 0xfc10_ecd4, 0x5256_a7d8]
        );
        let ones = u32::MAX;
        assert_eq!(
            first(threefry::<20>(all(ones), [ones; 4])),
            [0x2a88_1696, 0x5701_2287, 0xf6c7_446e, 0xa16a_6732]
        );
    }

    #[test]
    fn elementary_functions_are_accurate() {
        for k in 1..200_000u32 {
            let x = k as f32 / 200_000.0;
            let exact = f64::from(x).ln();
            assert!((f64::from(ln(x)) - exact).abs() < 2e-7 * (1.0 + exact.abs()), "ln {x}");
            let y = (x - 0.5) * std::f32::consts::FRAC_PI_2;
            let (sin, cos) = sin_cos(y);
            assert!((f64::from(sin) - f64::from(y).sin()).abs() < 2e-7, "sin {y}");
            assert!((f64::from(cos) - f64::from(y).cos()).abs() < 2e-7, "cos {y}");
        }
    }

    fn many(blocks: u64, stream: u32) -> Vec<f64> {
        let source = Normals::new(7, stream);
        (0..blocks).flat_map(|time| source.block(time, 3)).map(f64::from).collect()
    }

    #[test]
    fn numbers_are_standard_normal() {
        let values = many(20_000, 0);
        let n = values.len() as f64;
        // Moments 1 to 6 with their standard errors; those of a normal number are 0, 1, 0, 3, 0, 15.
        for (power, moment, variance) in [
            (1, 0.0, 1.0),
            (2, 1.0, 2.0),
            (3, 0.0, 15.0),
            (4, 3.0, 96.0),
            (5, 0.0, 945.0),
            (6, 15.0, 10_170.0f64),
        ] {
            let found = values.iter().map(|z| z.powi(power)).sum::<f64>() / n;
            assert!((found - moment).abs() < 5.0 * (variance / n).sqrt(), "moment {power}: {found}");
        }
        // Shares below quantiles.
        for (quantile, share) in
            [(-3.0, 0.001_349_9), (-1.0, 0.158_655_3), (0.5, 0.691_462_5), (2.0, 0.977_249_9f64)]
        {
            let found = values.iter().filter(|z| **z < quantile).count() as f64 / n;
            assert!((found - share).abs() < 5.0 * (share * (1.0 - share) / n).sqrt(), "{quantile}: {found}");
        }
    }

    #[test]
    fn numbers_are_uncorrelated_and_so_are_their_squares() {
        let values = many(20_000, 0);
        let check = |a: &[f64], b: &[f64], what: &str| {
            let n = a.len() as f64;
            let mean = a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>() / n;
            assert!(mean.abs() < 5.0 / n.sqrt(), "{what}: {mean}");
            let squares = a.iter().zip(b).map(|(x, y)| (x * x - 1.0) * (y * y - 1.0)).sum::<f64>() / n;
            assert!(squares.abs() < 10.0 / n.sqrt(), "{what}, squares: {squares}");
        };
        // Within a pair, within a block, between blocks.
        for lag in [1, 16, 32, 48, 64, 128] {
            check(&values[lag..], &values[..values.len() - lag], &format!("lag {lag}"));
        }
        check(&values, &many(20_000, 1), "streams");
    }

    #[test]
    fn a_number_follows_from_counters_alone() {
        let source = Normals::new(u64::MAX, 5);
        assert_eq!(source.block(9, 2), source.block(9, 2));
        for other in [source.block(10, 2), source.block(9, 3), source.block(9 + (1 << 32), 2)] {
            assert_ne!(source.block(9, 2), other);
        }
        assert_ne!(Normals::new(1, 5).block(9, 2), Normals::new(1 << 32, 5).block(9, 2));
    }
}
