//! The two precisions of the CPU engine.

use std::fmt::{Debug, Display};
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub, SubAssign};

/// `f32` or `f64`.
///
/// [`exp`](Scalar::exp) is free of branches and calls so that loops over it become vector code;
/// it is accurate to two units in the last place.
pub trait Scalar:
    Copy
    + PartialOrd
    + Debug
    + Display
    + Default
    + Send
    + Sync
    + 'static
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + faer::traits::ComplexField
{
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// ½.
    const HALF: Self;
    /// The unit of precision.
    const EPSILON: f64;
    /// "f32" or "f64".
    const NAME: &'static str;

    /// Rounds to this precision.
    fn from_f64(value: f64) -> Self;
    /// Exact.
    fn to_f64(self) -> f64;
    /// e^x, 0 for very negative x.
    fn exp(self) -> Self;
    /// √x.
    fn sqrt(self) -> Self;
    /// The larger of the two.
    fn max(self, other: Self) -> Self;
    /// Whether neither NaN nor infinite.
    fn is_finite(self) -> bool;
}

/// log₂ e.
const LOG2_E: f64 = std::f64::consts::LOG2_E;

macro_rules! impl_scalar {
    ($float:ident, $int:ident, $name:literal, $mantissa_bits:literal, $bias:literal, $low:literal, $high:literal,
     $round:literal, $ln2_high:literal, $ln2_low:literal, [$($coefficient:expr),+]) => {
        impl Scalar for $float {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const HALF: Self = 0.5;
            const EPSILON: f64 = $float::EPSILON as f64;
            const NAME: &'static str = $name;

            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                value as $float
            }

            #[inline(always)]
            fn to_f64(self) -> f64 {
                f64::from(self)
            }

            #[inline(always)]
            fn exp(self) -> Self {
                // e^x = 2^k e^r with k = round(x log2 e), |r| <= ln2/2. Adding 1.5·2^p rounds to an integer and
                // leaves it in the low bits. Clamping keeps 2^k normal: below it the result is set to 0.
                let x = if self < $high { self } else { $high };
                let x = if x > $low { x } else { $low };
                let shifted = x * (LOG2_E as $float) + $round;
                let k = shifted - $round;
                let r = (x - k * $ln2_high) - k * $ln2_low;
                let mut series: $float = 0.0;
                $( series = series * r + $coefficient; )+
                let bits = (shifted.to_bits() as $int).wrapping_sub(($round as $float).to_bits() as $int);
                let power = $float::from_bits((bits.wrapping_add($bias) << $mantissa_bits) as _);
                let value = series * power;
                // A NaN fails every comparison above and must come out as NaN; infinities behave as limits.
                if self <= $low {
                    0.0
                } else if self < $high {
                    value
                } else {
                    self * $float::INFINITY
                }
            }

            #[inline(always)]
            fn sqrt(self) -> Self {
                $float::sqrt(self)
            }

            #[inline(always)]
            fn max(self, other: Self) -> Self {
                if self > other { self } else { other }
            }

            #[inline(always)]
            fn is_finite(self) -> bool {
                $float::is_finite(self)
            }
        }
    };
}

// ln 2 is split so that k · high is exact for every k that occurs; the series is Taylor's, long enough that its
// remainder at ln2/2 is below half a unit in the last place.
impl_scalar!(
    f32,
    i32,
    "f32",
    23,
    127,
    -87.0,
    88.0,
    12_582_912.0,
    0.693_359_4,
    -2.121_944_4e-4,
    [1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0]
);
impl_scalar!(
    f64,
    i64,
    "f64",
    52,
    1023,
    -708.0,
    709.0,
    6_755_399_441_055_744.0,
    0.693_147_180_369_123_8,
    1.908_214_929_270_587_7e-10,
    [
        1.0 / 6_227_020_800.0,
        1.0 / 479_001_600.0,
        1.0 / 39_916_800.0,
        1.0 / 3_628_800.0,
        1.0 / 362_880.0,
        1.0 / 40_320.0,
        1.0 / 5040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
        1.0
    ]
);

#[cfg(test)]
mod tests {
    use super::Scalar;

    /// Units in the last place that `exp` may be off.
    const ULPS: f64 = 2.0;

    fn check<T: Scalar>(low: f64, high: f64) {
        for step in 0..=20_000 {
            let x = T::from_f64(low + (high - low) * f64::from(step) / 20_000.0);
            let exact = x.to_f64().exp();
            let error = (Scalar::exp(x).to_f64() - exact).abs() / (exact * T::EPSILON);
            assert!(error <= ULPS, "exp({x}) is off by {error} ulps");
        }
    }

    #[test]
    fn exp_is_accurate() {
        check::<f32>(-86.9, 87.9);
        check::<f64>(-707.9, 708.9);
        check::<f32>(-1e-3, 1e-3);
        check::<f64>(-1e-3, 1e-3);
    }

    #[test]
    fn exp_at_its_limits() {
        assert_eq!(Scalar::exp(0.0f32), 1.0);
        assert_eq!(Scalar::exp(-1e30f32), 0.0);
        assert_eq!(Scalar::exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(Scalar::exp(f32::INFINITY), f32::INFINITY);
        assert_eq!(Scalar::exp(1e30f64), f64::INFINITY);
        assert!(Scalar::exp(f32::NAN).is_nan());
        assert!(Scalar::exp(f64::NAN).is_nan());
    }
}
