//! Families of features by name, and lists of them in files.

use super::MOST;
use super::expression::{Expression, Variables, written};
use crate::data::Dataset;
use crate::files::input;
use crate::{Error, Result};
use std::path::PathBuf;

/// Which functions of the state a drift is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeatureChoice {
    /// All products of variables up to this degree.
    Polynomial(u32),
    /// Every variable, and this many Gaussian bumps along each, centred on quantiles of the data.
    Rbf(usize),
    /// A file with one expression per line; `#` begins a comment.
    File(PathBuf),
}

impl std::fmt::Display for FeatureChoice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FeatureChoice::Polynomial(degree) => write!(f, "polynomial:{degree}"),
            FeatureChoice::Rbf(count) => write!(f, "rbf:{count}"),
            FeatureChoice::File(path) => path.display().fmt(f),
        }
    }
}

impl std::str::FromStr for FeatureChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = |expected: &str| Error::invalid(format!("features are '{text}', expected {expected}"));
        match text.split_once(':') {
            Some(("polynomial", degree)) => match degree.parse() {
                Ok(degree @ 1..=9) => Ok(FeatureChoice::Polynomial(degree)),
                _ => Err(wrong("polynomial:K with a degree K from 1 to 9")),
            },
            Some(("rbf", count)) => match count.parse() {
                Ok(count @ 1..=100) => Ok(FeatureChoice::Rbf(count)),
                _ => Err(wrong("rbf:K with a number K of bumps from 1 to 100")),
            },
            _ if matches!(text, "" | "polynomial" | "rbf") => {
                Err(wrong("polynomial:K, rbf:K or the name of a file"))
            }
            _ => Ok(FeatureChoice::File(text.into())),
        }
    }
}

impl FeatureChoice {
    /// The functions themselves. Families are made of deviations from `centre`, if there is one: then they span the same
    /// functions, equally well apart, wherever the data lies.
    pub(super) fn expressions(&self, data: &Dataset, centre: Option<&[f64]>) -> Result<Vec<Expression>> {
        let names: Vec<String> = data.names().iter().map(|name| written(name)).collect();
        let deviations: Vec<String> = match centre {
            Some(centre) => names.iter().zip(centre).map(|(name, mean)| deviation(name, *mean)).collect(),
            None => names.clone(),
        };
        let texts: Vec<String> = match self {
            FeatureChoice::Polynomial(degree) => monomials(&deviations, *degree)?,
            FeatureChoice::Rbf(count) => {
                let bumps = names.iter().enumerate().flat_map(|(j, name)| bumps(data, j, name, *count));
                deviations.into_iter().chain(bumps).collect()
            }
            FeatureChoice::File(path) => {
                let text = input::text(path)?;
                let lines = text.lines().map(|line| line.split('#').next().unwrap_or("").trim());
                let kept: Vec<String> = lines.filter(|line| !line.is_empty()).map(String::from).collect();
                if kept.is_empty() {
                    return Err(Error::file(path, "has no features, expected one expression per line"));
                }
                kept
            }
        };
        if texts.len() > MOST {
            return Err(Error::invalid(format!(
                "found {} features of {} variables, expected at most {MOST}",
                texts.len(),
                data.dim()
            )));
        }
        let variables = Variables::new(data.names());
        texts.iter().map(|text| Expression::parse(text, &variables, false)).collect()
    }
}

/// A variable less its mean.
fn deviation(name: &str, mean: f64) -> String {
    match mean {
        0.0 => name.to_owned(),
        mean if mean < 0.0 => format!("({name} + {:?})", -mean),
        mean => format!("({name} - {mean:?})"),
    }
}

/// All products of 1 to `degree` variables.
fn monomials(names: &[String], degree: u32) -> Result<Vec<String>> {
    // Each as the list of its variables, in order; the next degree multiplies by one that is not before the last.
    let mut all: Vec<Vec<usize>> = Vec::new();
    let mut last: Vec<Vec<usize>> = vec![vec![]];
    for _ in 0..degree {
        let mut next = Vec::new();
        for product in &last {
            for j in product.last().copied().unwrap_or(0)..names.len() {
                next.push([product.as_slice(), &[j]].concat());
                if all.len() + next.len() > MOST {
                    return Err(Error::invalid(format!(
                        "found more than {MOST} products of {} variables up to degree {degree}, expected fewer: \
                         list those you want in a file",
                        names.len()
                    )));
                }
            }
        }
        all.extend(next.iter().cloned());
        last = next;
    }
    let text = |product: &Vec<usize>| {
        let mut factors: Vec<String> = Vec::new();
        for chunk in product.chunk_by(|a, b| a == b) {
            let name = &names[chunk[0]];
            factors.push(if chunk.len() == 1 { name.clone() } else { format!("{name}^{}", chunk.len()) });
        }
        factors.join("*")
    };
    Ok(all.iter().map(text).collect())
}

/// Gaussian bumps along variable j, centred on quantiles and as wide as these lie apart.
fn bumps(data: &Dataset, j: usize, name: &str, count: usize) -> Vec<String> {
    let x = data.samples();
    let mut values: Vec<f64> = (0..x.rows()).map(|i| x[(i, j)]).collect();
    values.sort_by(f64::total_cmp);
    let quantile = |share: f64| values[(share * (values.len() - 1) as f64).round() as usize];
    let centres: Vec<f64> = (0..count).map(|k| quantile((k as f64 + 0.5) / count as f64)).collect();
    let width = (quantile(0.975) - quantile(0.025)) / count as f64;
    centres.iter().map(|centre| format!("exp(-0.5*(({name} - {centre:?})/{width:?})^2)")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_have_names() {
        for text in ["polynomial:3", "rbf:10", "my/features.txt"] {
            assert_eq!(text.parse::<FeatureChoice>().unwrap().to_string(), text);
        }
        for text in ["polynomial:0", "polynomial:two", "polynomial:10", "rbf:0", "rbf:-1", "rbf", ""] {
            assert!(text.parse::<FeatureChoice>().is_err(), "{text}");
        }
    }

    #[test]
    fn polynomials_have_every_product_once() {
        let names = ["a".to_owned(), "b".to_owned()];
        let expected = ["a", "b", "a^2", "a*b", "b^2", "a^3", "a^2*b", "a*b^2", "b^3"];
        assert_eq!(monomials(&names, 3).unwrap(), expected);
        let many: Vec<String> = (0..200).map(|j| format!("x{j}")).collect();
        let sentence = monomials(&many, 2).unwrap_err().to_string();
        assert!(sentence.contains("more than 5000 products of 200 variables"), "{sentence}");
    }
}
