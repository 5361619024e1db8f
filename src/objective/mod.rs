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

use crate::kernel::Profile;
use crate::{Error, Result, Scalar};
use std::fmt;
use std::str::FromStr;

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

impl Objective {
    /// Every objective there is.
    pub const ALL: [Objective; 2] = [Objective::Skds, Objective::Kds];

    /// The name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Objective::Skds => "skds",
            Objective::Kds => "kds",
        }
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Objective {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Objective::ALL
            .into_iter()
            .find(|o| o.name() == name)
            .ok_or_else(|| Error::invalid(format!("unknown objective '{name}', expected skds or kds")))
    }
}
