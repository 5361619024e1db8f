use super::Profile;
use crate::Scalar;

/// φ(ρ) = exp(−η ρ) with η = 1/h², so the n-th derivative is (−η)ⁿ φ.
#[derive(Clone, Copy, Debug)]
pub struct Rbf<T> {
    eta: T,
}

impl<T: Scalar> Rbf<T> {
    /// With bandwidth h.
    pub fn new(bandwidth: f64) -> Self {
        Rbf { eta: T::from_f64(1.0 / (bandwidth * bandwidth)) }
    }
}

impl<T: Scalar> Profile<T> for Rbf<T> {
    const TILTED: bool = false;
    const LINEAR: bool = false;
    const GAUSSIAN: bool = true;

    #[inline(always)]
    fn derivatives(&self, rho: T) -> [T; 5] {
        let minus = -self.eta;
        let p0 = Scalar::exp(minus * rho);
        let p1 = minus * p0;
        let p2 = minus * p1;
        let p3 = minus * p2;
        [p0, p1, p2, p3, minus * p3]
    }

    #[inline(always)]
    fn decay(&self) -> T {
        self.eta
    }
}
