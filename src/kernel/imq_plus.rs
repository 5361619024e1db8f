use super::Profile;
use crate::Scalar;

/// φ(ρ) = g with g = (1 + 2ρ)^−½, so the derivatives are −g³, 3g⁵, −15g⁷, 105g⁹; tilted, with the linear part.
#[derive(Clone, Copy, Debug, Default)]
pub struct ImqPlus;

impl ImqPlus {
    /// It has no bandwidth.
    pub fn new() -> Self {
        ImqPlus
    }
}

impl<T: Scalar> Profile<T> for ImqPlus {
    const TILTED: bool = true;
    const LINEAR: bool = true;
    const GAUSSIAN: bool = false;

    #[inline(always)]
    fn derivatives(&self, rho: T) -> [T; 5] {
        let square = T::ONE / (T::ONE + rho + rho);
        let p0 = square.sqrt();
        let p1 = -p0 * square;
        let p2 = T::from_f64(-3.0) * p1 * square;
        let p3 = T::from_f64(-5.0) * p2 * square;
        [p0, p1, p2, p3, T::from_f64(-7.0) * p3 * square]
    }

    #[inline(always)]
    fn decay(&self) -> T {
        T::ZERO
    }
}
