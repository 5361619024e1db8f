use super::{Coefficients, Dots, PairTerm};
use crate::Scalar;
use crate::kernel::Profile;

/// The generator's loss. Applying L to one argument of F = φ(ρ) and then to the other,
///
/// ```text
/// L₁F = φ' π + ½ (φ' tr a + φ'' w)        L₂F = −φ' π' + ½ (φ' tr a + φ'' w)
/// L₁L₂F = −φ' v − φ'' π π' + ½ (π − π') (φ'' tr a + φ''' w) + φ'' g
///         + ¼ φ'' ((tr a)² + 2 tr a²) + ½ φ''' w tr a + φ''' m + ¼ φ'''' w²
/// T = L₁L₂F + ζ' L₁F + ζ L₂F + ζ ζ' F
/// ```
///
/// and the linear part F = 1 + ⟨x, y⟩ adds v + ζ' ⟨b, y⟩ + ζ ⟨b', x⟩ + ζ ζ' (1 + ⟨x, y⟩).
#[derive(Clone, Copy, Debug)]
pub struct Kds;

impl PairTerm for Kds {
    const QUADRATIC: bool = true;
    const TILT_SHARE: f64 = 1.0;

    #[inline(always)]
    fn term<T: Scalar, P: Profile<T>>(phi: &[T; 5], dots: &Dots<T>) -> T {
        let half = T::HALF;
        let quarter = half * half;
        let Dots { v, g, m, pi, pi_other, w, trace, trace2, .. } = *dots;
        let mut term =
            half * (pi - pi_other) * (phi[2] * trace + phi[3] * w) - phi[1] * v - phi[2] * pi * pi_other
                + phi[2] * (g + quarter * (trace * trace + trace2 + trace2))
                + phi[3] * (half * w * trace + m)
                + quarter * phi[4] * w * w;
        if P::TILTED {
            let (zeta, zeta_other) = (dots.rest, dots.rest_other);
            let noise = half * (phi[1] * trace + phi[2] * w);
            term += zeta_other * (phi[1] * pi + noise)
                + zeta * (noise - phi[1] * pi_other)
                + zeta * zeta_other * phi[0];
            if P::LINEAR {
                term += v + zeta_other * dots.b_y + zeta * dots.b_x + zeta * zeta_other * dots.inner;
            }
        }
        term
    }

    #[inline(always)]
    fn coefficients<T: Scalar, P: Profile<T>>(phi: &[T; 5], dots: &Dots<T>) -> Coefficients<T> {
        let half = T::HALF;
        let Dots { pi, pi_other, w, trace, .. } = *dots;
        let push = half * (phi[2] * trace + phi[3] * w);
        let mut c = Coefficients {
            b: -phi[1],
            r: push - phi[2] * pi_other,
            r_other: -(push + phi[2] * pi),
            z: phi[2],
            w: half * (phi[3] * (pi - pi_other + trace) + phi[4] * w),
            m: phi[3] + phi[3],
            trace: push + half * phi[2] * (pi - pi_other),
            trace2: half * phi[2],
            ..Coefficients::default()
        };
        if P::TILTED {
            let (zeta, zeta_other) = (dots.rest, dots.rest_other);
            let noise = half * (phi[1] * trace + phi[2] * w);
            c.r += zeta_other * phi[1];
            c.r_other -= zeta * phi[1];
            c.w += half * phi[2] * (zeta + zeta_other);
            c.trace += half * phi[1] * (zeta + zeta_other);
            c.rest = noise - phi[1] * pi_other + zeta_other * phi[0];
            c.rest_other = noise + phi[1] * pi + zeta * phi[0];
            if P::LINEAR {
                c.b += T::ONE;
                c.y = zeta_other;
                c.x = zeta;
                c.rest += dots.b_x + zeta_other * dots.inner;
                c.rest_other += dots.b_y + zeta * dots.inner;
            }
        }
        c
    }

    fn gaussian_ratios<T: Scalar>(eta: T) -> (T, T) {
        (eta, -(eta * eta + eta * eta))
    }
}
