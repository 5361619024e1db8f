// γ(z) = max(z, 0), with derivative 0 at 0.
fn activate(z: vec4<f32>) -> vec4<f32> { return max(z, vec4<f32>(0.0)); }
fn slope(value: vec4<f32>) -> vec4<f32> { return select(vec4<f32>(0.0), vec4<f32>(1.0), value > vec4<f32>(0.0)); }
