use super::{Coefficients, Dots, PairTerm};
use crate::Scalar;
use crate::kernel::Profile;

/// The Stein-type loss, equation "simple closed form" of the paper divided by 4.
///
/// With ∇ᵧF = −φ' r, ∇ₓF = φ' r and ∇ₓ∇ᵧF = −φ' I − φ'' r rᵀ,
///
/// ```text
/// T = φ v − ½ φ' g − ¼ φ' tr a² − ¼ φ'' m
/// ```
///
/// and the linear part F = 1 + ⟨x, y⟩, with ∇ᵧF = x, ∇ₓF = y and ∇ₓ∇ᵧF = I, adds
/// (1 + ⟨x, y⟩) v + ½ ⟨b, a x⟩ + ½ ⟨b', a y⟩ + ¼ tr a².
#[derive(Clone, Copy, Debug)]
pub struct Skds;

impl PairTerm for Skds {
    const QUADRATIC: bool = false;
    const TILT_SHARE: f64 = 0.5;

    #[inline(always)]
    fn term<T: Scalar, P: Profile<T>>(phi: &[T; 5], dots: &Dots<T>) -> T {
        let half = T::HALF;
        let quarter = half * half;
        let radial =
            phi[0] * dots.v - half * phi[1] * dots.g - quarter * (phi[1] * dots.trace2 + phi[2] * dots.m);
        if P::LINEAR {
            radial + dots.inner * dots.v + half * (dots.rest + dots.rest_other) + quarter * dots.trace2
        } else {
            radial
        }
    }

    #[inline(always)]
    fn coefficients<T: Scalar, P: Profile<T>>(phi: &[T; 5], dots: &Dots<T>) -> Coefficients<T> {
        let half = T::HALF;
        let quarter = half * half;
        let linear = |value: T| if P::LINEAR { value } else { T::ZERO };
        Coefficients {
            b: phi[0] + linear(dots.inner),
            z: -half * phi[1],
            m: -half * phi[2],
            rest: linear(half),
            rest_other: linear(half),
            trace2: -quarter * phi[1] + linear(quarter),
            ..Coefficients::default()
        }
    }

    fn gaussian_ratios<T: Scalar>(eta: T) -> (T, T) {
        (T::HALF * eta, -T::HALF * eta * eta)
    }
}
