// γ(z) = 1 / (1 + e^−z), and γ' by the value of γ.
fn activate(z: vec4<f32>) -> vec4<f32> { return 1.0 / (1.0 + exp(-z)); }
fn slope(value: vec4<f32>) -> vec4<f32> { return value * (1.0 - value); }
