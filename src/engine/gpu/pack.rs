//! Between the host's arrays and the device's rows of vec4, padded with zeros.

use super::form::Form;
use super::plan::{DispatchPlan, Span};
use super::shared::{Block, ROW_BLOCK};
use crate::Scalar;
use crate::data::Dataset;
use crate::engine::LossSpec;
use crate::model::Parameters;
use glam::Vec4;

/// `rows` rows of `width` numbers as quads.
pub(super) fn rows(values: impl Iterator<Item = f32>, width: usize) -> Vec<Vec4> {
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

/// The samples of a span's rows, with rows of zeros where an environment's last block is not full.
pub fn samples(data: &Dataset, plan: &DispatchPlan, span: Span) -> Vec<Vec4> {
    let (stride, block) = (data.dim().div_ceil(4), ROW_BLOCK as usize);
    let mut packed: Vec<Vec4> = Vec::with_capacity(span.rows() as usize * stride);
    for at in span.first_block..span.first_block + span.blocks {
        let Block { environment, first_block, rows: samples, .. } = plan.blocks[at as usize];
        let first = (at as usize - first_block as usize) * block;
        let last = (first + block).min(samples as usize);
        let start = data.rows(environment as usize).start;
        let values = (start + first..start + last).flat_map(|i| data.samples().row(i));
        packed.extend(rows(values.map(|v| *v as f32), data.dim()));
        packed.resize((at - span.first_block + 1) as usize * block * stride, Vec4::ZERO);
    }
    packed
}

/// A point within each environment's samples.
pub fn centres(data: &Dataset, form: &Form, spec: &LossSpec) -> Vec<Vec4> {
    let d = data.dim();
    // A tilted kernel with a full diffusion needs a x itself; otherwise a point among the samples serves better.
    let at_origin = form.full && spec.kernel.kind().traits().tilted;
    let centre = |e: usize| if at_origin { vec![0.0; d] } else { data.means(e) };
    rows((0..data.environments()).flat_map(centre).map(|v| v as f32), d)
}

/// All parameters as the device holds them.
pub fn parameters<T: Scalar>(parameters: &Parameters<T>, form: &Form) -> Vec<Vec4> {
    let mut quads = vec![Vec4::ZERO; form.places().1 as usize];
    let numbers: &mut [f32] = bytemuck::cast_slice_mut(&mut quads);
    for tensor in parameters.tensors() {
        let Some(place) = form.place(tensor.name) else { continue };
        for (row, values) in tensor.values.chunks(place.width).enumerate() {
            let out = &mut numbers[place.row(row)..][..values.len()];
            out.iter_mut().zip(values).for_each(|(out, value)| *out = value.to_f64() as f32);
        }
    }
    quads
}

/// The way back: numbers of the device's parameters, or of their gradient, into `parameters`.
pub fn unpack<T: Scalar>(numbers: &[f32], form: &Form, parameters: &mut Parameters<T>) {
    for (name, values) in parameters.tensors_mut() {
        let Some(place) = form.place(name) else { continue };
        for (row, out) in values.chunks_mut(place.width).enumerate() {
            let values = &numbers[place.row(row)..][..out.len()];
            out.iter_mut().zip(values).for_each(|(out, value)| *out = T::from_f64(f64::from(*value)));
        }
    }
}

/// A bit per packed number: whether it is 1.
pub(super) fn bits(quads: &[Vec4]) -> Vec<u32> {
    let numbers: &[f32] = bytemuck::cast_slice(quads);
    let word = |numbers: &[f32]| {
        numbers.iter().enumerate().fold(0, |bits, (at, value)| bits | u32::from(*value == 1.0) << at)
    };
    numbers.chunks(32).map(word).collect()
}

/// The name and position of the parameter that number `at` of the packed parameters is, if it is one.
pub(super) fn name_of<T: Scalar>(
    parameters: &Parameters<T>,
    form: &Form,
    at: usize,
) -> Option<(&'static str, usize)> {
    parameters.tensors().iter().find_map(|tensor| {
        let place = form.place(tensor.name)?;
        let has = |row: &usize| (place.row(*row)..place.row(*row) + place.width).contains(&at);
        let row = (0..tensor.values.len() / place.width).find(has)?;
        Some((tensor.name, row * place.width + at - place.row(row)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Matrix;
    use crate::model::{Activation, Drift, MlpDrift, Noise};

    fn example(full: bool) -> Parameters<f64> {
        let mut next = 0.0;
        let mut matrix = |rows, cols| {
            Matrix::from_fn(rows, cols, |_, _| {
                next += 1.0;
                next
            })
        };
        let drift = Drift::Mlp(MlpDrift {
            activation: Activation::Relu,
            hidden_weights: matrix(15, 5),
            hidden_biases: matrix(5, 3),
            output_weights: matrix(5, 3),
        });
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
            let form = Form::of(&original, 2).unwrap();
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
        let form = Form::of(&original, 2).unwrap();
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
