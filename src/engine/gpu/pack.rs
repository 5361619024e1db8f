//! Between the host's arrays and the device's rows of vec4, padded with zeros.

use super::form::Form;
use crate::Scalar;
use crate::model::{Drift, Noise, Parameters, REFUSED};
use glam::Vec4;

/// `rows` rows of `width` numbers as quads.
pub fn rows(values: impl Iterator<Item = f32>, width: usize) -> Vec<Vec4> {
    let mut quads = Vec::new();
    let mut quad = [0.0; 4];
    let mut at = 0;
    for value in values {
        quad[at % 4] = value;
        at += 1;
        if at % 4 == 0 || at == width {
            quads.push(Vec4::from_array(std::mem::take(&mut quad)));
        }
        if at == width {
            at = 0;
        }
    }
    quads
}

/// Every array of parameters with the place where it begins, in quads, and the length of its rows. Missing
/// interventions have none.
macro_rules! arrays {
    ($parameters:expr, $form:expr, $slice:ident, $deref:ident $(, $mutable:tt)?) => {{
        let (places, _) = $form.places();
        let (d, h) = ($form.dim, $form.units_per_variable());
        let mut all = Vec::new();
        match &$($mutable)? $parameters.drift {
            Drift::Basis { .. } => unreachable!("{REFUSED}"),
            Drift::Linear { weights } => all.push((places.weights, d, weights.$slice())),
            Drift::Mlp { hidden_weights, hidden_biases, output_weights, .. } => {
                all.push((places.weights, d, hidden_weights.$slice()));
                all.push((places.hidden_biases, d * h, hidden_biases.$slice()));
                all.push((places.output, d * h, output_weights.$slice()));
            }
        }
        all.push((places.biases, d, $parameters.biases.$deref()));
        match &$($mutable)? $parameters.noise {
            Noise::Basis { .. } => unreachable!("{REFUSED}"),
            Noise::Diagonal { log_noise } => all.push((places.noise, d, log_noise.$deref())),
            Noise::Full { noise } => all.push((places.noise, d, noise.$slice())),
        }
        if let Some(shift) = &$($mutable)? $parameters.shift {
            all.push((places.shift, d, shift.$slice()));
        }
        if let Some(log_scale) = &$($mutable)? $parameters.log_scale {
            all.push((places.scale, d, log_scale.$slice()));
        }
        all
    }};
}

/// All parameters as the device holds them.
pub fn parameters<T: Scalar>(parameters: &Parameters<T>, form: &Form) -> Vec<Vec4> {
    let mut quads = vec![Vec4::ZERO; form.places().1 as usize];
    for (place, width, values) in arrays!(parameters, form, as_slice, as_slice) {
        let packed = rows(values.iter().map(|v| v.to_f64() as f32), width);
        quads[place as usize..place as usize + packed.len()].copy_from_slice(&packed);
    }
    quads
}

/// The way back.
pub fn unpack<T: Scalar>(quads: &[f32], form: &Form, parameters: &mut Parameters<T>) {
    for (place, width, values) in arrays!(parameters, form, as_mut_slice, as_mut_slice, mut) {
        let stride = width.next_multiple_of(4);
        let rows = quads[place as usize * 4..].chunks(stride);
        for (out, row) in values.chunks_mut(width).zip(rows) {
            out.iter_mut().zip(row).for_each(|(out, value)| *out = T::from_f64(f64::from(*value)));
        }
    }
}

/// The name and position of the parameter that number `at` of the packed parameters is, if it is one.
pub fn name_of<T: Scalar>(
    parameters: &Parameters<T>,
    form: &Form,
    at: usize,
) -> Option<(&'static str, usize)> {
    let names: Vec<_> = parameters.tensors().iter().map(|t| t.name).collect();
    for ((place, width, values), name) in arrays!(parameters, form, as_slice, as_slice).into_iter().zip(names)
    {
        let stride = width.next_multiple_of(4);
        let (first, count) = (place as usize * 4, values.len() / width * stride);
        if at >= first && at < first + count && (at - first) % stride < width {
            return Some((name, (at - first) / stride * width + (at - first) % stride));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Matrix;
    use crate::model::Activation;

    fn example(full: bool) -> Parameters<f64> {
        let mut next = 0.0;
        let mut matrix = |rows, cols| {
            Matrix::from_fn(rows, cols, |_, _| {
                next += 1.0;
                next
            })
        };
        let drift = Drift::Mlp {
            activation: Activation::Relu,
            hidden_weights: matrix(15, 5),
            hidden_biases: matrix(5, 3),
            output_weights: matrix(5, 3),
        };
        let noise = match full {
            true => Noise::Full { noise: matrix(5, 5) },
            false => Noise::Diagonal { log_noise: matrix(1, 5).as_slice().to_vec() },
        };
        let biases = matrix(1, 5).as_slice().to_vec();
        Parameters { drift, biases, noise, shift: Some(matrix(2, 5)), log_scale: Some(matrix(2, 5)) }
    }

    #[test]
    fn what_is_packed_comes_back_and_padding_is_zero() {
        for full in [false, true] {
            let original = example(full);
            let form = Form::of(&original, 2);
            let packed = parameters(&original, &form);
            let flat: &[f32] = bytemuck::cast_slice(&packed);
            let numbers: usize = original.tensors().iter().map(|t| t.values.len()).sum();
            assert_eq!(flat.iter().filter(|v| **v != 0.0).count(), numbers);
            let mut back = original.zeros_like();
            unpack(flat, &form, &mut back);
            assert_eq!(back, original);
        }
    }

    #[test]
    fn every_number_has_a_name_and_padding_has_none() {
        let original = example(false);
        let form = Form::of(&original, 2);
        let packed = parameters(&original, &form);
        let flat: &[f32] = bytemuck::cast_slice(&packed);
        for (at, value) in flat.iter().enumerate() {
            match name_of(&original, &form, at) {
                Some((name, entry)) => {
                    let tensors = original.tensors();
                    let tensor = tensors.iter().find(|t| t.name == name).unwrap();
                    assert_eq!(tensor.values[entry] as f32, *value);
                }
                None => assert_eq!(*value, 0.0),
            }
        }
    }
}
