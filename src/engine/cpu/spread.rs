//! The product a v, for the vectors v that a stage meets, and the adjoint of it.

use crate::Scalar;
use crate::numeric::simd::{Group, LANES, add_product, groups, groups_mut};

/// How a v comes about and where the derivative with respect to it goes. `i` is the vector's number in its run,
/// `k` the group of coordinates.
pub(super) trait Spread<T> {
    /// A group of a v.
    fn of(&self, i: usize, k: usize, v: &Group<T>) -> Group<T>;
    /// Takes a group of the derivative with respect to a v.
    fn take(&mut self, i: usize, k: usize, v: &Group<T>, bar: &Group<T>);
}

/// a = diag(α): multiplies; sums ∂/∂α.
pub(super) struct DiagonalSpread<'a, T> {
    alpha: &'a [Group<T>],
    alpha_bar: &'a mut [Group<T>],
}

impl<'a, T: Scalar> DiagonalSpread<'a, T> {
    pub fn new(alpha: &'a [T], alpha_bar: &'a mut [T]) -> Self {
        DiagonalSpread { alpha: groups(alpha), alpha_bar: groups_mut(alpha_bar) }
    }
}

impl<T: Scalar> Spread<T> for DiagonalSpread<'_, T> {
    #[inline(always)]
    fn of(&self, _: usize, k: usize, v: &Group<T>) -> Group<T> {
        let mut product = [T::ZERO; LANES];
        for l in 0..LANES {
            product[l] = v[l] * self.alpha[k][l];
        }
        product
    }

    #[inline(always)]
    fn take(&mut self, _: usize, k: usize, v: &Group<T>, bar: &Group<T>) {
        add_product(&mut self.alpha_bar[k], v, bar);
    }
}

/// A full a: the products of the run were computed at once; stores their derivatives.
pub(super) struct FullSpread<'a, T> {
    products: &'a [Group<T>],
    bars: &'a mut [Group<T>],
    groups: usize,
}

impl<'a, T: Scalar> FullSpread<'a, T> {
    pub fn new(products: &'a [T], bars: &'a mut [T], stride: usize) -> Self {
        FullSpread { products: groups(products), bars: groups_mut(bars), groups: stride / LANES }
    }
}

impl<T: Scalar> Spread<T> for FullSpread<'_, T> {
    #[inline(always)]
    fn of(&self, i: usize, k: usize, _: &Group<T>) -> Group<T> {
        self.products[i * self.groups + k]
    }

    #[inline(always)]
    fn take(&mut self, i: usize, k: usize, _: &Group<T>, bar: &Group<T>) {
        self.bars[i * self.groups + k] = *bar;
    }
}
