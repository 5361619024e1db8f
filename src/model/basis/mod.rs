//! Drifts and diffusions that are linear in given functions of the state (the paper's Example 10).
//!
//! ```text
//! b_j(x) = Σ_p coefficients_jp f_p(x) + biases_j          a_j(x) = Σ_k amounts_jk g_k(x),  amounts ≥ 0
//! ```
//!
//! A polynomial says nothing outside of the data and rarely has a stationary law there, so functions see the state only
//! within a box around the data, [`Basis::low`] to [`Basis::high`], and outside of it the drift leads back: with bounded
//! functions and a pull that grows, every model of this form has a stationary law.

mod expression;
mod features;

pub(crate) use expression::Expression;
use expression::Variables;
pub use features::FeatureChoice;

use crate::data::{Dataset, Standardization};
use crate::numeric::statistics::moments;
use crate::{Error, Matrix, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Widening of the box at either side, in widths of the data's range.
const MARGIN: f64 = 0.5;
/// Functions of a drift at most.
const MOST: usize = 5000;
/// Functions of a diffusion at most: there is a column of the data's length for each of them and each variable.
const MOST_DIFFUSIONS: usize = 100;

/// Checks what can be known of a diffusion before it is taken apart.
pub(crate) fn check_diffusion(text: &str) -> Result<()> {
    let found = 1 + text.bytes().filter(|byte| *byte == b',').count();
    match found > MOST_DIFFUSIONS {
        true => Err(Error::invalid(format!(
            "the diffusion has {found} expressions, expected at most {MOST_DIFFUSIONS}"
        ))),
        false => Ok(()),
    }
}

/// The functions that a drift and a diffusion are made of, and where they are known.
#[derive(Clone, Debug, PartialEq)]
pub struct Basis {
    features: Vec<Expression>,
    diffusion: Vec<Expression>,
    /// The standard deviation of each feature over the data: what makes coefficients comparable.
    pub scales: Vec<f64>,
    /// The mean of each variable over the data.
    pub centre: Vec<f64>,
    /// Its standard deviation.
    pub spread: Vec<f64>,
    /// The least value of each variable that functions see.
    pub low: Vec<f64>,
    /// The largest.
    pub high: Vec<f64>,
}

/// A basis as files hold it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Written {
    features: Vec<String>,
    diffusion: Vec<String>,
    scales: Vec<f64>,
    centre: Vec<f64>,
    spread: Vec<f64>,
    low: Vec<f64>,
    high: Vec<f64>,
}

impl Basis {
    /// The functions that `features` and `diffusion` (expressions with `self` for the variable itself, separated by
    /// commas) stand for on this data.
    pub fn new(features: &FeatureChoice, diffusion: &str, data: &Dataset) -> Result<Basis> {
        Self::centred(features, diffusion, data, None)
    }

    /// The same with families of functions made of deviations from a centre.
    fn centred(
        features: &FeatureChoice,
        diffusion: &str,
        data: &Dataset,
        centre: Option<&[f64]>,
    ) -> Result<Basis> {
        let features = features.expressions(data, centre)?;
        check_diffusion(diffusion)?;
        let variables = Variables::new(data.names());
        let diffusion = diffusion
            .split(',')
            .map(|text| Expression::parse(text, &variables, true))
            .collect::<Result<Vec<_>>>()?;
        Basis::of_expressions(features, diffusion, data)
    }

    /// The functions of the data, and the same functions of the data in standard units, which is what a fit sees.
    pub fn with_standard(
        features: &FeatureChoice,
        diffusion: &str,
        data: &Dataset,
        units: &Standardization,
    ) -> Result<(Basis, Basis)> {
        let basis = Basis::centred(features, diffusion, data, Some(&units.mean))?;
        let shared = Arc::new(units.clone());
        let of_standard = |all: &[Expression]| all.iter().map(|e| e.of_standard(&shared)).collect();
        let standard = Basis::of_expressions(
            of_standard(&basis.features),
            of_standard(&basis.diffusion),
            &units.apply(data),
        )?;
        Ok((basis, standard))
    }

    fn of_expressions(
        features: Vec<Expression>,
        diffusion: Vec<Expression>,
        data: &Dataset,
    ) -> Result<Basis> {
        let names = data.names();
        let x = data.samples();
        let (centre, spread) = moments(x);
        let range = |j: usize| {
            let values = (0..x.rows()).map(|i| x[(i, j)]);
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)))
        };
        let ranges: Vec<(f64, f64)> = (0..data.dim()).map(range).collect();
        let mut basis = Basis {
            scales: vec![1.0; features.len()],
            features,
            diffusion,
            centre,
            spread,
            low: ranges.iter().map(|(low, high)| low - MARGIN * (high - low)).collect(),
            high: ranges.iter().map(|(low, high)| high + MARGIN * (high - low)).collect(),
        };
        if let Some(j) = (0..data.dim()).find(|&j| !is_spread(basis.spread[j], basis.centre[j])) {
            return Err(Error::invalid(format!(
                "variable '{}' is constant, expected one that varies",
                names[j]
            )));
        }
        let values = basis.features_of(x);
        let (means, scales) = moments(&values);
        for (p, feature) in basis.features.iter().enumerate() {
            let found = if !means[p].is_finite() || !scales[p].is_finite() {
                "not finite everywhere"
            } else if !is_spread(scales[p], means[p]) {
                "constant"
            } else {
                continue;
            };
            return Err(Error::invalid(format!(
                "the feature '{}' is {found} on the data, expected one that varies and is finite",
                feature.text()
            )));
        }
        basis.scales = scales;
        let amounts = basis.diffusion_of(x);
        for (at, value) in amounts.as_slice().iter().enumerate() {
            if !(*value >= 0.0 && value.is_finite()) {
                let (j, k) = (at % amounts.cols() / basis.diffusion.len(), at % basis.diffusion.len());
                return Err(Error::invalid(format!(
                    "the diffusion '{}' is {value} for variable '{}' in row {}, expected at least 0",
                    basis.diffusion[k].text(),
                    names[j],
                    at / amounts.cols()
                )));
            }
        }
        for j in 0..data.dim() {
            let at = j * basis.diffusion.len();
            if (0..x.rows()).all(|i| amounts[(i, at)] == 0.0) {
                return Err(Error::invalid(format!(
                    "the first diffusion, '{}', is 0 for variable '{}', expected a noise that is there",
                    basis.diffusion[0].text(),
                    names[j]
                )));
            }
        }
        Ok(basis)
    }

    /// The number of variables.
    pub fn dim(&self) -> usize {
        self.low.len()
    }

    /// The number of functions f_p.
    pub fn features(&self) -> usize {
        self.features.len()
    }

    /// f_p as text.
    pub fn feature(&self, p: usize) -> &str {
        self.features[p].text()
    }

    /// The number of functions g_k.
    pub fn amounts(&self) -> usize {
        self.diffusion.len()
    }

    /// Whether the diffusion is the same everywhere.
    pub fn has_constant_diffusion(&self) -> bool {
        self.diffusion.len() == 1 && self.diffusion[0].is_one()
    }

    /// The variables that f_p depends on.
    pub fn variables(&self, p: usize) -> &BTreeSet<usize> {
        self.features[p].variables()
    }

    /// Whether f_p depends on nothing but variable j.
    pub fn is_own(&self, p: usize, j: usize) -> bool {
        self.features[p].variables().iter().eq([&j])
    }

    /// f_p at a point, which is taken as it is.
    pub fn feature_at(&self, p: usize, x: &[f64]) -> f64 {
        self.features[p].at(x, 0)
    }

    /// g_k at a point for variable j.
    pub fn diffusion_at(&self, k: usize, j: usize, x: &[f64]) -> f64 {
        self.diffusion[k].at(x, j)
    }

    /// f_p at many points; `x` has the entries of a variable contiguous, as many as `out` has. `pool` is space.
    pub(crate) fn fill_feature(&self, p: usize, x: &[f64], out: &mut [f64], pool: &mut Vec<Vec<f64>>) {
        self.features[p].fill(x, 0, out, pool);
    }

    /// The same for g_k of variable j.
    pub(crate) fn fill_diffusion(
        &self,
        k: usize,
        j: usize,
        x: &[f64],
        out: &mut [f64],
        pool: &mut Vec<Vec<f64>>,
    ) {
        self.diffusion[k].fill(x, j, out, pool);
    }

    /// All features of all rows, n × p.
    pub fn features_of(&self, x: &Matrix<f64>) -> Matrix<f64> {
        filled(x, self.features.len(), |p, x, out, pool| self.fill_feature(p, x, out, pool))
    }

    /// All diffusions of all rows, n × (d·m), those of a variable side by side.
    pub fn diffusion_of(&self, x: &Matrix<f64>) -> Matrix<f64> {
        let m = self.diffusion.len();
        filled(x, self.dim() * m, |at, x, out, pool| self.fill_diffusion(at % m, at / m, x, out, pool))
    }

    pub(crate) fn to_written(&self) -> Written {
        let texts = |all: &[Expression]| all.iter().map(|e| e.text().to_owned()).collect();
        Written {
            features: texts(&self.features),
            diffusion: texts(&self.diffusion),
            scales: self.scales.clone(),
            centre: self.centre.clone(),
            spread: self.spread.clone(),
            low: self.low.clone(),
            high: self.high.clone(),
        }
    }

    pub(crate) fn from_written(written: Written, names: &[String]) -> Result<Basis> {
        let Written { features, diffusion, scales, centre, spread, low, high } = written;
        if features.len() > MOST || diffusion.len() > MOST_DIFFUSIONS {
            return Err(Error::invalid(format!(
                "found {} features and {} diffusions, expected at most {MOST} and {MOST_DIFFUSIONS}",
                features.len(),
                diffusion.len()
            )));
        }
        let variables = Variables::new(names);
        let parse = |all: &[String], own: bool| {
            all.iter().map(|text| Expression::parse(text, &variables, own)).collect::<Result<Vec<_>>>()
        };
        let (features, diffusion) = (parse(&features, false)?, parse(&diffusion, true)?);
        let d = names.len();
        let fits = scales.len() == features.len()
            && [&centre, &spread, &low, &high].iter().all(|list| list.len() == d)
            && !diffusion.is_empty();
        let positive = scales.iter().chain(&spread).all(|s| *s > 0.0 && s.is_finite());
        let ordered = (0..d).all(|j| fits && low[j].is_finite() && high[j].is_finite() && low[j] < high[j]);
        if !(fits && positive && ordered && centre.iter().all(|c| c.is_finite())) {
            return Err(Error::invalid(format!(
                "found lists of other lengths or signs, expected one scale above 0 per feature and numbers for {d} variables"
            )));
        }
        Ok(Basis { features, diffusion, scales, centre, spread, low, high })
    }
}

/// n × `count`: what `fill` makes of all rows of x for each column.
fn filled(
    x: &Matrix<f64>,
    count: usize,
    fill: impl Fn(usize, &[f64], &mut [f64], &mut Vec<Vec<f64>>),
) -> Matrix<f64> {
    let (n, d) = (x.rows(), x.cols());
    let by_variable: Vec<f64> = (0..d).flat_map(|j| (0..n).map(move |i| x[(i, j)])).collect();
    let (mut columns, mut pool) = (vec![0.0; n * count], Vec::new());
    columns
        .chunks_exact_mut(n)
        .enumerate()
        .for_each(|(column, out)| fill(column, &by_variable, out, &mut pool));
    Matrix::from_fn(n, count, |i, column| columns[column * n + i])
}

/// Whether a deviation is more than rounding.
fn is_spread(deviation: f64, mean: f64) -> bool {
    deviation > 1e-12 * mean.abs().max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data() -> Dataset {
        let x = Matrix::from_fn(50, 2, |i, j| (0.7 * i as f64 + 2.0 * j as f64).sin() * (1.0 + j as f64));
        Dataset::from_environments(vec![x]).unwrap()
    }

    #[test]
    fn a_basis_survives_its_file() {
        let basis = Basis::new(&"rbf:3".parse().unwrap(), "1, self^2", &data()).unwrap();
        assert_eq!((basis.features(), basis.amounts(), basis.dim()), (8, 2, 2));
        let text = serde_json::to_string(&basis.to_written()).unwrap();
        let back = Basis::from_written(serde_json::from_str(&text).unwrap(), data().names()).unwrap();
        assert_eq!(back, basis);
        let x = [0.3, -0.9];
        assert_eq!(basis.diffusion_at(1, 1, &x), 0.81);
        assert!(basis.is_own(0, 0) && !basis.is_own(0, 1));
    }

    #[test]
    fn functions_that_say_nothing_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("features.txt");
        for (features, diffusion, piece) in [
            ("x0\n3*2", "1", "'3*2' is constant"),
            ("log(x0)", "1", "'log(x0)' is not finite everywhere"),
            ("x0", "self", "expected at least 0"),
            ("x0", "0*self, 1", "expected a noise that is there"),
            ("x0", "", "expected a number"),
            ("x0", &"1,".repeat(400_000), "400001 expressions, expected at most 100"),
            ("x7", "1", "unknown variable 'x7'"),
            ("# nothing\n\n", "1", "no features"),
        ] {
            std::fs::write(&file, features).unwrap();
            let choice = file.to_str().unwrap().parse().unwrap();
            let sentence = Basis::new(&choice, diffusion, &data()).unwrap_err().to_string();
            assert!(sentence.contains(piece), "{sentence}");
        }
        let missing = "no-such-file".parse().unwrap();
        assert!(Basis::new(&missing, "1", &data()).is_err());
    }
}
