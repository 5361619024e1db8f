//! The two losses: what one pair of samples contributes, and how that depends on drift and diffusion.
//!
//! With `S g = ⟨b, g⟩ + ½ tr(a ∇g)` and `L f = ⟨b, ∇f⟩ + ½ tr(a ∇²f)` (the paper's Table 1),
//!
//! ```text
//! SKDS = E S₁S₂ k(X, Y) I        KDS = E L₁L₂ k(X, Y)
//! ```
//!
//! **The tilt leaves the pairs.** For k = ω(x) ω(y) F(x, y), one sample at a time,
//!
//! ```text
//! S(ω g) = ω [ ⟨b̃, g⟩ + ½ tr(a ∇g) ]                     b̃ = b + ½ a ∇log ω
//! L(ω f) = ω [ ⟨b̃, ∇f⟩ + ½ tr(a ∇²f) + ζ f ]            b̃ = b + a ∇log ω,   ζ = Lω / ω
//! ```
//!
//! so a tilted kernel is the untilted one with another drift, a weight ω(x) ω(y), and for KDS one more number
//! per sample. **What is left is radial.** F is a function φ of ρ = |r|²/2, r = x − y, whose derivatives point
//! along r, so a pair term is a short formula in a few inner products ([`Dots`]) of b̃, b̃', r and z = a r;
//! no d × d object appears. Its adjoints are combinations of the same vectors ([`Coefficients`]):
//!
//! ```text
//! ∂/∂b̃  = c_b b̃' + c_r  r + c_z z (+ c_y y)
//! ∂/∂b̃' = c_b b̃  + c_r' r − c_z z (+ c_x x)
//! ∂/∂z  = c_w r + c_z (b̃ − b̃') + c_m z
//! ```
//!
//! The coefficients do not depend on `v`, `g` and `m`, which is why all pairs can be summed by matrix products
//! without forming those three. The diffusion is constant within an environment, so a(x) = a(y) = a and its
//! adjoint is the sum over both points.

mod estimator;
mod kds;
mod skds;

pub use estimator::Estimator;
pub use kds::Kds;
pub use skds::Skds;

use crate::Scalar;
use crate::kernel::Profile;
use crate::named::named;

/// Which loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objective {
    /// Stein-type kernel deviation from stationarity.
    Skds,
    /// Kernel deviation from stationarity.
    Kds,
}

/// Inner products of a pair (x, y) with drifts b = b̃(x), b' = b̃(y), r = x − y, z = a r.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dots<T> {
    /// v = ⟨b, b'⟩.
    pub v: T,
    /// g = ⟨b − b', z⟩.
    pub g: T,
    /// m = ⟨z, z⟩.
    pub m: T,
    /// π = ⟨b, r⟩ (KDS).
    pub pi: T,
    /// π' = ⟨b', r⟩ (KDS).
    pub pi_other: T,
    /// w = ⟨r, z⟩ (KDS).
    pub w: T,
    /// 1 + ⟨x, y⟩ (linear kernels).
    pub inner: T,
    /// ⟨b, y⟩ (KDS, linear kernels).
    pub b_y: T,
    /// ⟨b', x⟩ (KDS, linear kernels).
    pub b_x: T,
    /// The number that the tilt leaves at x: ζ for KDS, ⟨b, a x⟩ for SKDS with a linear kernel, otherwise 0.
    pub rest: T,
    /// The same at y.
    pub rest_other: T,
    /// tr a (KDS).
    pub trace: T,
    /// tr a².
    pub trace2: T,
}

/// How a pair term moves with what it is made of; see the module's formulas.
#[derive(Clone, Copy, Debug, Default)]
pub struct Coefficients<T> {
    /// c_b.
    pub b: T,
    /// c_r.
    pub r: T,
    /// c_r'.
    pub r_other: T,
    /// c_z.
    pub z: T,
    /// c_w.
    pub w: T,
    /// c_m.
    pub m: T,
    /// c_y (KDS, linear kernels).
    pub y: T,
    /// c_x (KDS, linear kernels).
    pub x: T,
    /// With respect to [`Dots::rest`].
    pub rest: T,
    /// With respect to [`Dots::rest_other`].
    pub rest_other: T,
    /// With respect to tr a.
    pub trace: T,
    /// With respect to tr a².
    pub trace2: T,
}

impl<T: Scalar> Coefficients<T> {
    /// Every coefficient times `factor`.
    #[inline(always)]
    pub fn scaled(self, factor: T) -> Self {
        Coefficients {
            b: self.b * factor,
            r: self.r * factor,
            r_other: self.r_other * factor,
            z: self.z * factor,
            w: self.w * factor,
            m: self.m * factor,
            y: self.y * factor,
            x: self.x * factor,
            rest: self.rest * factor,
            rest_other: self.rest_other * factor,
            trace: self.trace * factor,
            trace2: self.trace2 * factor,
        }
    }
}

/// The arithmetic of one loss, chosen at compile time so that inner loops have no branches.
pub trait PairTerm: Copy + Send + Sync {
    /// Whether the term contains products of two inner products with the drift (π, π', w).
    const QUADRATIC: bool;
    /// Which share of a ∇log ω the tilt adds to the drift.
    const TILT_SHARE: f64;

    /// The pair term without the factor ω(x) ω(y). `phi` holds φ and its derivatives at ρ.
    fn term<T: Scalar, P: Profile<T>>(phi: &[T; 5], dots: &Dots<T>) -> T;

    /// The adjoints of [`term`](Self::term). Reads neither `v` nor `g` nor `m` of the dots.
    fn coefficients<T: Scalar, P: Profile<T>>(phi: &[T; 5], dots: &Dots<T>) -> Coefficients<T>;

    /// (c_z / c_b, c_m / c_b) for a Gaussian profile with decay η, where both ratios are constant.
    fn gaussian_ratios<T: Scalar>(eta: T) -> (T, T);
}

named!(Objective, "objective", { Skds => "skds", Kds => "kds" });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{ImqPlus, Rbf};

    /// L u = S[∇u]: in one dimension KDS with a radial kernel φ is SKDS with the kernel ψ = ∂ₓ∂ᵧφ, that is
    /// ψ(ρ) = −φ' − 2ρ φ''. Checked pair by pair, exactly, without engines or samples.
    fn check_generator_is_stein_operator_of_gradient<P: Profile<f64>>(profile: P) {
        for (b, b_other, r, a) in [(0.3, -1.2, 0.7, 0.5), (2.0, 1.0, -1.5, 1.3), (-0.4, 0.9, 0.0, 2.0)] {
            let rho = 0.5 * r * r;
            let phi = profile.derivatives(rho);
            let psi = [
                -phi[1] - 2.0 * rho * phi[2],
                -3.0 * phi[2] - 2.0 * rho * phi[3],
                -5.0 * phi[3] - 2.0 * rho * phi[4],
                f64::NAN,
                f64::NAN,
            ];
            let dots = Dots {
                v: b * b_other,
                g: (b - b_other) * a * r,
                m: a * r * a * r,
                pi: b * r,
                pi_other: b_other * r,
                w: a * r * r,
                trace: a,
                trace2: a * a,
                ..Dots::default()
            };
            // Rbf has neither tilt nor linear part, so both terms are the radial ones whatever `phi` is.
            let kds = Kds::term::<f64, Rbf<f64>>(&phi, &dots);
            let skds = Skds::term::<f64, Rbf<f64>>(&psi, &dots);
            assert!((kds - skds).abs() < 1e-12 * (1.0 + kds.abs()), "{kds} {skds}");
        }
    }

    #[test]
    fn the_generator_is_the_stein_operator_of_the_gradient() {
        check_generator_is_stein_operator_of_gradient(Rbf::new(0.8));
        check_generator_is_stein_operator_of_gradient(ImqPlus);
    }

    #[test]
    fn terms_do_not_change_when_the_points_are_exchanged() {
        let phi = Profile::<f64>::derivatives(&ImqPlus, 0.4);
        let here = Dots {
            v: 0.3,
            g: -0.8,
            m: 1.1,
            pi: 0.4,
            pi_other: -0.9,
            w: 0.6,
            inner: 1.7,
            b_y: 0.2,
            b_x: -0.5,
            rest: 0.35,
            rest_other: -0.15,
            trace: 1.9,
            trace2: 1.4,
        };
        // r and z change sign, so g and w do not; π and π' trade places and sign.
        let there = Dots {
            pi: -here.pi_other,
            pi_other: -here.pi,
            b_y: here.b_x,
            b_x: here.b_y,
            rest: here.rest_other,
            rest_other: here.rest,
            ..here
        };
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-14, "{a} {b}");
        close(Skds::term::<f64, ImqPlus>(&phi, &here), Skds::term::<f64, ImqPlus>(&phi, &there));
        close(Kds::term::<f64, ImqPlus>(&phi, &here), Kds::term::<f64, ImqPlus>(&phi, &there));
    }
}
