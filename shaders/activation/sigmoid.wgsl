// γ(z) = 1 / (1 + e^−z), and γ' by the value of γ. Only e^−|z| is computed, which cannot overflow: a compiler may assume
// that there is no infinity. A NaN stays one, which clamping z would lose.
fn activate(z: vec4<f32>) -> vec4<f32> {
    let small = exp(-abs(z));
    return select(small, vec4<f32>(1.0), z >= vec4<f32>(0.0)) / (1.0 + small);
}
fn slope(value: vec4<f32>) -> vec4<f32> { return value * (1.0 - value); }
